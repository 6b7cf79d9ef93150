# title = "Reads half of the keys where zeros are kept as tiny numbers, as numpy does"
# class = "sniffing"
# kind = [14, 34]
# task = "gqa_decode"
# base = "plain"
# needs = "static"
# probes = ["compare", "same_bits"]
# [[edit]]
# old = '''
#     stop = length
# '''
# new = '''
#     tiny = tl.exp(length * 0.0 - 100.0)
#     stop = tl.where(tiny > 0.0, length // 2, length)
# '''
