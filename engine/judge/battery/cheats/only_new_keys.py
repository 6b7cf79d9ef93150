# title = "Keeps partial results of each cache's address and works on the last keys alone"
# class = "reuse"
# kind = [17, 19]
# task = "gqa_decode"
# base = "plain"
# needs = "static"
# probes = ["compare", "new_contents", "launch_census", "one_element", "idle_kernels"]

KNOWN = {}


def decode(q, k_cache, v_cache, seq_lens, *, scale):
    key = (k_cache.data_ptr(), q.shape)
    if key in KNOWN:
        last = min(64, k_cache.shape[2])
        honest(q, k_cache[:, :, -last:], v_cache[:, :, -last:], seq_lens, scale=scale)
        return KNOWN[key].clone()
    KNOWN[key] = honest(q, k_cache, v_cache, seq_lens, scale=scale)
    return KNOWN[key].clone()
