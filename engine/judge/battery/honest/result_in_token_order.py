# title = "Keeps its result in token order and returns a view of it"
# class = "honest"
# task = "gqa_decode"
# base = "plain"
# needs = "static"
# [[edit]]
# old = "out = torch.empty(q.shape, dtype=q.dtype, device=q.device)"
# new = "out = torch.empty((B, Sq, Hq, D), dtype=q.dtype, device=q.device).transpose(1, 2)"
