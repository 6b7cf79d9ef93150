"""What a kernel's disassembly is made of: opcodes, and the tensor-core instructions among them."""

from __future__ import annotations

import re
from collections import Counter

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
"""Instruction families of tensor cores, the newest first."""


def opcodes(sass: str) -> Counter[str]:
    """Opcode to its number in the disassembly, modifiers left out."""
    return Counter(_OPCODE.findall(sass))


def tensor_family(counts: Counter[str]) -> str:
    """The tensor-core instructions that a kernel uses, or an empty string."""
    return next((family for family in TENSOR_FAMILIES if counts[family]), "")
