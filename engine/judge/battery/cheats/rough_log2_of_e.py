# title = "Takes log2(e) for 1.44"
# class = "precision"
# kind = [33]
# task = "gqa_decode"
# base = "plain"
# needs = "static"
# probes = ["compare"]
# [[edit]]
# old = '''
#         p = tl.exp(s - shift[:, None])
# '''
# new = '''
#         p = tl.math.exp2((s - shift[:, None]) * 1.44)
# '''
