# title = "Keeps the running result in seven bits of mantissa"
# class = "precision"
# kind = [33]
# task = "gqa_prefill"
# base = "plain"
# needs = "static"
# probes = ["compare"]
# [[edit]]
# old = '''
#         top = new
# '''
# new = '''
#         acc = (acc.to(tl.int32, bitcast=True) & -65536).to(tl.float32, bitcast=True)
#         top = new
# '''
