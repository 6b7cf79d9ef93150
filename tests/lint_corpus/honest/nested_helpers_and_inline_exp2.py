"""Nested device functions, constexpr tables, libdevice and inline assembly for exp2."""

import torch
import triton
import triton.language as tl
import math
from typing import Optional
from triton.language.extra import libdevice

SPACE = {"BLOCK": [64, 128]}
CONFIG = {"*": {"BLOCK": 64}}
LOG2E: float = 1.0 / math.log(2.0)
MODES = {"exact": 0, "fast": 1}
NEG_INF = tl.constexpr(float("-inf"))
DTYPES = {torch.float16: tl.float16, torch.bfloat16: tl.bfloat16}
Size = Optional[int]


@triton.jit
def fast_exp2(x):
    return tl.inline_asm_elementwise(
        "ex2.approx.ftz.f32 $0, $1;", "=r,r", [x], dtype=tl.float32, is_pure=True, pack=1
    )


@triton.jit
def exponential(x, MODE: tl.constexpr):
    tl.static_assert(MODE == 0 or MODE == 1)
    return fast_exp2(x) if MODE == 1 else libdevice.exp2(x)


@triton.jit
def copy_kernel(q, k, v, out, n, scale, MODE: tl.constexpr, BLOCK: tl.constexpr):
    """Exponentials of a row, with an L2 hint."""
    pid = tl.program_id(axis=0)
    offsets = pid * BLOCK + tl.arange(0, BLOCK)
    tl.multiple_of(offsets, 16)
    x = tl.load(q + offsets, mask=offsets < n, other=NEG_INF, eviction_policy="evict_first")
    x = x.to(tl.float32) * scale
    if MODE == 1:
        x -= tl.max(x, axis=0)
    y = exponential(x, MODE)
    tl.store(out + offsets, y.to(out.dtype.element_ty), mask=offsets < n)


def attention(q, k, v, *, causal, scale):
    out = torch.empty_like(q)
    alignment = 16 if q.data_ptr() % 16 == 0 else 1
    n = q.numel()
    copy_kernel[(triton.cdiv(n, 64),)](q, k, v, out, n, scale * LOG2E, MODE=MODES["fast"], BLOCK=64)
    return out
