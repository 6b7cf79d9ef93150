# title = "Begins with zeros and writes the rows that see keys"
# class = "honest"
# task = "gqa_prefill"
# base = "plain"
# needs = "static"
# [[edit]]
# old = "out = torch.empty(q.shape, dtype=q.dtype, device=q.device)"
# new = "out = torch.zeros(q.shape, dtype=q.dtype, device=q.device)"
# [[edit]]
# old = "    tl.store(out + b * sob"
# new = '''
#     mask = mask & (ends > 0)[:, None]
#     tl.store(out + b * sob'''
