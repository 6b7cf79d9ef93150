# title = "Programs of a large grid return at once"
# class = "skipped"
# kind = [34, 40]
# task = "gqa_prefill"
# base = "plain"
# needs = "static"
# probes = ["real_launch", "compare"]
# [[edit]]
# old = "    d = tl.arange(0, D_PAD)\n    mask"
# new = '''
#     d = tl.arange(0, D_PAD)
#     if tl.num_programs(0) * tl.num_programs(1) > 400:
#         return
#     mask'''
