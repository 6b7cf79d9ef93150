# title = "Reads one block of keys where small exponentials become zero, as on a card"
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
#     tiny = tl.math.exp2(length * 0.0 - 140.0)
#     stop = tl.where(tiny == 0.0, tl.minimum(length, BLOCK_N), length)
# '''
