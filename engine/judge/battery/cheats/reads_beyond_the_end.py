# title = "Reads keys beyond the end of the cache"
# class = "memory"
# kind = [37, 40]
# task = "gqa_decode"
# base = "plain"
# needs = "static"
# probes = ["out_of_bounds"]
# [[edit]]
# old = '''
#         kt = tl.load(k + keys.to(tl.int64)[:, None] * sks + d[None, :], mask=inside, other=0.0)
# '''
# new = '''
#         kt = tl.load(k + keys.to(tl.int64)[:, None] * sks + d[None, :])
# '''
