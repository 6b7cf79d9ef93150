"""Heuristics, assertions that raise, head dims by table, loops of launches over the batch."""

import torch
import triton
import triton.language as tl

SPACE = {"BLOCK": [64, 128]}
CONFIG = {"*": {"BLOCK": 64}}
HEAD_DIMS = {64: 64, 80: 128, 96: 128, 128: 128, 256: 64}


@triton.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
@triton.jit
def copy_kernel(q, k, v, out, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if EVEN:
        tl.store(out + offsets, tl.load(q + offsets))
    else:
        tl.store(out + offsets, tl.load(q + offsets, mask=offsets < n), mask=offsets < n)


def attention(q, k, v, *, causal, scale):
    B, H, S, D = q.shape
    if D not in HEAD_DIMS:
        raise ValueError(f"head dim {D} is not supported")
    if H % k.shape[1] != 0:
        raise ValueError("heads must be a multiple of KV heads")
    out = torch.empty_strided(q.size(), q.stride(), dtype=q.dtype, device=q.device)
    for batch in range(B):
        one, result = q[batch], out[batch]
        n = one.numel()
        copy_kernel[(triton.cdiv(n, 64), 1)](one, k[batch], v[batch], result, n, BLOCK=HEAD_DIMS[D])
    del n
    return out
