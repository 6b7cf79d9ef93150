# title = "Drops a block whose keys all weigh little beside the largest so far"
# class = "skipped"
# kind = [34]
# task = "gqa_decode"
# base = "plain"
# needs = "static"
# probes = ["compare"]
# [[edit]]
# old = '''
#         new = tl.maximum(top, tl.max(s, 1))
# '''
# new = '''
#         if tl.max(tl.where(query < Sq, tl.max(s, 1) - top, float("-inf")), 0) < -5.0:
#             s = tl.full([BLOCK_M, BLOCK_N], float("-inf"), tl.float32)
#         new = tl.maximum(top, tl.max(s, 1))
# '''
