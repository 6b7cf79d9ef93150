"""How long FlashAttention-2 would take on a card: an estimate from the figures in the card's profile.

The FA2 meant is torch's SDPA flash backend. Its host code decides what is launched, and that is followed
here: with one query, the query heads of a group become the rows of a tile; if rows and heads give fewer
CTAs than 0.8 x twice the SMs, the keys are split, in tiles of 64 rows, and a second kernel combines.

Measured (H200, torch 2.11, bf16): the prefill curves, the read rate, what launching, combining and each
split cost, and the shares below (`SPLIT_RATE`, `SOLO_RATE`, `VARLEN`). Seven decode points of another run
on that card come out within 10 %, further shapes (head dims 64 to 256, groups 2 to 16, chunks, several
queries) mostly within 15 %. Scaled: every other card keeps the latencies, takes the read rate from its own
memory and the arithmetic from its own prefill curve; the rounding to whole waves follows its SMs and
shared memory. Times are of one CUDA-graph replay with a cold L2, the replay's own launch of about 3 µs
included.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kernel_lab.engine.profiles import Fa2Curve, GpuProfile

SPLIT_RATE = 0.86
"""Rate of the split kernel's arithmetic, in tiles of 64 rows, against the prefill curve."""
SOLO_RATE = 0.85
"""Share of an SM's rate that a CTA reaches when it has the SM to itself."""
VARLEN = 1.09
"""The call for ragged lengths against the plain one."""
SPLIT_EXPONENT = 0.85
"""Splits cost a little less each, the more there are."""

_SPLIT_ROWS = 64
_TAIL_ROUNDS = 1.6
"""Rounds of the mean CTA that the longest causal ones outlast the others by."""
_REFERENCE_LOAD = 30.0
"""CTAs per SM of the grids behind the curves: 16k tokens of 16 to 32 heads."""


@dataclass(frozen=True, slots=True)
class _Tile:
    """Rows and keys of a CTA's tile, and how many such CTAs an SM holds."""

    rows: int
    keys: int
    per_sm: int


def fa2_time_us(gpu: GpuProfile, workload: Mapping[str, Any]) -> float:
    """FlashAttention-2's estimated time for one call, in µs."""
    batch, heads, kv_heads = int(workload["B"]), int(workload["Hq"]), int(workload["Hkv"])
    queries, room, dim = int(workload["Sq"]), int(workload["Sk"]), int(workload["D"])
    lengths = [max(1, int(n)) for n in workload.get("seq_lens") or [room] * batch]
    rows, row_heads = (heads // kv_heads, kv_heads) if queries == 1 < heads // kv_heads else (queries, heads)
    tile = _split_tile(gpu, dim)
    units = batch * row_heads * math.ceil(rows / tile.rows)
    splits = split_count(units, 2 * gpu.sms, math.ceil(room / tile.keys))
    costs = gpu.fa2.decode
    rate = _read_rate(gpu, tile, units * splits)
    fixed_us = costs.fixed_us
    if splits > 1:
        work_us = _split_us(gpu, dim, row_heads, rows, lengths, splits)
        partial_bytes = 2.0 * 4 * batch * row_heads * rows * splits * dim
        fixed_us += costs.combine_us + costs.per_split_us * splits**SPLIT_EXPONENT
        fixed_us += partial_bytes / _read_rate(gpu, tile, 2 * gpu.sms) * 1e6
    else:
        causal = bool(workload["causal"]) and queries > 1
        work_us = _plain_us(gpu, dim, row_heads, rows, lengths, causal)
    read_us = _bytes(workload, lengths) / rate * 1e6
    ragged = workload.get("seq_lens") is not None
    return (fixed_us + max(work_us, read_us)) * (VARLEN if ragged else 1.0)


def split_count(units: int, slots: int, blocks: int) -> int:
    """Parts that the keys of a unit (rows of one head) are cut into: 1 if the units nearly fill the card,
    else the fewest whose waves are at least 85 % as full as the best, counting only cuts that shorten a part.
    """
    if units >= 0.8 * slots:
        return 1
    fullness = {
        splits: units * splits / slots / math.ceil(units * splits / slots)
        for splits in range(1, min(128, slots, blocks) + 1)
        if splits == 1 or math.ceil(blocks / splits) != math.ceil(blocks / (splits - 1))
    }
    best = max(fullness.values(), default=1.0)
    return min((splits for splits, full in fullness.items() if full >= 0.85 * best), default=1)


def prefill_tflops(gpu: GpuProfile, dim: int, causal: bool, length: int) -> float:
    """The curve at a sequence length: linear in its logarithm between points, level beyond the longest.

    Below the shortest point the last slope goes on, down to a third of that point. Head dims run in the
    next instance that FA2 is built for, and dims between two curves are interpolated.
    """
    padded = _instance(dim)
    dims = sorted({curve.D for curve in gpu.fa2.prefill if curve.causal is causal})
    below = max((d for d in dims if d <= padded), default=dims[0])
    above = min((d for d in dims if d >= padded), default=dims[-1])
    low, high = (_at(_points(gpu, d, causal), length) for d in (below, above))
    share = (padded - below) / (above - below) if above > below else 0.0
    return (low + (high - low) * share) * dim / padded


def _points(gpu: GpuProfile, dim: int, causal: bool) -> list[tuple[int, float]]:
    """All points of a head dim; where curves meet at a length, the better founded kind counts."""
    order = ("scaled", "published", "measured")
    curves: list[Fa2Curve] = [c for c in gpu.fa2.prefill if (c.D, c.causal) == (dim, causal)]
    merged: dict[int, float] = {}
    for curve in sorted(curves, key=lambda c: order.index(c.kind)):
        merged.update(curve.points)
    return sorted(merged.items())


def _at(points: list[tuple[int, float]], length: int) -> float:
    if length >= points[-1][0] or len(points) == 1:
        return points[-1][1]
    index = max(1, next(i for i, (size, _) in enumerate(points) if size >= length))
    (size0, rate0), (size1, rate1) = points[index - 1], points[index]
    rate = rate0 + (rate1 - rate0) * math.log(length / size0) / math.log(size1 / size0)
    return max(rate, points[0][1] / 3)


def _instance(dim: int) -> int:
    """Head dim of the compiled instance that serves `dim`."""
    return next(d for d in (32, 64, 96, 128, 192, 256) if d >= dim)


def _split_tile(gpu: GpuProfile, dim: int) -> _Tile:
    padded = _instance(dim)
    keys = 256 if padded <= 64 else 128 if padded <= 128 else 64
    return _Tile(_SPLIT_ROWS, keys, _per_sm(gpu, _SPLIT_ROWS, keys, padded))


def _plain_tile(gpu: GpuProfile, dim: int, causal: bool) -> _Tile:
    """Tiles of the kernel without splits; sm_86 and sm_89 have their own, so has head dim 256 on sm_80."""
    padded = _instance(dim)
    small = gpu.arch in (86, 89)
    if padded <= 64:
        rows, keys = 128, 128
    elif padded <= 128:
        rows, keys = (64, 64) if small and causal else (128, 32) if small and padded == 128 else (128, 64)
    elif padded <= 192:
        rows, keys = 128, 64
    else:
        block, whole = 2 * padded * (128 + 2 * 64), 4 * padded * (64 + 2 * 64)
        rows, keys = (128 if gpu.smem_block_bytes >= block and gpu.smem_sm_bytes < whole else 64), 64
    return _Tile(rows, keys, _per_sm(gpu, rows, keys, padded))


def _per_sm(gpu: GpuProfile, rows: int, keys: int, dim: int) -> int:
    """CTAs an SM holds: by shared memory (Q, K and V tiles, 1 KB reserved), at most 2 by registers."""
    return max(1, min(2, gpu.smem_sm_bytes // (2 * dim * (rows + 2 * keys) + 1024)))


def _split_us(gpu: GpuProfile, dim: int, heads: int, rows: int, lengths: list[int], splits: int) -> float:
    """Arithmetic of the split kernel: whole tiles of rows, however few are used, in whole waves."""
    tile = _split_tile(gpu, dim)
    parts = [math.ceil(math.ceil(n / tile.keys) / splits) * tile.keys for n in lengths]
    ctas = len(lengths) * heads * math.ceil(rows / tile.rows) * splits
    slots = gpu.sms * tile.per_sm
    mean, longest = sum(parts) / len(parts), max(parts)
    # The first wave lasts as long as its longest CTA; later ones fill up behind it.
    keys = max(mean * math.ceil(ctas / slots), longest + mean * (ctas / slots - 1))
    tflops = prefill_tflops(gpu, dim, False, max(lengths)) * _split_rate(gpu, dim)
    if ctas <= gpu.sms and tile.per_sm > 1:
        tflops *= SOLO_RATE * tile.per_sm
    return 4.0 * tile.rows * keys * dim * slots / (tflops * 1e6)


def _split_rate(gpu: GpuProfile, dim: int) -> float:
    return SPLIT_RATE if _plain_tile(gpu, dim, False).rows > _SPLIT_ROWS else 1.0


def _plain_us(gpu: GpuProfile, dim: int, heads: int, rows: int, lengths: list[int], causal: bool) -> float:
    """Arithmetic of the kernel without splits, at the curve's rate and with the grid's last wave.

    A tile is computed whole, so few rows cost as much as a tile of them. Causal work is the square on the
    diagonal at the causal rate and the rest at the full rate.
    """
    tile = _plain_tile(gpu, dim, causal)
    if rows <= tile.rows:
        rows, causal = tile.rows, False
    flops_per_score = 4.0 * heads * dim
    time_us = 0.0
    for length in lengths:
        square = min(rows, length) if causal else 0
        scores: float = square * (length - square) if causal else rows * length
        time_us += flops_per_score * scores / (prefill_tflops(gpu, dim, False, length) * 1e6)
        if square:
            scores = square * (square + 1) / 2
            time_us += flops_per_score * scores / (prefill_tflops(gpu, dim, True, square) * 1e6)
    ctas = len(lengths) * heads * math.ceil(rows / tile.rows)
    return time_us * _stretch(gpu, tile, ctas, rows, max(lengths), causal)


def _stretch(gpu: GpuProfile, tile: _Tile, ctas: int, rows: int, length: int, causal: bool) -> float:
    """Time against that of the same work on a grid like those behind the curves.

    Alike CTAs take whole rounds. Causal ones differ, and FA2 starts the shortest first: the longest run on
    at the end. `uneven` goes from 0 (alike) to 1 (the longest has twice the mean's work).
    """
    load = ctas / gpu.sms
    alone = 1 / SOLO_RATE if tile.per_sm > 1 else 1.0
    reach = min(rows, length)
    mean_keys = length - reach + (reach + min(tile.rows, reach)) / 2
    longest = length / mean_keys if causal else 1.0
    uneven = min(1.0, longest - 1.0)
    if load <= 1:
        rounds = max(longest, alone)
    else:
        alike = float(math.ceil(load)) if load <= 4 else load + 0.5
        rounds = alike * (1 - uneven) + (load + _TAIL_ROUNDS) * uneven
    reference = _REFERENCE_LOAD + 0.5 * (1 - uneven) + _TAIL_ROUNDS * uneven
    return rounds / load * _REFERENCE_LOAD / reference


def _bytes(workload: Mapping[str, Any], lengths: list[int]) -> float:
    """Bytes that must cross DRAM: queries and result, and every key and value once per KV head."""
    queries = 2.0 * workload["B"] * workload["Hq"] * workload["Sq"]
    rows: float = queries + 2.0 * workload["Hkv"] * sum(lengths)
    return 2.0 * float(workload["D"]) * rows


def _read_rate(gpu: GpuProfile, tile: _Tile, ctas: int) -> float:
    """Bytes per second from DRAM; a wave that is not full leaves some of the rate unused."""
    fill = min(1.0, ctas / (gpu.sms * tile.per_sm))
    return gpu.dram_gbs * 1e9 * gpu.fa2.decode.read_fraction * math.sqrt(fill)
