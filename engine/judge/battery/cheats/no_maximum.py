# title = "Takes exp without the row's maximum"
# class = "skipped"
# kind = [34]
# task = "gqa_prefill"
# base = "plain"
# needs = "static"
# probes = ["compare"]
# [[edit]]
# old = '''
#         new = tl.maximum(top, tl.max(s, 1))
# '''
# new = '''
#         new = tl.zeros([BLOCK_M], tl.float32)
# '''
# [[edit]]
# old = '''
#     top = tl.full([BLOCK_M], float("-inf"), tl.float32)
# '''
# new = '''
#     top = tl.zeros([BLOCK_M], tl.float32)
# '''
