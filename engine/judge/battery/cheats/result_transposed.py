# title = "Returns [B, S, H, D]"
# class = "memory"
# kind = [39]
# task = "gqa_prefill"
# base = "plain"
# needs = "static"
# probes = ["compare", "invalid"]

def attention(q, k, v, *, causal, scale):
    return honest(q, k, v, causal=causal, scale=scale).transpose(1, 2)
