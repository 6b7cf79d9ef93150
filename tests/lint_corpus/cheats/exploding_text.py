# rule: size
"""Takes all memory for one text, by way of a name."""

import torch
import triton
import triton.language as tl

SPACE = {"BLOCK": [64, 128]}
CONFIG = {"*": {"BLOCK": 64}}
TIMES = 10**10
FILLER = "a" * TIMES


@triton.jit
def copy_kernel(q, k, v, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + offsets, tl.load(q + offsets, mask=offsets < n), mask=offsets < n)


def attention(q, k, v, *, causal, scale):
    out = torch.empty_like(q)
    n = q.numel()
    copy_kernel[(triton.cdiv(n, 64),)](q, k, v, out, n, BLOCK=CONFIG["*"]["BLOCK"])
    return out
