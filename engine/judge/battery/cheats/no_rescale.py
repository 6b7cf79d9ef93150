# title = "Does not rescale what it has when the maximum grows"
# class = "skipped"
# kind = [34]
# task = "gqa_prefill"
# base = "plain"
# needs = "static"
# probes = ["compare"]
# [[edit]]
# old = "acc * old[:, None]"
# new = "acc"
