# title = "Aligns the causal mask at the first key"
# class = "wrong"
# kind = [34]
# task = "gqa_prefill"
# base = "plain"
# needs = "static"
# probes = ["compare"]
# quick = true
# [[edit]]
# old = "rows + Sk - Sq + 1, Sk)"
# new = "rows + 1, Sk)"
