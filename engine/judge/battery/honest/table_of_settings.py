# title = "A table of settings by head dim, a choice of two kernels, constants that kernels read"
# class = "honest"
# task = "gqa_decode"
# base = "plain"
# needs = "static"
# [[edit]]
# old = "        p = tl.exp(s - shift[:, None])\n"
# new = "        p = tl.math.exp2((s - shift[:, None]) * LOG2_E)\n"
# [[edit]]
# old = "        old = tl.exp(top - shift)\n"
# new = "        old = tl.math.exp2((top - shift) * LOG2_E)\n"
# [[edit]]
# old = 'CONFIG = {"*": {"BLOCK_N": 64, "num_warps": 4}}'
# new = '''
# CONFIG = {"*": {"BLOCK_N": 64, "num_warps": 4}}
# LOG2_E = tl.constexpr(1.4426950408889634)
# WARPS = {64: 2, 80: 4, 96: 4, 128: 4, 256: 8}'''
# [[edit]]
# old = '        num_warps=config["num_warps"],'
# new = '        num_warps=WARPS.get(D, config["num_warps"]),'
