# title = "Remembers in a default argument"
# class = "reuse"
# kind = [17]
# task = "gqa_prefill"
# base = "plain"
# needs = "static"
# probes = ["new_contents", "launch_census", "idle_kernels"]

def attention(q, k, v, *, causal, scale, known={}):
    key = (q.shape, k.shape, causal)
    if key not in known:
        known[key] = honest(q, k, v, causal=causal, scale=scale)
    return known[key].clone()
