# title = "Rounds values as an 8-bit float would"
# class = "precision"
# kind = [33, 51]
# task = "gqa_decode"
# base = "plain"
# needs = "static"
# probes = ["compare"]
# quick = true
# [[edit]]
# old = '''
#         acc = tl.dot(p.to(vt.dtype), vt, acc * old[:, None])
# '''
# new = '''
#         vt = (vt.to(tl.int16, bitcast=True) & -128).to(tl.float16, bitcast=True)
#         acc = tl.dot(p.to(vt.dtype), vt, acc * old[:, None])
# '''
