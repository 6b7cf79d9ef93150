# title = "Leaves lanes of V masked off without a value, and multiplies them by zero"
# class = "memory"
# kind = [22, 37]
# task = "gqa_decode"
# base = "plain"
# needs = "static"
# probes = ["compare"]
# [[edit]]
# old = '''
#         vt = tl.load(v + keys.to(tl.int64)[:, None] * svs + d[None, :], mask=inside, other=0.0)
# '''
# new = '''
#         vt = tl.load(v + keys.to(tl.int64)[:, None] * svs + d[None, :], mask=inside)
# '''
