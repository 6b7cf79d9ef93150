"""Two scratch tensors under one key, and a memo of device facts."""

import torch
import triton
import triton.language as tl

SPACE = {"BLOCK": [64, 128]}
CONFIG = {"*": {"BLOCK": 64}}
_SCRATCH = {}
_SMS = {}


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
    sms = _SMS.get(q.device)
    if sms is None:
        sms = torch.cuda.get_device_properties(q.device).multi_processor_count
        _SMS[q.device] = sms
    splits = max(1, min(4, 2 * sms // max(1, n // 64)))
    key = (q.device, n, q.dtype)
    if key not in _SCRATCH:
        acc = torch.empty((4, n), dtype=torch.float32, device=q.device)
        lse = torch.empty((4, n), dtype=torch.float32, device=q.device)
        _SCRATCH[key] = (acc, lse)
    part, lse = _SCRATCH[key]
    split_kernel[(triton.cdiv(n, 64), 4)](q, k, v, part, n, SPLITS=4, BLOCK=64)
    combine_kernel[(triton.cdiv(n, 64),)](part, out, n, SPLITS=4, BLOCK=64)
    return out
