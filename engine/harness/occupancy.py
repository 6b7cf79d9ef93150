"""How many blocks of a kernel fit on one SM, and what its machine code is made of."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

REGISTER_UNIT = 256
"""Registers are given out to a warp in units of this many."""
SMEM_UNIT_BYTES = 128
SMEM_RESERVED_BYTES = 1024
"""Shared memory that the system takes of each block, from sm_80 on."""
WARP_ALLOCATION = 4

_OPCODE = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_]*)")
TENSOR_FAMILIES = (
    "UTCHMMA",
    "UTCQMMA",
    "UTCIMMA",
    "UTCOMMA",
    "UTCMXQMMA",
    "HGMMA",
    "QGMMA",
    "IGMMA",
    "OMMA",
    "QMMA",
    "IMMA",
    "HMMA",
    "DMMA",
)
"""Instruction families of tensor cores, the most specific first."""


@dataclass(frozen=True)
class Occupancy:
    ctas_per_sm: int
    fraction: float
    """Resident warps of those that an SM can hold."""
    limited_by: str


def occupancy(
    *,
    num_warps: int,
    registers: int,
    smem_bytes: int,
    warps_sm: int,
    ctas_sm: int,
    registers_sm: int,
    smem_sm_bytes: int,
) -> Occupancy:
    """Blocks per SM: the least of what warps, registers, shared memory and the block limit allow."""
    per_warp = -(-max(registers, 1) * 32 // REGISTER_UNIT) * REGISTER_UNIT
    warps_by_registers = registers_sm // per_warp // WARP_ALLOCATION * WARP_ALLOCATION
    smem = -(-(smem_bytes + SMEM_RESERVED_BYTES) // SMEM_UNIT_BYTES) * SMEM_UNIT_BYTES
    limits = {
        "warps": warps_sm // num_warps,
        "registers": warps_by_registers // num_warps,
        "shared memory": smem_sm_bytes // smem,
        "blocks": ctas_sm,
    }
    limiter = min(limits, key=lambda name: limits[name])
    ctas = max(limits[limiter], 0)
    return Occupancy(ctas, min(1.0, ctas * num_warps / warps_sm), limiter)


def opcodes(sass: str) -> Counter[str]:
    """Opcode to its number in the disassembly, modifiers left out."""
    return Counter(_OPCODE.findall(sass))


def tensor_family(counts: Counter[str]) -> str:
    """The tensor-core instructions that a kernel uses, or an empty string."""
    return next((family for family in TENSOR_FAMILIES if counts[family]), "")
