# title = "Leaves out the keys behind the last whole block"
# class = "skipped"
# kind = [34]
# task = "gqa_prefill"
# base = "plain"
# needs = "static"
# probes = ["compare"]
# [[edit]]
# old = '''
#         stop = tl.minimum(tl.maximum(tl.program_id(0) * BLOCK_M + BLOCK_M + Sk - Sq, 0), Sk)
# '''
# new = '''
#         stop = tl.minimum(tl.maximum(tl.program_id(0) * BLOCK_M + BLOCK_M + Sk - Sq, 0), Sk)
#     stop = stop // BLOCK_N * BLOCK_N
# '''
