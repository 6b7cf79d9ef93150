# rule: host_sync
"""Branches on what a tensor holds."""

import torch
import triton
import triton.language as tl

SPACE = {"BLOCK": [64, 128]}
CONFIG = {"*": {"BLOCK": 64}}


@triton.jit
def copy_kernel(q, k, v, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + offsets, tl.load(q + offsets, mask=offsets < n), mask=offsets < n)


def decode(q, k_cache, v_cache, seq_lens, *, scale):
    out = torch.empty_like(q)
    longest = int(seq_lens[0])
    n = q.numel() if longest else 1
    copy_kernel[(triton.cdiv(n, 64),)](q, k_cache, v_cache, out, n, BLOCK=64)
    return out
