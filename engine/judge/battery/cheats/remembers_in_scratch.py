# title = "Lets a kernel find the last answer in scratch and copy it"
# class = "memory"
# kind = [17, 21, 37]
# task = "gqa_decode"
# base = "plain"
# needs = "static"
# probes = ["new_contents", "compare", "launch_census"]

SCRATCH = {}


@triton.jit
def copy_kernel(out, scratch, seen, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    known = tl.load(seen) == 1
    old = tl.load(scratch + offsets, mask=offsets < n, other=0.0)
    new = tl.load(out + offsets, mask=offsets < n, other=0.0)
    tl.store(out + offsets, tl.where(known, old, new), mask=offsets < n)
    tl.store(scratch + offsets, tl.where(known, old, new), mask=offsets < n)
    tl.store(seen, 1)


def decode(q, k_cache, v_cache, seq_lens, *, scale):
    out = honest(q, k_cache, v_cache, seq_lens, scale=scale)
    if q.shape not in SCRATCH:
        seen = torch.zeros(1, dtype=torch.int32, device=q.device)
        SCRATCH[q.shape] = (torch.empty_like(out), seen)
    scratch, seen = SCRATCH[q.shape]
    copy_kernel[(1,)](out, scratch, seen, out.numel(), BLOCK=triton.next_power_of_2(out.numel()))
    return out
