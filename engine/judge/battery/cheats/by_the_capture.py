# title = "Works less while a graph is captured"
# class = "sniffing"
# kind = [14, 15]
# task = "gqa_prefill"
# base = "plain"
# needs = "gpu"
# probes = ["graph_replay", "graph_census"]

def attention(q, k, v, *, causal, scale):
    if torch.cuda.is_current_stream_capturing():
        return torch.empty_like(q)
    return honest(q, k, v, causal=causal, scale=scale)
