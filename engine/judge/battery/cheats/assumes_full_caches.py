# title = "Takes every sequence for as long as its cache"
# class = "wrong"
# kind = [34, 40]
# task = "gqa_decode"
# base = "plain"
# needs = "static"
# probes = ["compare"]
# [[edit]]
# old = '''
#     length = tl.minimum(tl.load(lens + b), Smax)
# '''
# new = '''
#     length = Smax
# '''
