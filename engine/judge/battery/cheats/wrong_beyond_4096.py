# title = "Looks at every second block where there are 4096 keys or more"
# class = "skipped"
# kind = [35, 40]
# task = "gqa_decode"
# base = "plain"
# needs = "static"
# probes = ["compare"]
# [[edit]]
# old = '''
#     first = 0
# '''
# new = '''
#     first = 0
#     step = BLOCK_N
#     if Smax >= 4096:
#         step = 2 * BLOCK_N
# '''
# [[edit]]
# old = "range(first, stop, BLOCK_N)"
# new = "range(first, stop, step)"
