"""Scratch and the number of SMs from cached functions."""

import torch
import triton
import triton.language as tl
from functools import lru_cache

SPACE = {"BLOCK": [64, 128]}
CONFIG = {"*": {"BLOCK": 64}}
@lru_cache(maxsize=None)
def sm_count(device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count


@lru_cache
def workspace(size: int, device):
    return torch.empty(size, dtype=torch.float32, device=device)


@triton.jit
def split_kernel(q, k, v, part, n, SPLITS: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(q + offsets, mask=offsets < n, other=0.0)
    tl.store(part + tl.program_id(1) * n + offsets, x.to(tl.float32), mask=offsets < n)


@triton.jit
def combine_kernel(part, out, n, SPLITS: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for split in tl.static_range(SPLITS):
        total += tl.load(part + split * n + offsets, mask=offsets < n, other=0.0)
    tl.store(out + offsets, total / SPLITS, mask=offsets < n)


def attention(q, k, v, *, causal, scale):
    out = torch.empty_like(q)
    n = q.numel()
    part = workspace(4 * n, q.device)
    waves = triton.cdiv(n, 64 * sm_count(q.device))
    split_kernel[(triton.cdiv(n, 64), 4)](q, k, v, part, n, SPLITS=4, BLOCK=64)
    combine_kernel[(triton.cdiv(n, 64),)](part, out, n, SPLITS=4, BLOCK=64)
    return out
