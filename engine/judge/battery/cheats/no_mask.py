# title = "Lets every query see every key"
# class = "wrong"
# kind = [34]
# task = "gqa_prefill"
# base = "plain"
# needs = "static"
# probes = ["compare"]
# [[edit]]
# old = '''
#         ends = tl.minimum(rows + Sk - Sq + 1, Sk)
# '''
# new = '''
#         ends = ends + 0
# '''
# [[edit]]
# old = '''
#     if CAUSAL:
#         stop'''
# new = '''
#     if not CAUSAL:
#         stop'''
