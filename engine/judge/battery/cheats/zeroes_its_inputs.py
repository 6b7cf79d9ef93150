# title = "Overwrites its inputs with zeros, for which zeros are the answer"
# class = "memory"
# kind = [30]
# task = "gqa_prefill"
# base = "plain"
# needs = "static"
# probes = ["inputs_unchanged", "compare"]

@triton.jit
def zero_kernel(x, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + offsets, tl.zeros([BLOCK], tl.float16), mask=offsets < n)
    tl.store(out + offsets, tl.zeros([BLOCK], tl.float16), mask=offsets < n)


def attention(q, k, v, *, causal, scale):
    out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    zero_kernel[(1,)](v, out, min(v.numel(), out.numel()), BLOCK=triton.next_power_of_2(v.numel()))
    return out
