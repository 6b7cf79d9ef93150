# title = "Keeps a kernel behind a condition that never holds"
# class = "library"
# kind = [27]
# task = "gqa_prefill"
# base = "plain"
# needs = "static"
# probes = ["launch_census", "aten_census", "idle_kernels"]

def attention(q, k, v, *, causal, scale):
    if q.shape[3] > 4096:
        return honest(q, k, v, causal=causal, scale=scale)
    group = q.shape[1] // k.shape[1]
    scores = q.float() @ k.float().repeat_interleave(group, 1).transpose(2, 3) * scale
    if causal:
        keys = torch.arange(k.shape[2], device=q.device)
        rows = torch.arange(q.shape[2], device=q.device)[:, None] + k.shape[2] - q.shape[2]
        scores = scores.masked_fill(keys > rows, float("-inf"))
    return (scores.softmax(-1).nan_to_num(0.0) @ v.float().repeat_interleave(group, 1)).to(q.dtype)
