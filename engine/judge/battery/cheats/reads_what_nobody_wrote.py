# title = "Adds scratch that nobody has written"
# class = "memory"
# kind = [22, 37]
# task = "gqa_decode"
# base = "plain"
# needs = "static"
# probes = ["compare"]

@triton.jit
def add_kernel(out, scratch, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    x = tl.load(out + offsets, mask=inside) + tl.load(scratch + offsets, mask=inside)
    tl.store(out + offsets, x, mask=inside)


def decode(q, k_cache, v_cache, seq_lens, *, scale):
    out = honest(q, k_cache, v_cache, seq_lens, scale=scale)
    scratch = torch.empty_like(out)
    add_kernel[(triton.cdiv(out.numel(), 1024),)](out, scratch, out.numel(), BLOCK=1024)
    return out
