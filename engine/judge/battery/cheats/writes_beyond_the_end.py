# title = "Writes whole tiles where the last one is not whole"
# class = "memory"
# kind = [37]
# task = "gqa_prefill"
# base = "plain"
# needs = "gpu"
# probes = ["compare", "inputs_unchanged", "crash"]
# [[edit]]
# old = '''
#     mask = (rows < Sq)[:, None] & (d < D)[None, :]
# '''
# new = '''
#     mask = (rows >= 0)[:, None] & (d < D)[None, :]
# '''
