"""A kernel whose code unrolls for ever."""
# ruff: noqa (misbehaves on purpose)

import torch
import triton
import triton.language as tl


@triton.jit
def unrolled(out, N: tl.constexpr):
    x = tl.arange(0, 128)
    for i in tl.static_range(N):
        x = x * 3 + i
    tl.store(out + tl.arange(0, 128), x)


def attention(q, k, v, *, causal, scale):
    out = torch.empty_like(q)
    unrolled[(1,)](out, N=1 << 40)
    return out
