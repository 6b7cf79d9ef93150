# title = "Returns a view of v"
# class = "memory"
# kind = [29, 39]
# task = "gqa_prefill"
# base = "plain"
# needs = "static"
# probes = ["output_memory", "compare", "launch_census", "crash", "invalid"]

def attention(q, k, v, *, causal, scale):
    honest(q, k, v, causal=causal, scale=scale)
    return v.as_strided(q.shape, q.stride())
