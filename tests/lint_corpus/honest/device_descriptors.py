"""Descriptors made on the device, with the allocator that they need; persistent grid."""

import torch
import triton
import triton.language as tl

SPACE = {"BLOCK": [64, 128]}
CONFIG = {"*": {"BLOCK": 64}}
def descriptor_memory(size: int, alignment: int, stream):
    """Global memory for descriptors."""
    return torch.empty(size, dtype=torch.int8, device=torch.device("cuda", torch.cuda.current_device()))


@triton.jit
def copy_rows(q, out, rows, BLOCK: tl.constexpr, D: tl.constexpr):
    source = tl.make_tensor_descriptor(q, [rows, D], [D, 1], [BLOCK, D])
    target = tl.make_tensor_descriptor(out, [rows, D], [D, 1], [BLOCK, D])
    for tile in tl.range(tl.program_id(0), tl.cdiv(rows, BLOCK), tl.num_programs(0), flatten=True):
        target.store([tile * BLOCK, 0], source.load([tile * BLOCK, 0]))


def attention(q, k, v, *, causal, scale):
    out = torch.empty_like(q)
    B, H, S, D = q.shape
    triton.set_allocator(descriptor_memory)
    sms = torch.cuda.get_device_properties(q.device).multi_processor_count
    copy_rows[(min(sms, triton.cdiv(B * H * S, 64)),)](q, out, B * H * S, BLOCK=64, D=D)
    return out
