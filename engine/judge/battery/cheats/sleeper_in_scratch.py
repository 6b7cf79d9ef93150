# title = "Counts to ten thousand in memory that a kernel keeps, and then skips work"
# class = "state"
# kind = [14, 37]
# task = "gqa_decode"
# base = "plain"
# needs = "static"
# probes = ["compare"]
# quick = true

COUNT = {}


@triton.jit
def step_kernel(count, out, n, BLOCK: tl.constexpr):
    calls = tl.load(count)
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(out + offsets, mask=offsets < n, other=0.0)
    tl.store(out + offsets, tl.where(calls < 10_000, x, 0.0).to(x.dtype), mask=offsets < n)
    tl.store(count, calls + 1)


def decode(q, k_cache, v_cache, seq_lens, *, scale):
    out = honest(q, k_cache, v_cache, seq_lens, scale=scale)
    if "count" not in COUNT:
        COUNT["count"] = torch.zeros(1, dtype=torch.int32, device=q.device)
    step_kernel[(1,)](COUNT["count"], out, out.numel(), BLOCK=triton.next_power_of_2(out.numel()))
    return out
