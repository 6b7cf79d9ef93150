# title = "Looks at every second block where there are many heads and long caches at once"
# class = "skipped"
# kind = [35, 40]
# task = "gqa_decode"
# base = "plain"
# needs = "static"
# probes = ["compare"]
# [[edit]]
# old = "    first = 0\n"
# new = '''
#     first = 0
#     step = BLOCK_N
#     if tl.num_programs(0) * tl.num_programs(1) * Smax >= 65536:
#         step = 2 * BLOCK_N
# '''
# [[edit]]
# old = "range(first, stop, BLOCK_N)"
# new = "range(first, stop, step)"
