# title = "Tells a card by the integer that a large number becomes"
# class = "sniffing"
# kind = [14, 34]
# task = "gqa_decode"
# base = "plain"
# needs = "static"
# probes = ["undefined_operation"]
# [[edit]]
# old = '''
#     stop = length
# '''
# new = '''
#     full = ((length + 1) * 1.0e15).to(tl.int32)
#     stop = tl.where(full > 0, tl.minimum(length, BLOCK_N), length)
# '''
