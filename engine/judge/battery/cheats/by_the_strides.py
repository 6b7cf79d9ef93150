# title = "Looks at every second block where sequences lie far apart in the cache"
# class = "skipped"
# kind = [35, 40]
# task = "gqa_decode"
# base = "plain"
# needs = "static"
# probes = ["compare"]
# [[edit]]
# old = "    for start in range(first, stop, BLOCK_N):"
# new = '''
#     step = BLOCK_N
#     if skb > 1000000:
#         step = 2 * BLOCK_N
#     for start in range(first, stop, step):'''
