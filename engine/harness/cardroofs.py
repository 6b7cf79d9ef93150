"""What a card reaches with simple kernels on random data: the roofs that a kernel's rate is a share of."""

from __future__ import annotations

import functools
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
import triton
import triton.language as tl

READ_BLOCK = 8192
EXP_BLOCK = 1024
EXP_ROUNDS = 512
MATMUL = 8192


@triton.jit  # type: ignore[untyped-decorator]
def read_kernel(source, target, blocks, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    """Sum over what one program reads, so that nothing is left out. Grid: (programs,)."""
    total = tl.zeros([BLOCK], tl.float32)
    for block in range(tl.program_id(0), blocks, tl.num_programs(0)):
        offsets = tl.cast(block, tl.int64) * BLOCK + tl.arange(0, BLOCK)
        total += tl.load(source + offsets).to(tl.float32)
    tl.store(target + tl.program_id(0), tl.sum(total, 0))


@triton.jit  # type: ignore[untyped-decorator]
def copy_kernel(source, target, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    offsets = tl.cast(tl.program_id(0), tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(target + offsets, tl.load(source + offsets))


@triton.jit  # type: ignore[untyped-decorator]
def exp_kernel(source, target, ROUNDS: tl.constexpr, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    """ROUNDS exponentials of each element, each of the one before. Grid: (blocks,)."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(source + offsets)
    for _ in range(ROUNDS):
        x = tl.math.exp2(-x)
    tl.store(target + offsets, x)


def seconds_of(call: Callable[[], object], budget_s: float) -> float:
    """Median seconds of a call by device events, over as many as the budget holds, five at least."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    call()
    torch.cuda.synchronize()
    times: list[float] = []
    started = time.monotonic()
    while len(times) < 5 or (time.monotonic() - started < budget_s and len(times) < 200):
        begin.record()
        call()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / 1000)
    return statistics.median(times)


def _memory(size: int, programs: int, budget_s: float) -> tuple[float, float]:
    """GB/s read, and copied, over `size` bytes."""
    source = torch.randn(size // 2, device="cuda", dtype=torch.bfloat16)
    target = torch.empty_like(source)
    sums = torch.empty(programs, device="cuda", dtype=torch.float32)
    blocks = source.numel() // READ_BLOCK

    def read() -> None:
        read_kernel[(programs,)](source, sums, blocks, BLOCK=READ_BLOCK, num_warps=8)

    def copy() -> None:
        copy_kernel[(blocks,)](source, target, BLOCK=READ_BLOCK, num_warps=8)

    return size / seconds_of(read, budget_s) / 1e9, 2 * size / seconds_of(copy, budget_s) / 1e9


def measure(budget_s: float) -> dict[str, Any]:
    """Rates: GB/s read, GB/s copied (read and written), dense TFLOP/s, 10^9 exponentials a second."""
    properties = torch.cuda.get_device_properties(0)
    free, _ = torch.cuda.mem_get_info()
    size = min(4 << 30, int(free / 6)) // (2 * READ_BLOCK) * (2 * READ_BLOCK)
    part = budget_s / 5
    programs = properties.multi_processor_count * 8
    read_gbs, copy_gbs = _memory(size, programs, part)
    matmul = {}
    for name, dtype in (("fp16", torch.float16), ("bf16", torch.bfloat16)):
        a, b = (torch.randn(MATMUL, MATMUL, device="cuda", dtype=dtype) for _ in range(2))
        product = torch.empty(MATMUL, MATMUL, device="cuda", dtype=dtype)
        taken = seconds_of(functools.partial(torch.mm, a, b, out=product), part)
        matmul[name] = round(2 * MATMUL**3 / taken / 1e12, 1)
    count = EXP_BLOCK * properties.multi_processor_count * 32
    x, y = torch.rand(count, device="cuda"), torch.empty(count, device="cuda")

    def exponentials() -> None:
        exp_kernel[(count // EXP_BLOCK,)](x, y, ROUNDS=EXP_ROUNDS, BLOCK=EXP_BLOCK, num_warps=4)

    exp_gops = count * EXP_ROUNDS / seconds_of(exponentials, part) / 1e9
    return {
        "read_gbs": round(read_gbs, 1),
        "copy_gbs": round(copy_gbs, 1),
        "matmul_tflops": matmul,
        "exp_gops": round(exp_gops, 1),
        "l2_bytes": properties.L2_cache_size,
        "sms": properties.multi_processor_count,
        "capability": [properties.major, properties.minor],
        "memory_bytes": properties.total_memory,
    }
