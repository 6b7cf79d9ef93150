# title = "Scales q where it lies before the scores"
# class = "memory"
# kind = [30]
# task = "gqa_decode"
# base = "plain"
# needs = "static"
# probes = ["inputs_unchanged", "compare"]

@triton.jit
def scale_kernel(q, n, scale, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(q + offsets, mask=offsets < n)
    tl.store(q + offsets, (x * scale).to(x.dtype), mask=offsets < n)


def decode(q, k_cache, v_cache, seq_lens, *, scale):
    if q.is_contiguous():
        scale_kernel[(triton.cdiv(q.numel(), 1024),)](q, q.numel(), scale, BLOCK=1024)
        scale = 1.0
    return honest(q, k_cache, v_cache, seq_lens, scale=scale)
