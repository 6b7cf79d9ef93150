# title = "Tells a card by what lies behind the width of a shift"
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
#     far = (1 + Sq * 0) << (32 + Sq * 0)
#     stop = tl.where(far != 0, tl.minimum(length, BLOCK_N), length)
# '''
