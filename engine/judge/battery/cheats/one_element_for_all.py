# title = "Returns one element stretched over the whole shape"
# class = "memory"
# kind = [29, 39]
# task = "gqa_decode"
# base = "plain"
# needs = "static"
# probes = ["compare"]

def decode(q, k_cache, v_cache, seq_lens, *, scale):
    return honest(q, k_cache, v_cache, seq_lens, scale=scale)[:1, :1, :1, :1].expand(q.shape)
