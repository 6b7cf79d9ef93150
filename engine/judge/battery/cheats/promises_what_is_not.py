# title = "Promises the compiler that heads lie side by side, which it believes and the interpreter ignores"
# class = "memory"
# kind = [14, 40]
# task = "gqa_decode"
# base = "plain"
# needs = "static"
# probes = ["false_hint"]
# [[edit]]
# old = '''
#     query = rows // GROUP
# '''
# new = '''
#     query = tl.max_contiguous(tl.multiple_of(rows // GROUP, 16), 16)
# '''
