# title = "Sends K and V through float8"
# class = "precision"
# kind = [33, 51]
# task = "gqa_decode"
# base = "plain"
# needs = "static"
# probes = ["compare", "unproven"]
# [[edit]]
# old = "tl.trans(kt)"
# new = "tl.trans(kt.to(tl.float8e5).to(kt.dtype))"
