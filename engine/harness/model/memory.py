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

L2_SHARE = 0.8
"""Part of L2 that holds data for later readers."""
WINDOW = 32
"""Neighbouring CTAs looked at in each of three places of the grid."""

Reach = Callable[[int], list[tuple[int, Any, float, float]]]


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
) -> Traffic:
    """`site_bytes[s]`: bytes that site s loads over all CTAs, `looked`: sites whose addresses are followed,
    `resident`: CTAs on the card at once, `tensor_bytes`: sizes of the tensors by argument name."""
    asked = sum(site_bytes)
    windows = _windows(total)
    sampled = 0
    shares: list[tuple[float, float]] = []
    seen: dict[int, tuple[int, int]] = {}
    whole: dict[Any, list[tuple[float, float]]] = {}
    for window in windows:
        spans: dict[Any, list[tuple[float, float]]] = {}
        summed = 0.0
        for cta in window:
            sampled += 1
            for site, argument, low, high in reach(cta):
                a, b = seen.get(site, (0, 0))
                seen[site] = (a + 1, b)
                spans.setdefault(argument, []).append((low, high + 1))
                summed += high + 1 - low
        united = {argument: _union(s) for argument, s in spans.items()}
        for argument, merged in united.items():
            whole.setdefault(argument, []).extend(merged)
        length = sum(hi - lo for merged in united.values() for lo, hi in merged)
        shares.append((length, summed))
    active = {site: count / max(1, sampled) for site, (count, _) in seen.items()}
    followed = sum(site_bytes[s] * active.get(s, 0.0) for s in looked)
    plain = sum(b for s, b in enumerate(site_bytes) if s not in looked)
    if not followed:
        bound = sum(tensor_bytes.values()) or asked
        return Traffic(asked, min(asked, bound) + stored, stored, bool(looked))
    unique_share = sum(a for a, _ in shares) / max(1.0, sum(b for _, b in shares))
    names = {a[0] if isinstance(a, tuple) else a for a in whole}
    limit = sum(tensor_bytes.get(name, 0.0) for name in names) or followed
    # One wave: its CTAs share as the windows do, and cannot read more than there is.
    waves = max(1.0, total / max(1, resident))
    per_wave = min(followed / waves * unique_share, limit)
    once = min(limit, followed)
    if once <= L2_SHARE * l2_bytes:
        dram = min(followed * unique_share, once)
    else:
        dram = max(min(followed, per_wave * waves), min(once, followed * unique_share))
    return Traffic(followed + plain, dram + min(plain, asked) + stored, stored, False)


def _windows(total: int) -> list[range]:
    if total <= 3 * WINDOW:
        return [range(total)]
    middle = (total - WINDOW) // 2
    return [range(WINDOW), range(middle, middle + WINDOW), range(total - WINDOW, total)]


def _union(spans: list[tuple[float, float]]) -> list[tuple[float, float]]:
    out: list[tuple[float, float]] = []
    for low, high in sorted(spans):
        if out and low <= out[-1][1]:
            if high > out[-1][1]:
                out[-1] = (out[-1][0], high)
        else:
            out.append((low, high))
    return out
