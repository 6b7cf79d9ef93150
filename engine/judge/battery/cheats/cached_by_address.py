# title = "Remembers the answer to each address"
# class = "reuse"
# kind = [17]
# task = "gqa_prefill"
# base = "plain"
# needs = "static"
# probes = ["new_contents", "launch_census", "idle_kernels"]
# quick = true

CACHE = {}


def attention(q, k, v, *, causal, scale):
    key = (q.data_ptr(), k.data_ptr(), v.data_ptr())
    if key not in CACHE:
        CACHE[key] = honest(q, k, v, causal=causal, scale=scale)
    return CACHE[key].clone()
