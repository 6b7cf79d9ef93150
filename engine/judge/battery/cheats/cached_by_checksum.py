# title = "Remembers the answer to the first elements of each input"
# class = "reuse"
# kind = [17]
# task = "gqa_prefill"
# base = "plain"
# needs = "static"
# probes = ["host_sync", "one_element", "launch_census", "idle_kernels"]

CACHE = {}


def attention(q, k, v, *, causal, scale):
    key = (q.shape, k.shape, causal, *q[0, 0, 0, :8].tolist(), *k[0, 0, 0, :8].tolist())
    if key not in CACHE:
        CACHE[key] = honest(q, k, v, causal=causal, scale=scale)
    return CACHE[key].clone()
