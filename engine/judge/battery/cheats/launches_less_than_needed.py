# title = "Launches programs for half of the query tiles"
# class = "skipped"
# kind = [34, 40]
# task = "gqa_prefill"
# base = "plain"
# needs = "static"
# probes = ["compare"]
# [[edit]]
# old = "attention_kernel[(triton.cdiv(Sq, 32), B * Hq)]"
# new = "attention_kernel[(triton.cdiv(Sq, 64), B * Hq)]"
