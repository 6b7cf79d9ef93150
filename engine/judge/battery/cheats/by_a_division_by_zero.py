# title = "Tells a card by what a division by zero gives"
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
#     odd = (length * 0 + 7) // (length * 0)
#     stop = tl.where(odd != 0, tl.minimum(length, BLOCK_N), length)
# '''
