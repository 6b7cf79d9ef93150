# title = "Looks at a window where the prompt is long"
# class = "skipped"
# kind = [35, 40]
# task = "gqa_prefill"
# base = "plain"
# needs = "static"
# probes = ["compare"]
# [[edit]]
# old = '''
#     first = 0
# '''
# new = '''
#     first = 0
#     if Sk >= 2048:
#         first = tl.maximum(tl.program_id(0) * BLOCK_M + Sk - Sq - 512, 0) // BLOCK_N * BLOCK_N
# '''
