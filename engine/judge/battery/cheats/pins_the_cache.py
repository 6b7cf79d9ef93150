# title = "Keeps K and V in the part of L2 that persists"
# class = "timing"
# kind = [11]
# task = "gqa_decode"
# base = "plain"
# needs = "gpu"
# probes = ["asm"]
# [[edit]]
# old = "    x = tl.load(q + b * sqb"
# new = '''
#     tl.inline_asm_elementwise(
#         "createpolicy.fractional.L2::evict_last.b64 $0, 1.0;", "=l", [], dtype=tl.int64, is_pure=False, pack=1
#     )
#     x = tl.load(q + b * sqb'''
