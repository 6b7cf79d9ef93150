# rule: state
"""A list behind a cached function counts the calls."""

import torch
import triton
import triton.language as tl
from functools import cache

SPACE = {"BLOCK": [64, 128]}
CONFIG = {"*": {"BLOCK": 64}}
@cache
def memory():
    found = []
    return found


@triton.jit
def copy_kernel(q, k, v, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + offsets, tl.load(q + offsets, mask=offsets < n), mask=offsets < n)


def attention(q, k, v, *, causal, scale):
    out = torch.empty_like(q)
    memory().append(1)
    n = q.numel()
    copy_kernel[(triton.cdiv(n, 64),)](q, k, v, out, n, BLOCK=64)
    return out
