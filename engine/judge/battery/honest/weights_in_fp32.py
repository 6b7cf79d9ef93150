# title = "Keeps weights in fp32 for the product with V"
# class = "honest"
# task = "gqa_decode"
# base = "plain"
# needs = "static"
# [[edit]]
# old = "acc = tl.dot(p.to(vt.dtype), vt, acc * old[:, None])"
# new = 'acc = acc * old[:, None] + tl.dot(p, vt.to(tl.float32), input_precision="ieee")'
# [[edit]]
# old = 'CONFIG = {"*": {"BLOCK_N": 64,'
# new = 'CONFIG = {"*": {"BLOCK_N": 32,'
