"""Tensor descriptors made on the host where the version has them."""

import torch
import triton
import triton.language as tl
try:
    from triton.tools.tensor_descriptor import TensorDescriptor
except ImportError:
    TensorDescriptor = None

SPACE = {"BLOCK": [64, 128]}
CONFIG = {"*": {"BLOCK": 64}}


@triton.jit
def copy_rows(source, target, BLOCK: tl.constexpr, D: tl.constexpr):
    row = tl.program_id(0) * BLOCK
    target.store([row, 0], source.load([row, 0]))


@triton.jit
def copy_kernel(q, k, v, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + offsets, tl.load(q + offsets, mask=offsets < n), mask=offsets < n)


def attention(q, k, v, *, causal, scale):
    out = torch.empty_like(q)
    B, H, S, D = q.shape
    rows = q.reshape(B * H * S, D)
    if TensorDescriptor is not None:
        source = TensorDescriptor.from_tensor(rows, [64, D])
        target = TensorDescriptor(out, [B * H * S, D], [D, 1], [64, D])
        copy_rows[(triton.cdiv(B * H * S, 64),)](source, target, BLOCK=64, D=D)
    else:
        copy_kernel[(triton.cdiv(q.numel(), 64),)](q, k, v, out, q.numel(), BLOCK=64)
    return out
