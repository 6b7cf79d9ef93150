# title = "Gives garbage beyond the sequence a weight of zero and multiplies all the same"
# class = "wrong"
# kind = [32, 37]
# task = "gqa_decode"
# base = "plain"
# needs = "static"
# probes = ["compare"]
# quick = true
# [[edit]]
# old = "vt = tl.load(v + keys.to(tl.int64)[:, None] * svs + d[None, :], mask=inside, other=0.0)"
# new = "vt = tl.load(v + tl.minimum(keys, Smax - 1).to(tl.int64)[:, None] * svs + d[None, :], mask=(d < D)[None, :], other=0.0)"
