"""A Gluon kernel: explicit layouts, shared memory, an aggregate of values, Hopper descriptors."""

import torch
import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier, tma
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor
from triton.language.core import _aggregate as aggregate

SPACE = {"BLOCK": [64, 128]}
CONFIG = {"*": {"BLOCK": 64}}


@gluon.constexpr_function
def threads(num_warps):
    return [1, 32, num_warps]


@aggregate
class Ring:
    """A barrier and the memory it guards."""

    bar: gl.shared_memory_descriptor
    depth: gl.constexpr

    @gluon.constexpr_function
    def __init__(self, bar, depth):
        self.bar = bar
        self.depth = gl.constexpr(depth)

    @gluon.jit
    def wait(self, phase):
        mbarrier.wait(self.bar, phase=phase)


@gluon.jit
def copy_rows(source, out, rows, BLOCK: gl.constexpr, D: gl.constexpr, num_warps: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [num_warps, 1], [1, 0])
    memory = gl.allocate_shared_memory(source.dtype, [BLOCK, D], source.layout)
    bar = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    ring = Ring(bar, 1)
    mbarrier.init(bar, count=1)
    mbarrier.expect(bar, source.block_type.nbytes)
    tma.async_copy_global_to_shared(source, [gl.program_id(0) * BLOCK, 0], bar, memory)
    ring.wait(0)
    fence_async_shared()
    x = memory.load(layout)
    offsets = gl.program_id(0) * BLOCK + gl.arange(0, BLOCK, layout=gl.SliceLayout(1, layout))
    columns = gl.arange(0, D, layout=gl.SliceLayout(0, layout))
    gl.store(out + offsets[:, None] * D + columns[None, :], x, mask=(offsets < rows)[:, None])


def attention(q, k, v, *, causal: bool, scale: float) -> torch.Tensor:
    B, H, S, D = q.shape
    out = torch.empty((B, H, S, D), dtype=q.dtype, device=q.device)
    block = CONFIG["*"]["BLOCK"]
    layout = gl.NVMMASharedLayout.get_default_for([block, D], gl.float16)
    source = TensorDescriptor.from_tensor(q.reshape(-1, D), [block, D], layout)
    rows = B * H * S
    copy_rows[(triton.cdiv(rows, block),)](source, out, rows, BLOCK=block, D=D, num_warps=4)
    return out
