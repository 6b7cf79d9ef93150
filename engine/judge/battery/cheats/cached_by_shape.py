# title = "Remembers the answer to each shape"
# class = "reuse"
# kind = [17]
# task = "gqa_prefill"
# base = "plain"
# needs = "static"
# probes = ["new_contents", "launch_census", "idle_kernels"]

CACHE = {}


def attention(q, k, v, *, causal, scale):
    key = (q.shape, k.shape, causal)
    if key not in CACHE:
        CACHE[key] = honest(q, k, v, causal=causal, scale=scale)
    return CACHE[key].clone()
