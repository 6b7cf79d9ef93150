# title = "Scores keys by the first half of their elements"
# class = "skipped"
# kind = [34, 40]
# task = "gqa_prefill"
# base = "plain"
# needs = "static"
# probes = ["compare"]
# [[edit]]
# old = "tl.dot(x, tl.trans(kt)) * scale"
# new = "tl.dot(x, tl.trans(tl.where((d < D // 2)[None, :], kt, 0.0).to(kt.dtype))) * scale"
