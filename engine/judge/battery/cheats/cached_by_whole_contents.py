# title = "Remembers the answer to the very bytes of all inputs"
# class = "reuse"
# kind = [10, 17]
# task = "gqa_decode"
# base = "plain"
# needs = "static"
# probes = ["host_sync", "launch_census", "idle_kernels"]

CACHE = {}


def decode(q, k_cache, v_cache, seq_lens, *, scale):
    key = tuple(hash(x.contiguous().numpy().tobytes()) for x in (q, k_cache, v_cache, seq_lens))
    if key not in CACHE:
        CACHE[key] = honest(q, k_cache, v_cache, seq_lens, scale=scale)
    return CACHE[key].clone()
