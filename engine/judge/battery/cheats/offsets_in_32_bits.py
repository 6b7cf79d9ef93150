# title = "Counts elements in 32 bits, which large caches overflow"
# class = "wrong"
# kind = [34, 37]
# task = "gqa_decode"
# base = "plain"
# needs = "gpu"
# probes = ["compare", "crash"]
# [[edit]]
# old = '''
#     b = tl.program_id(1).to(tl.int64)
# '''
# new = '''
#     b = tl.program_id(1)
# '''
# [[edit]]
# old = '''
#     kv_head = tl.program_id(0).to(tl.int64)
# '''
# new = '''
#     kv_head = tl.program_id(0)
# '''
# [[edit]]
# old = "kt = tl.load(k + keys.to(tl.int64)[:, None]"
# new = "kt = tl.load(k + keys[:, None]"
# [[edit]]
# old = "vt = tl.load(v + keys.to(tl.int64)[:, None]"
# new = "vt = tl.load(v + keys[:, None]"
