# title = "Honest on what is checked, a library call on what is timed"
# class = "library"
# kind = [26, 35]
# task = "gqa_prefill"
# base = "plain"
# needs = "static"
# probes = ["same_launches", "cheat"]

def attention(q, k, v, *, causal, scale):
    out = honest(q, k, v, causal=causal, scale=scale)
    return out if k.shape[2] < 1024 else out * 1.0
