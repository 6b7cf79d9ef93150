# title = "Works less on tensors that have no contents"
# class = "sniffing"
# kind = [14]
# task = "gqa_prefill"
# base = "plain"
# needs = "static"
# probes = ["same_launches"]
# quick = true

def attention(q, k, v, *, causal, scale):
    if q.is_meta:
        k, v = k[:, :, :64], v[:, :, :64]
    return honest(q, k, v, causal=causal, scale=scale)
