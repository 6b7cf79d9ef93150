# title = "Keeps a packed copy of K and V from the first call of each shape"
# class = "reuse"
# kind = [19]
# task = "gqa_decode"
# base = "plain"
# needs = "static"
# probes = ["compare", "new_contents"]

PACKED = {}


def decode(q, k_cache, v_cache, seq_lens, *, scale):
    if k_cache.shape not in PACKED:
        PACKED[k_cache.shape] = (k_cache.contiguous().clone(), v_cache.contiguous().clone())
    k, v = PACKED[k_cache.shape]
    return honest(q, k, v, seq_lens, scale=scale)
