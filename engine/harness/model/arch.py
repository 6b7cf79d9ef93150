"""What one streaming multiprocessor of each generation can do, per clock.

The figures are for one of the four sub-partitions ("scheduler") unless said otherwise. Sources: the CUDA
programming guide's table of arithmetic throughput (fp32, int, conversion, special functions, shuffles by
compute capability), the tuning guides (shared memory 128 B a clock, warps and CTAs per SM), and published
microbenchmarks for latencies. Tensor rates are not here: they follow from the card's profile.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
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
    l1_bytes: int
    """Shared memory and L1 of an SM together: what CTAs do not take holds spilled registers."""
    lat_alu: int
    lat_pred: int
    """From a comparison to the instruction that its predicate guards."""
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


CARVEOUTS = tuple(kib * 1024 for kib in (0, 8, 16, 32, 64, 100, 132, 164, 196, 228))
"""Sizes that the shared part of an SM's memory is set to."""

_AMPERE = Arch(
    sm=80,
    fma=2,
    imad=2,
    alu=2,
    convert=2,
    mufu=8,
    smem_bytes_clk=128,
    l1_bytes=192 * 1024,
    lat_alu=5,
    lat_pred=11,
    lat_mufu=18,
    lat_smem=29,
    lat_shfl=27,
    lat_mma=25,
    lat_wgmma=40,
    lat_bar=32,
    lat_fence=40,
    lat_l2=230,
    lat_dram=650,
    lat_tma=120,
    mma_rate=1.0,
    l2_bytes_clk=44,
    port_bytes_clk=96,
    loaded_clock=0.9,
)
_HOPPER = replace(
    _AMPERE,
    sm=90,
    fma=1,
    l1_bytes=256 * 1024,
    lat_smem=33,
    lat_mma=33,
    lat_l2=275,
    lat_dram=1050,
    mma_rate=0.62,
    loaded_clock=0.7,
)
_GEFORCE = replace(_AMPERE, sm=86, fma=1, l1_bytes=128 * 1024, lat_mma=33, loaded_clock=1.0)
ARCHS: dict[int, Arch] = {
    80: _AMPERE,
    86: replace(_GEFORCE, sm=86),
    89: replace(_GEFORCE, sm=89, lat_l2=270, lat_dram=750),
    90: _HOPPER,
    100: replace(_HOPPER, sm=100, lat_l2=300, mma_rate=0.5),
    120: replace(_GEFORCE, sm=120, imad=1, alu=1, lat_mma=35, lat_l2=300, lat_dram=800),
}


def spill_misses(arch: Arch, smem_bytes: float, spilled_bytes: float, residents: int) -> float:
    """Share of spilled registers' traffic that L1 cannot hold. Both sizes are of one CTA."""
    wanted = spilled_bytes * residents
    if wanted <= 0:
        return 0.0
    carved = (smem_bytes + 1024) * residents
    room = arch.l1_bytes - min((c for c in CARVEOUTS if c >= carved), default=carved)
    return min(1.0, max(0.0, 1.0 - room / wanted))


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
