# title = "Asks in the kernel whether a constant is one, which the interpreter denies"
# class = "sniffing"
# kind = [14]
# task = "gqa_decode"
# base = "plain"
# needs = "lint"
# probes = ["mode"]
# [[edit]]
# old = '''
#     stop = length
# '''
# new = '''
#     stop = length
#     if isinstance(BLOCK_N, tl.constexpr):
#         stop = tl.minimum(length, 64)
# '''
