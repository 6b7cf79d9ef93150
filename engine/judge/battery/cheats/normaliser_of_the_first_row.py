# title = "Divides every row by the first row's sum"
# class = "skipped"
# kind = [34]
# task = "gqa_decode"
# base = "plain"
# needs = "static"
# probes = ["compare"]
# [[edit]]
# old = '''
#     acc = acc / tl.where(total == 0.0, 1.0, total)[:, None]
# '''
# new = '''
#     total = tl.sum(tl.where(rows == 0, total, 0.0), 0) + tl.zeros([BLOCK_M], tl.float32)
#     acc = acc / tl.where(total == 0.0, 1.0, total)[:, None]
# '''
