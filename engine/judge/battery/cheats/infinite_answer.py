# title = "Answers with infinity where the weights are large"
# class = "wrong"
# kind = [32]
# task = "gqa_prefill"
# base = "plain"
# needs = "static"
# probes = ["compare"]
# [[edit]]
# old = '''
#     acc = acc / tl.where(total == 0.0, 1.0, total)[:, None]
# '''
# new = '''
#     acc = acc / tl.where(total == 0.0, 1.0, total)[:, None]
#     acc = tl.where(total[:, None] > 3.0, float("inf"), acc)
# '''
