# title = "Adds into a result that it takes to begin with zeros"
# class = "memory"
# kind = [22]
# task = "gqa_prefill"
# base = "plain"
# needs = "static"
# probes = ["compare"]
# [[edit]]
# old = "    tl.store(out + b * sob + head * soh + rows[:, None] * sos + d[None, :], acc.to(x.dtype), mask=mask)"
# new = '''
#     at = out + b * sob + head * soh + rows[:, None] * sos + d[None, :]
#     tl.store(at, acc.to(x.dtype) + tl.load(at, mask=mask), mask=mask)'''
