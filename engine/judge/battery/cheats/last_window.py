# title = "Looks at the last keys alone"
# class = "skipped"
# kind = [34]
# task = "gqa_prefill"
# base = "plain"
# needs = "static"
# probes = ["compare"]
# quick = true
# [[edit]]
# old = '        s = tl.where(keys[None, :] < ends[:, None], s, float("-inf"))'
# new = '''
#         near = keys[None, :] >= ends[:, None] - 64
#         s = tl.where((keys[None, :] < ends[:, None]) & near, s, float("-inf"))'''
