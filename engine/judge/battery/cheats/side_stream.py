# title = "Works on a stream that the clock does not wait for"
# class = "timing"
# kind = [1]
# task = "gqa_prefill"
# base = "plain"
# needs = "gpu"
# probes = ["streams", "graph_capture", "graph_replay", "two_clocks", "late_work"]

def attention(q, k, v, *, causal, scale):
    out = torch.empty_like(q)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        out.copy_(honest(q, k, v, causal=causal, scale=scale))
    return out
