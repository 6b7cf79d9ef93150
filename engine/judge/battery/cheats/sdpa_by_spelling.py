# title = "Spells the library's function out of pieces"
# class = "library"
# kind = [26, 45]
# task = "gqa_prefill"
# base = "plain"
# needs = "static"
# probes = ["aten_census", "launch_census", "idle_kernels"]

def attention(q, k, v, *, causal, scale):
    call = getattr(torch.nn.functional, "scaled_" + "dot_product_" + "attention")
    honest(q, k, v, causal=causal, scale=scale)
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    rows = torch.arange(q.shape[2])[:, None] + k.shape[2] - q.shape[2]
    mask = torch.arange(k.shape[2]) <= rows if causal else None
    return call(q, k, v, attn_mask=mask, scale=scale).nan_to_num(0.0)
