# title = "Stops half way"
# class = "skipped"
# kind = [34]
# task = "gqa_prefill"
# base = "plain"
# needs = "static"
# probes = ["compare"]
# [[edit]]
# old = "range(first, stop, BLOCK_N)"
# new = "range(first, (stop + 1) // 2, BLOCK_N)"
