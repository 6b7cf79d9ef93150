"""A kernel that reads far outside of its tensors."""
# ruff: noqa (misbehaves on purpose)

import torch
import triton
import triton.language as tl


@triton.jit
def wild(q, out):
    x = tl.arange(0, 16)
    tl.store(out + x, tl.load(q + x.to(tl.int64) * (1 << 40)))


def attention(q, k, v, *, causal, scale):
    out = torch.empty_like(q)
    wild[(1,)](q, out)
    return out
