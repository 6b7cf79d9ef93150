# title = "Records events that tell no time"
# class = "timing"
# kind = [5]
# task = "gqa_prefill"
# base = "plain"
# needs = "gpu"
# probes = ["stream"]

def attention(q, k, v, *, causal, scale):
    event = torch.cuda.Event(enable_timing=False)
    out = honest(q, k, v, causal=causal, scale=scale)
    event.record()
    return out
