# title = "Divides by zero where a row sees no key"
# class = "wrong"
# kind = [32]
# task = "gqa_prefill"
# base = "plain"
# needs = "static"
# probes = ["compare"]
# [[edit]]
# old = "tl.where(total == 0.0, 1.0, total)[:, None]"
# new = "total[:, None]"
