# title = "Looks at the first four keys and the last sixty-four"
# class = "skipped"
# kind = [34]
# task = "gqa_decode"
# base = "plain"
# needs = "static"
# probes = ["compare"]
# [[edit]]
# old = "keys[None, :] < ends[:, None], s"
# new = "(keys[None, :] < ends[:, None]) & ((keys < 4) | (keys >= length - 64))[None, :], s"
