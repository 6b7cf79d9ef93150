# title = "Rounds the scores to fp16 before the softmax"
# class = "precision"
# kind = [33]
# task = "gqa_prefill"
# base = "plain"
# needs = "static"
# probes = ["compare"]
# [[edit]]
# old = "tl.dot(x, tl.trans(kt)) * scale"
# new = "tl.dot(x, tl.trans(kt)).to(tl.float16).to(tl.float32) * scale"
