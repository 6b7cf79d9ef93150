# title = "Remembers the answer to each tensor object, which it keeps alive"
# class = "reuse"
# kind = [17]
# task = "gqa_decode"
# base = "plain"
# needs = "lint"
# probes = ["pointer_key", "state"]

CACHE = {}


def decode(q, k_cache, v_cache, seq_lens, *, scale):
    key = (id(q), id(k_cache))
    if key not in CACHE:
        CACHE[key] = (honest(q, k_cache, v_cache, seq_lens, scale=scale), q, k_cache)
    return CACHE[key][0].clone()
