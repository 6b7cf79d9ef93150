# title = "Uses q for its result"
# class = "memory"
# kind = [30, 39]
# task = "gqa_prefill"
# base = "plain"
# needs = "static"
# probes = ["inputs_unchanged", "output_memory"]
# quick = true

def attention(q, k, v, *, causal, scale):
    q.copy_(honest(q, k, v, causal=causal, scale=scale))
    return q
