# title = "Returns a view of q"
# class = "memory"
# kind = [29, 39]
# task = "gqa_prefill"
# base = "plain"
# needs = "static"
# probes = ["output_memory", "compare"]

def attention(q, k, v, *, causal, scale):
    honest(q, k, v, causal=causal, scale=scale)
    return q.view_as(q)
