# rule: dry_launch
"""The launch option hides in a dict."""

import torch
import triton
import triton.language as tl

SPACE = {"BLOCK": [64, 128]}
CONFIG = {"*": {"BLOCK": 64}}


@triton.jit
def copy_kernel(q, k, v, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + offsets, tl.load(q + offsets, mask=offsets < n), mask=offsets < n)


def attention(q, k, v, *, causal, scale):
    out = torch.empty_like(q)
    options = {"warmup": True}
    copy_kernel[(1,)](q, k, v, out, 1, BLOCK=64, **options)
    return out
