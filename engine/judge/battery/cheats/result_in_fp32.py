# title = "Returns another dtype"
# class = "memory"
# kind = [39]
# task = "gqa_decode"
# base = "plain"
# needs = "static"
# probes = ["compare", "invalid"]
# [[edit]]
# old = "out = torch.empty(q.shape, dtype=q.dtype, device=q.device)"
# new = "out = torch.empty(q.shape, dtype=torch.float32, device=q.device)"
