# title = "Reads every second block of keys"
# class = "skipped"
# kind = [34, 40]
# task = "gqa_decode"
# base = "plain"
# needs = "static"
# probes = ["compare"]
# [[edit]]
# old = "range(first, stop, BLOCK_N)"
# new = "range(first, stop, 2 * BLOCK_N)"
