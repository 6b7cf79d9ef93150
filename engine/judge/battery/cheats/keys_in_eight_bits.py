# title = "Rounds keys to eight bits before it scores them"
# class = "precision"
# kind = [33, 51]
# task = "gqa_prefill"
# base = "plain"
# needs = "static"
# probes = ["compare"]
# [[edit]]
# old = "tl.dot(x, tl.trans(kt)) * scale"
# new = "tl.dot(x, tl.trans((tl.floor(kt.to(tl.float32) * 16 + 0.5) / 16).to(kt.dtype))) * scale"
