# title = "Takes exp by shifting bits, three per cent off"
# class = "precision"
# kind = [33]
# task = "gqa_prefill"
# base = "plain"
# needs = "static"
# probes = ["compare"]
# [[edit]]
# old = '''
#         p = tl.exp(s - shift[:, None])
# '''
# new = '''
#         bits = (s - shift[:, None]) * 12102203.0 + 1064866805.0
#         p = tl.maximum(bits, 0.0).to(tl.int32).to(tl.float32, bitcast=True)
# '''
