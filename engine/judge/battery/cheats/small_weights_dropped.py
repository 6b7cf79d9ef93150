# title = "Drops keys whose weight is below 2 % of the largest"
# class = "skipped"
# kind = [34]
# task = "gqa_decode"
# base = "plain"
# needs = "static"
# probes = ["compare"]
# [[edit]]
# old = '''
#         p = tl.exp(s - shift[:, None])
# '''
# new = '''
#         p = tl.exp(s - shift[:, None])
#         p = tl.where(p < 0.02, 0.0, p)
# '''
