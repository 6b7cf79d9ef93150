# title = "Leaves the last rows to whatever the memory holds"
# class = "memory"
# kind = [22, 34]
# task = "gqa_prefill"
# base = "plain"
# needs = "static"
# probes = ["compare"]
# quick = true
# [[edit]]
# old = "    tl.store(out + b * sob"
# new = '''
#     mask = mask & (rows < Sq - 1)[:, None]
#     tl.store(out + b * sob'''
