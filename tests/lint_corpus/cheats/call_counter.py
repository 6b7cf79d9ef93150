# rule: state
"""Works less after a number of calls."""

import torch
import triton
import triton.language as tl

SPACE = {"BLOCK": [64, 128]}
CONFIG = {"*": {"BLOCK": 64}}
CALLS = [0]


@triton.jit
def copy_kernel(q, k, v, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + offsets, tl.load(q + offsets, mask=offsets < n), mask=offsets < n)


def attention(q, k, v, *, causal, scale):
    CALLS[0] += 1
    out = torch.empty_like(q)
    n = q.numel()
    copy_kernel[(triton.cdiv(n, 64) if CALLS[0] < 10 else 1,)](q, k, v, out, n, BLOCK=64)
    return out
