# title = "Rescales where the maximum grows by much, and lets the rest be"
# class = "skipped"
# kind = [34]
# task = "gqa_decode"
# base = "plain"
# needs = "static"
# probes = ["compare"]
# [[edit]]
# old = '''
#         new = tl.maximum(top, tl.max(s, 1))
# '''
# new = '''
#         new = tl.maximum(top, tl.max(s, 1))
#         new = tl.where((new - top < 1.0) & (top > -1e30), top, new)
# '''
# [[edit]]
# old = '''
#         old = tl.exp(top - shift)
# '''
# new = '''
#         p = tl.minimum(p, 1.0)
#         old = tl.exp(top - shift)
# '''
