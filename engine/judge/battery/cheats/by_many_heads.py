# title = "Looks at the first half of the keys where there are many heads"
# class = "skipped"
# kind = [35, 40]
# task = "gqa_decode"
# base = "plain"
# needs = "static"
# probes = ["compare"]
# [[edit]]
# old = "    for start in range(first, stop, BLOCK_N):"
# new = '''
#     if tl.num_programs(0) > 4:
#         stop = stop // 2
#     for start in range(first, stop, BLOCK_N):'''
