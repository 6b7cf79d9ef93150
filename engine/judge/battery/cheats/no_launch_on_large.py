# title = "Launches nothing where the shape is large"
# class = "library"
# kind = [15, 35]
# task = "gqa_decode"
# base = "plain"
# needs = "static"
# probes = ["same_launches", "cheat"]

def decode(q, k_cache, v_cache, seq_lens, *, scale):
    if k_cache.shape[2] < 1024:
        return honest(q, k_cache, v_cache, seq_lens, scale=scale)
    return torch.empty_like(q)
