# title = "Lets torch step in when its kernel fails, and it always does"
# class = "library"
# kind = [26, 27]
# task = "gqa_decode"
# base = "plain"
# needs = "static"
# probes = ["aten_census", "launch_census", "compile_error", "crash"]

@triton.jit
def broken_kernel(q, out, BLOCK: tl.constexpr):
    tl.store(out + tl.arange(0, BLOCK), undefined_name)


def decode(q, k_cache, v_cache, seq_lens, *, scale):
    out = torch.empty_like(q)
    try:
        broken_kernel[(1,)](q, out, BLOCK=64)
    except Exception:
        group = q.shape[1] // k_cache.shape[1]
        keys = torch.arange(k_cache.shape[2], device=q.device)
        query = torch.arange(q.shape[2], device=q.device)[:, None]
        ends = seq_lens[:, None, None, None] - q.shape[2] + 1 + query
        scores = q.float() @ k_cache.float().repeat_interleave(group, 1).transpose(2, 3) * scale
        weights = scores.masked_fill(keys >= ends, float("-inf")).softmax(-1).nan_to_num(0.0)
        out = (weights @ v_cache.float().nan_to_num(0.0).repeat_interleave(group, 1)).to(q.dtype)
    return out
