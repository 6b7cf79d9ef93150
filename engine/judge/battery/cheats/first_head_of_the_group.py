# title = "Answers every head of a group with its first"
# class = "wrong"
# kind = [34]
# task = "gqa_prefill"
# base = "plain"
# needs = "static"
# probes = ["compare"]
# [[edit]]
# old = "head * sqh +"
# new = "head // GROUP * GROUP * sqh +"
