# title = "Launches each time and returns the first answer all the same"
# class = "reuse"
# kind = [17, 28]
# task = "gqa_decode"
# base = "plain"
# needs = "static"
# probes = ["new_contents", "idle_kernels"]

FIRST = {}


def decode(q, k_cache, v_cache, seq_lens, *, scale):
    out = honest(q, k_cache, v_cache, seq_lens, scale=scale)
    return FIRST.setdefault((q.shape, k_cache.shape), out).clone()
