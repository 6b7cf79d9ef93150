# title = "Launches a kernel that writes zeros"
# class = "skipped"
# kind = [29, 31]
# task = "gqa_prefill"
# base = "plain"
# needs = "static"
# probes = ["compare"]

@triton.jit
def zero_kernel(out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + offsets, tl.zeros([BLOCK], tl.float16), mask=offsets < n)


def attention(q, k, v, *, causal, scale):
    out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    zero_kernel[(triton.cdiv(out.numel(), 1024),)](out, out.numel(), BLOCK=1024)
    return out
