"""How many bytes a launch asks L2 for and how many of them DRAM must deliver.

Inputs are cold. CTAs that run at the same time and read the same tiles (the query heads of a KV head, the
query blocks of a head) share one trip to DRAM; later readers find the data if all of what is read fits in
L2. Which CTAs share is read off the addresses that the address program computes for CTAs that are
neighbours in launch order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from . import schedule

L2_SHARE = 0.8
"""Part of L2 that holds data for later readers."""
WINDOW = 32
"""Most neighbouring CTAs looked at in one place of the grid; three times as many are in all."""
SPREAD = 128
"""CTAs from all over the grid that are asked which share of each load is masked off."""

Reach = Callable[[int], list[tuple[int, Any, float, float, float]]]


@dataclass(frozen=True, slots=True)
class Traffic:
    requested: float
    """Bytes that all CTAs load."""
    dram: float
    """Bytes that DRAM delivers and takes."""
    stored: float
    unknown: bool
    """No address was known: everything is taken to come from DRAM, up to the tensors' sizes."""


def estimate(
    reach: Reach,
    site_bytes: Sequence[float],
    looked: set[int],
    total: int,
    resident: int,
    l2_bytes: float,
    tensor_bytes: dict[Any, float],
    stored: float,
    hot: frozenset[Any] = frozenset(),
) -> Traffic:
    """`site_bytes[s]`: bytes that site s loads over all CTAs, `looked`: sites whose addresses are followed,
    `resident`: CTAs on the card at once, `tensor_bytes`: sizes of the tensors by argument name, `hot`:
    arguments that an earlier launch of the same call has left in L2."""
    asked = sum(site_bytes)
    distinct = summed = 0.0
    visits: dict[int, tuple[int, float]] = {}
    located = False
    names: set[Any] = set()
    # How much of a load is masked off differs from sequence to sequence: asked of CTAs from the whole grid.
    for cta in schedule.pick(total, SPREAD):
        for site, _, _, _, live in reach(cta):
            count, share = visits.get(site, (0, 0.0))
            visits[site] = (count + 1, share + live)
    for window in _windows(total, resident):
        spans: dict[Any, list[tuple[float, float]]] = {}
        for cta in window:
            for _, argument, low, high, live in reach(cta):
                if argument is None or not live:
                    continue
                located = True
                summed += high + 1 - low
                name = argument[0] if isinstance(argument, tuple) else argument
                if name not in hot:
                    names.add(name)
                    spans.setdefault(argument, []).append((low, high + 1))
        distinct += sum(high - low for s in spans.values() for low, high in _union(s))
    followed = sum(site_bytes[s] * (visits[s][1] / visits[s][0] if s in visits else 1.0) for s in looked)
    plain = sum(b for s, b in enumerate(site_bytes) if s not in looked)
    if not located and followed > 0:
        bound = sum(tensor_bytes.values()) or asked
        return Traffic(asked, min(asked, bound) + stored, stored, True)
    unique_share = distinct / max(1.0, summed)
    limit = sum(tensor_bytes.get(name, 0.0) for name in names) or followed * unique_share
    # One wave: its CTAs share as the windows do, and cannot read more than there is.
    waves = max(1.0, total / max(1, resident))
    per_wave = min(followed / waves * unique_share, limit)
    once = min(limit, followed)
    if once <= L2_SHARE * l2_bytes:
        dram = min(followed * unique_share, once)
    else:
        dram = max(min(followed, per_wave * waves), min(once, followed * unique_share))
    return Traffic(followed + plain, dram + min(plain, asked) + stored, stored, False)


def _windows(total: int, resident: int) -> list[range]:
    """Stretches of CTAs that run at the same time, from all over the grid."""
    if total <= min(3 * WINDOW, resident):
        return [range(total)]
    width = max(1, min(WINDOW, resident, total))
    count = max(1, min(3 * WINDOW // width, total // width))
    return [range(at, at + width) for at in (i * (total - width) // max(1, count - 1) for i in range(count))]


def _union(spans: list[tuple[float, float]]) -> list[tuple[float, float]]:
    out: list[tuple[float, float]] = []
    for low, high in sorted(spans):
        if out and low <= out[-1][1]:
            if high > out[-1][1]:
                out[-1] = (out[-1][0], high)
        else:
            out.append((low, high))
    return out
