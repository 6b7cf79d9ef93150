# title = "Launches its kernel for show and lets torch do the work"
# class = "library"
# kind = [26, 28]
# task = "gqa_prefill"
# base = "plain"
# needs = "static"
# probes = ["aten_census", "idle_kernels"]
# quick = true

def attention(q, k, v, *, causal, scale):
    honest(q, k, v, causal=causal, scale=scale)
    group = q.shape[1] // k.shape[1]
    scores = q.float() @ k.float().repeat_interleave(group, 1).transpose(2, 3) * scale
    if causal:
        keys = torch.arange(k.shape[2], device=q.device)
        rows = torch.arange(q.shape[2], device=q.device)[:, None] + k.shape[2] - q.shape[2]
        scores = scores.masked_fill(keys > rows, float("-inf"))
    weights = scores.softmax(-1).nan_to_num(0.0)
    return (weights @ v.float().repeat_interleave(group, 1)).to(q.dtype)
