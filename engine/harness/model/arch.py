"""What one streaming multiprocessor of each generation can do, per clock.

The figures are for one of the four sub-partitions ("scheduler") unless said otherwise. Sources: the CUDA
programming guide's table of arithmetic throughput (fp32, int, conversion, special functions, shuffles by
compute capability), the tuning guides (shared memory 128 B a clock, warps and CTAs per SM), and published
microbenchmarks for latencies. Tensor rates are not here: they follow from the card's profile.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Arch:
    """Cycles that a warp instruction keeps a pipe of one scheduler busy, and latencies in cycles."""

    sm: int
    fma: float
    """fp32 multiply-add: 1 where the scheduler has 32 lanes, 2 where it has 16."""
    imad: float
    alu: float
    """Integer, logic, compare, select, min/max."""
    convert: float
    mufu: float
    """exp2, reciprocal and the like: 4 lanes a scheduler everywhere."""
    smem_bytes_clk: float
    """Shared memory bytes per clock of the whole SM."""
    lat_alu: int
    lat_mufu: int
    lat_smem: int
    lat_shfl: int
    lat_mma: int
    lat_wgmma: int
    lat_bar: int
    """From the last warp's arrival at a barrier until all go on."""
    lat_fence: int
    """Cycles that a memory fence holds a warp."""
    lat_l2: int
    """Load that hits L2, at low load."""
    lat_dram: int
    lat_tma: int
    """What a bulk copy takes longer than a load."""
    mma_rate: float
    """Share of the profile's tensor rate that mma.sync reaches (on Hopper only wgmma reaches all of it)."""
    l2_bytes_clk: float
    """Bytes per clock and SM out of L2 while all SMs read."""
    port_bytes_clk: float
    """Bytes per clock that one SM can take in."""
    loaded_clock: float
    """Share of the boost clock that is left when the tensor cores are busy all the time."""


ARCHS: dict[int, Arch] = {
    80: Arch(80, 2, 2, 2, 2, 8, 128, 5, 24, 29, 27, 25, 40, 45, 40, 230, 650, 250, 1.0, 34, 64, 0.9),
    86: Arch(86, 1, 2, 2, 2, 8, 128, 5, 24, 29, 27, 33, 40, 45, 40, 230, 650, 250, 1.0, 34, 64, 1.0),
    89: Arch(89, 1, 2, 2, 2, 8, 128, 5, 24, 29, 27, 33, 40, 45, 40, 270, 750, 250, 1.0, 34, 64, 1.0),
    90: Arch(90, 1, 2, 2, 2, 8, 128, 5, 24, 33, 27, 33, 40, 45, 40, 275, 1050, 300, 0.62, 34, 64, 0.77),
    100: Arch(100, 1, 2, 2, 2, 8, 128, 5, 24, 33, 27, 33, 40, 45, 40, 300, 1000, 300, 0.5, 34, 64, 0.77),
    120: Arch(120, 1, 1, 1, 2, 8, 128, 5, 24, 33, 27, 35, 40, 45, 40, 300, 800, 250, 1.0, 34, 64, 1.0),
}


def arch_of(target: Mapping[str, Any]) -> Arch:
    """The generation of a target; an unknown one gets the nearest older one's figures."""
    number = int(target.get("arch") or 80)
    known = [n for n in ARCHS if n <= number]
    return ARCHS[max(known) if known else 80]


def number(target: Mapping[str, Any], key: str, default: float) -> float:
    """A positive figure of the target, or the default."""
    value = target.get(key)
    return float(value) if isinstance(value, (int, float)) and value > 0 else default


def tensor_fma_clk(target: Mapping[str, Any], element: str, accumulate: str) -> float:
    """Dense multiply-adds per clock and scheduler for operands of `element`, from the profile's peak: rated
    at some clock that need not be the boost clock, so the power of two that is nearest."""
    rates = target.get("tensor_tflops")
    rates = rates if isinstance(rates, Mapping) else {}
    names = {"f16": "fp16", "bf16": "bf16", "i8": "int8", "f32": "tf32"}
    key = names.get(element, "fp8" if element.startswith("f8") else element)
    if key == "fp16" and accumulate == "f16" and "fp16_acc16" in rates:
        key = "fp16_acc16"
    base = rates.get("bf16") or rates.get("fp16") or 25.0
    factor = {"tf32": 0.5, "int8": 2.0, "fp8": 2.0}.get(key, 1.0)
    value = rates.get(key)
    rate = float(value) if isinstance(value, (int, float)) and value > 0 else float(base) * factor
    sms, ghz = number(target, "sms", 28), number(target, "boost_ghz", 1.7)
    per_clock = rate * 1e12 / (2 * sms * 4 * ghz * 1e9)
    return float(2 ** round(math.log2(max(1.0, per_clock))))
