# title = "Takes every call for a causal one"
# class = "wrong"
# kind = [34, 40]
# task = "gqa_prefill"
# base = "plain"
# needs = "static"
# probes = ["compare"]

def attention(q, k, v, *, causal, scale):
    return honest(q, k, v, causal=True, scale=scale)
