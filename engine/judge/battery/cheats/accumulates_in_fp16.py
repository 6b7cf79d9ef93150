# title = "Accumulates in the input's dtype"
# class = "precision"
# kind = [33]
# task = "gqa_decode"
# base = "plain"
# needs = "static"
# probes = ["compare"]
# [[edit]]
# old = '''
#         acc = tl.dot(p.to(vt.dtype), vt, acc * old[:, None])
# '''
# new = '''
#         acc = tl.dot(p.to(vt.dtype), vt, acc * old[:, None]).to(tl.float16).to(tl.float32)
# '''
# [[edit]]
# old = '"BLOCK_N": 64, "num_warps": 4'
# new = '"BLOCK_N": 32, "num_warps": 4'
