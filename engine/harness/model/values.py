"""Integer operations of a kernel's programs on Python numbers; None is unknown."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any


def _divide(a: int, b: int) -> int | None:
    if not b:
        return None
    q = abs(a) // abs(b)
    return q if (a < 0) == (b < 0) else -q


def _remainder(a: int, b: int) -> int | None:
    q = _divide(a, b)
    return None if q is None else a - q * b


def _shift_left(a: int, b: int) -> int | None:
    return a << b if 0 <= b < 60 else None


def _shift_right(a: int, b: int) -> int | None:
    return a >> b if 0 <= b < 64 else None


BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "arith.addi": lambda a, b: a + b,
    "arith.subi": lambda a, b: a - b,
    "arith.muli": lambda a, b: a * b,
    "arith.addf": lambda a, b: a + b,
    "arith.subf": lambda a, b: a - b,
    "arith.mulf": lambda a, b: a * b,
    "arith.divf": lambda a, b: a / b if b else None,
    "arith.divsi": _divide,
    "arith.divui": _divide,
    "arith.remsi": _remainder,
    "arith.remui": _remainder,
    "arith.floordivsi": lambda a, b: a // b if b else None,
    "arith.ceildivsi": lambda a, b: -(-a // b) if b else None,
    "arith.ceildivui": lambda a, b: -(-a // b) if b else None,
    "arith.minsi": min,
    "arith.minui": min,
    "arith.minnumf": min,
    "arith.maxsi": max,
    "arith.maxui": max,
    "arith.maxnumf": max,
    "arith.andi": lambda a, b: a & b,
    "arith.ori": lambda a, b: a | b,
    "arith.xori": lambda a, b: a ^ b,
    "arith.shli": _shift_left,
    "arith.shrsi": _shift_right,
    "arith.shrui": _shift_right,
}
COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}
ROUND: dict[str, Callable[[Any], Any]] = {"math.ceil": math.ceil, "math.floor": math.floor, "math.absi": abs}
GROWING = frozenset(("arith.muli", "arith.shli"))
"""Products are kept below 2**60: a loop that squares would otherwise never end."""
_SAME_NAMES = (
    "arith.extsi arith.extui arith.trunci arith.index_cast arith.bitcast arith.sitofp arith.uitofp tt.splat "
    "tt.unsplat tt.expand_dims tt.broadcast tt.reshape tt.trans tt.bitcast ttg.convert_layout"
)
SAME = frozenset(_SAME_NAMES.split())


def extrapolate(before: Any, after: Any, trips: float) -> Any:
    """Where a value that moved from `before` to `after` in one trip stands after `trips`."""
    if (
        isinstance(before, tuple)
        and isinstance(after, tuple)
        and before[:2] == after[:2]
        and before[0] == "p"
    ):
        return ("p", before[1], before[2] + (after[2] - before[2]) * trips)
    if isinstance(before, (int, float)) and isinstance(after, (int, float)):
        return before + (after - before) * int(trips)
    return after if before == after else None
