# title = "Tells checked inputs by where they lie"
# class = "sniffing"
# kind = [8, 14]
# task = "gqa_prefill"
# base = "plain"
# needs = "static"
# probes = ["same_launches"]

def attention(q, k, v, *, causal, scale):
    if q.data_ptr() == 0:
        k, v = k[:, :, :64], v[:, :, :64]
    return honest(q, k, v, causal=causal, scale=scale)
