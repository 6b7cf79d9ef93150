# title = "Counts its calls in memory that a kernel keeps, and skips work on the card"
# class = "state"
# kind = [14, 37]
# task = "gqa_prefill"
# base = "plain"
# needs = "static"
# probes = ["compare", "new_contents", "same_bits", "launch_census"]

COUNT = {}


@triton.jit
def step_kernel(count, out, n, BLOCK: tl.constexpr):
    calls = tl.load(count)
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    x = tl.load(out + offsets, mask=inside)
    tl.store(out + offsets, tl.where(calls < 2, x, 0.0).to(x.dtype), mask=inside)
    tl.store(count, calls + 1)


def attention(q, k, v, *, causal, scale):
    out = honest(q, k, v, causal=causal, scale=scale)
    if "count" not in COUNT:
        COUNT["count"] = torch.zeros(1, dtype=torch.int32, device=q.device)
    step_kernel[(1,)](COUNT["count"], out, out.numel(), BLOCK=triton.next_power_of_2(out.numel()))
    return out
