"""The grid in a nested function, settings merged per bucket, strides in a loop."""

import torch
import triton
import triton.language as tl

SPACE = {"BLOCK": [64, 128]}
CONFIG = {"*": {"BLOCK": 64}}
def bucket(length: int, causal: bool) -> str:
    """The key into CONFIG."""
    if causal:
        return "short" if length <= 1024 else "long"
    return "full"


@triton.jit
def copy_kernel(q, k, v, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + offsets, tl.load(q + offsets, mask=offsets < n), mask=offsets < n)


def attention(q, k, v, *, causal, scale):
    cfg = dict(CONFIG["*"])
    cfg.update(CONFIG.get(bucket(q.shape[2], causal), {}))
    cfg["warps"] = 8 if cfg["BLOCK"] > 64 else 4
    out = torch.empty_like(q)
    n = q.numel()

    def grid(meta):
        return (triton.cdiv(n, meta["BLOCK"]), 1, 1)

    strides = []
    for tensor in (q, k, v):
        strides.extend(tensor.stride())
    assert all(tensor.stride(-1) == 1 for tensor in (q, k, v)), f"strides {strides}"
    copy_kernel[grid](q, k, v, out, n, BLOCK=cfg["BLOCK"], num_warps=cfg["warps"], num_stages=2)
    return out
