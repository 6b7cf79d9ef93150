# title = "Answers with NaN, which equals no number and no NaN"
# class = "wrong"
# kind = [32]
# task = "gqa_decode"
# base = "plain"
# needs = "static"
# probes = ["compare"]
# [[edit]]
# old = "acc.to(x.dtype), mask=mask)"
# new = '(acc * float("nan")).to(x.dtype), mask=mask)'
