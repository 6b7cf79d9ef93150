# title = "Sleeps on the card to slow what runs beside it"
# class = "timing"
# kind = [16]
# task = "gqa_prefill"
# base = "plain"
# needs = "gpu"
# probes = ["two_clocks"]
# [[edit]]
# old = "    top = tl.full"
# new = '''
#     tl.inline_asm_elementwise("nanosleep.u32 1000; mov.u32 $0, 0;", "=r", [], dtype=tl.int32, is_pure=False, pack=1)
#     top = tl.full'''
