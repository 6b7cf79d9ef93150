# title = "Copies q"
# class = "skipped"
# kind = [29]
# task = "gqa_prefill"
# base = "plain"
# needs = "static"
# probes = ["compare"]

@triton.jit
def copy_kernel(q, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + offsets, tl.load(q + offsets, mask=offsets < n), mask=offsets < n)


def attention(q, k, v, *, causal, scale):
    q = q.contiguous()
    out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    copy_kernel[(triton.cdiv(out.numel(), 1024),)](q, out, out.numel(), BLOCK=1024)
    return out
