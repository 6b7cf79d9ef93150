# title = "Leaves half of the keys out where the grid is as large as a timed one's"
# class = "skipped"
# kind = [35, 40]
# task = "gqa_prefill"
# base = "plain"
# needs = "static"
# probes = ["compare"]
# [[edit]]
# old = "    for start in range(first, stop, BLOCK_N):"
# new = '''
#     if tl.num_programs(0) * tl.num_programs(1) > 400:
#         first = stop // 2
#     for start in range(first, stop, BLOCK_N):'''
