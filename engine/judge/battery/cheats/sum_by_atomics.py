# title = "Adds partial results in the order in which programs happen to end"
# class = "timing"
# kind = [38]
# task = "gqa_decode"
# base = "plain"
# needs = "gpu"
# probes = ["same_bits", "compare"]

@triton.jit
def split_kernel(q, k, v, lens, out, weight, Smax, scale, GROUP: tl.constexpr, D: tl.constexpr):
    b, head, split = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    d = tl.arange(0, D)
    keys = split * 64 + tl.arange(0, 64)
    inside = keys < tl.load(lens + b)
    at = ((b * (tl.num_programs(1) // GROUP) + head // GROUP) * Smax + keys)[:, None] * D + d[None, :]
    x = tl.load(q + (b * tl.num_programs(1) + head) * D + d).to(tl.float32)
    scores = tl.sum(tl.load(k + at, mask=inside[:, None], other=0.0) * x[None, :], 1) * scale
    p = tl.where(inside, tl.exp(scores), 0.0)
    part = tl.sum(p[:, None] * tl.load(v + at, mask=inside[:, None], other=0.0), 0)
    tl.atomic_add(out + (b * tl.num_programs(1) + head) * D + d, part)
    tl.atomic_add(weight + b * tl.num_programs(1) + head, tl.sum(p, 0))


def decode(q, k_cache, v_cache, seq_lens, *, scale):
    out = honest(q, k_cache, v_cache, seq_lens, scale=scale)
    B, Hq, Sq, D = q.shape
    if Sq == 1 and q.is_contiguous() and k_cache.is_contiguous() and D in (64, 128):
        acc = torch.zeros((B, Hq, D), dtype=torch.float32, device=q.device)
        weight = torch.zeros((B, Hq), dtype=torch.float32, device=q.device)
        grid = (B, Hq, triton.cdiv(k_cache.shape[2], 64))
        split_kernel[grid](
            q, k_cache, v_cache, seq_lens, acc, weight, k_cache.shape[2], scale,
            GROUP=Hq // k_cache.shape[1], D=D,
        )  # fmt: skip
    return out
