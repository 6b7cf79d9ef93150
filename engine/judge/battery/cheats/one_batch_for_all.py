# title = "Works on the first sequence and copies its rows to the others"
# class = "skipped"
# kind = [34, 40]
# task = "gqa_decode"
# base = "plain"
# needs = "static"
# probes = ["compare"]
# [[edit]]
# old = '''
#     b = tl.program_id(1).to(tl.int64)
# '''
# new = '''
#     b = tl.program_id(1).to(tl.int64) * 0
# '''
# [[edit]]
# old = "    at = b * sob"
# new = "    at = tl.program_id(1).to(tl.int64) * sob"
