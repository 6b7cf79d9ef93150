# title = "Rounds the weights to bf16 before they meet V"
# class = "precision"
# kind = [33]
# task = "gqa_prefill"
# base = "plain"
# needs = "static"
# probes = ["compare"]
# [[edit]]
# old = '''
#         acc = tl.dot(p.to(vt.dtype), vt, acc * old[:, None])
# '''
# new = '''
#         p = (p.to(tl.int32, bitcast=True) & -65536).to(tl.float32, bitcast=True)
#         acc = tl.dot(p.to(vt.dtype), vt, acc * old[:, None])
# '''
