"""Find each loop of the source in the machine code.

The order of loops survives compilation, their number does not: ptxas unrolls some, with or without a loop
for the rest, and flattens short ones. Loops are aligned in order by the work that one pass does.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from .sass import ASYNC_LOAD, LOAD, TENSOR, TMA, Code
from .trace import flatten


@dataclass(slots=True)
class Tally:
    """Work of one pass of a machine loop without its inner loops, per CTA."""

    flops: float = 0.0
    exp: float = 0.0
    load: float = 0.0
    copies: int = 0
    """Bulk copies: one or more for each descriptor load of the source."""
    unknown_mma: bool = False


def machine_tallies(code: Code, warps: int) -> tuple[list[Tally], Tally]:
    """Tallies of the loops in code order, and of the code outside all loops."""
    flat = flatten(code.loops)
    owner = [-1] * len(code.instrs)
    for number, (loop, _) in enumerate(flat):  # inner loops come later and overwrite
        for i in range(loop.first, min(loop.last + 1, len(owner))):
            owner[i] = number
    out = [Tally() for _ in flat]
    root = Tally()
    for i, x in enumerate(code.instrs):
        tally = out[owner[i]] if owner[i] >= 0 else root
        tally.copies += x.kind == TMA
        if x.pipe == TENSOR:
            if x.flops < 0:
                tally.unknown_mma = True
            else:
                tally.flops += x.flops * warps
        elif x.op.startswith("MUFU.EX2"):
            tally.exp += 32.0 * warps
        elif x.kind in (LOAD, ASYNC_LOAD):
            tally.load += x.bytes * warps
    return out, root


def source_tallies(blocks: list[dict[str, Any]]) -> dict[int, dict[str, float]]:
    """Work of one pass of each source loop: its own and that of all arms of its ifs, without inner loops."""
    out: dict[int, dict[str, float]] = {}
    for number, block in enumerate(blocks):
        home = number
        while home > 0 and blocks[home]["kind"] in ("then", "else"):
            home = blocks[home]["parent"]
        tally = out.setdefault(
            home, dict.fromkeys(("flops", "exp", "load", "elements", "store", "copies"), 0.0)
        )
        for key in tally:
            tally[key] += block[key]
    return out


def align(
    blocks: list[dict[str, Any]], code: Code, warps: int
) -> tuple[dict[int, int], dict[int, int], set[int]]:
    """Source loop (block) -> machine loop, source loop -> passes per machine pass, and the source loops that
    were flattened into the code around them."""
    source = source_tallies(blocks)
    loops = [b for b in sorted(source) if blocks[b]["kind"] in ("for", "while")]
    machine, root = machine_tallies(code, warps)
    n, m = len(loops), len(machine)
    best = [[0.0] * (m + 1) for _ in range(n + 1)]
    for i in range(n - 1, -1, -1):
        for j in range(m - 1, -1, -1):
            score = _score(source[loops[i]], machine[j])
            best[i][j] = max(best[i + 1][j], best[i][j + 1], best[i + 1][j + 1] + score if score > 0 else 0.0)
    found: dict[int, int] = {}
    unroll: dict[int, int] = {}
    i = j = 0
    while i < n and j < m:
        score = _score(source[loops[i]], machine[j])
        if score > 0 and best[i][j] == best[i + 1][j + 1] + score:
            found[loops[i]] = j
            unroll[loops[i]] = _unroll(source[loops[i]], machine[j])
            i, j = i + 1, j + 1
        elif best[i][j] == best[i][j + 1]:
            j += 1
        else:
            i += 1
    flat = {b for b in loops if b not in found and _flattened(source, b, blocks, found, machine, root)}
    return found, unroll, flat


def _score(source: dict[str, float], machine: Tally) -> float:
    """How well a machine loop fits a source loop; 0: not at all."""
    if source["flops"] > 0:
        if machine.unknown_mma:
            return 10.0
        if machine.flops <= 0:
            return 0.0
        ratio = machine.flops / source["flops"]
        return 10.0 * math.sqrt(math.sqrt(min(ratio, 1.0 / ratio)))
    if machine.flops > 0 or machine.unknown_mma:
        return 0.0
    if source["load"] > 0:
        return 2.0 + (1.0 if (source["exp"] > 0) == (machine.exp > 0) else 0.0) if machine.load > 0 else 0.3
    return 0.5


def _unroll(source: dict[str, float], machine: Tally) -> int:
    """Passes of the source in one pass of the machine loop. Every kind of work grows with it, so the kind
    that grew least tells: the others were replicated over warps."""
    ratios = []
    if source["flops"] > 0 and machine.flops > 0:
        ratios.append(machine.flops / source["flops"])
    if source["load"] >= 1024 and machine.load > 0:
        ratios.append(machine.load / source["load"])
    if source["exp"] > 0 and machine.exp > 0:
        ratios.append(machine.exp / source["exp"])
    if machine.copies and source["copies"]:
        ratios.append(machine.copies / source["copies"])
    return max(1, math.floor(min(ratios) + 0.1)) if ratios else 1


def _flattened(
    source: dict[int, dict[str, float]],
    block: int,
    blocks: list[dict[str, Any]],
    found: dict[int, int],
    machine: list[Tally],
    root: Tally,
) -> bool:
    """Whether the loop's work stands in the code around it."""
    home = blocks[block]["parent"]
    while home > 0 and home not in found:
        home = blocks[home]["parent"]
    around = machine[found[home]] if home in found else root
    base = source.get(home, {})
    mine = source[block]
    if mine["flops"] > 0:
        return around.flops - base.get("flops", 0.0) >= 0.9 * mine["flops"]
    if mine["load"] > 0:
        return around.load - base.get("load", 0.0) >= 0.9 * mine["load"]
    return True
