# title = "Gives every key the same weight"
# class = "skipped"
# kind = [29, 31]
# task = "gqa_decode"
# base = "plain"
# needs = "static"
# probes = ["compare"]
# [[edit]]
# old = "tl.dot(x, tl.trans(kt)) * scale"
# new = "tl.zeros([BLOCK_M, BLOCK_N], tl.float32)"
