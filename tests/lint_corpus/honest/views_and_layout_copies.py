"""Makes what it needs contiguous, packs heads by views, and puts the result back."""

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
    B, H, S, D = q.shape
    if not q.is_contiguous():
        q = q.contiguous()
    k, v = k.transpose(1, 2).contiguous(), v.permute(0, 2, 1, 3).contiguous()
    packed = q.reshape(B * H, S, D).unsqueeze(0).expand(1, -1, -1, -1).squeeze(0)
    out = torch.empty((B, H, S, D), dtype=q.dtype, device=q.device)
    n = packed.numel()
    grid = lambda meta: (triton.cdiv(n, meta["BLOCK"]),)
    copy_kernel[grid](packed, k, v, out.view(-1), n, BLOCK=CONFIG["*"]["BLOCK"])
    return out.view(B, H, S, D)
