"""Numbers as people read them: ratios with the word that says what they are, times, counts.

A speed that was not measured never appears without the word `estimated`, or `est.` where a column is narrow.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

TASK_WORDS = {"gqa_decode": "decode", "gqa_prefill": "prefill"}


def task_word(task: str) -> str:
    """The short word for a task: `gqa_decode` is `decode`."""
    return TASK_WORDS.get(task, task)


def ratio(value: float | None) -> str:
    """`1.31×`; a dash if there is no number."""
    if value is None or not math.isfinite(value):
        return "-"
    return f"{value:.2f}×" if value < 99.5 else f"{value:.0f}×"


def percent_gain(value: float | None) -> str:
    """A ratio as a change: 1.042 is `+4.2 %`."""
    if value is None or not math.isfinite(value):
        return "-"
    return f"{(value - 1) * 100:+.1f} %"


def interval(bounds: tuple[float, float] | None) -> str:
    """`[1.28, 1.34]`, or nothing: estimates have no interval."""
    return f"[{bounds[0]:.2f}, {bounds[1]:.2f}]" if bounds else ""


def time_us(value: float | None) -> str:
    """A time given in microseconds, in the unit that fits it."""
    if value is None or not math.isfinite(value):
        return "-"
    if value >= 1e6:
        return f"{value / 1e6:.2f} s"
    if value >= 1e3:
        return f"{value / 1e3:.2f} ms"
    return f"{value:.1f} us"


def duration(seconds: float | None) -> str:
    """`42 s`, `3 min 05 s`, `2 h 07 min`."""
    if seconds is None or not math.isfinite(seconds) or seconds < 0:
        return "-"
    whole = round(seconds)
    if whole < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{whole} s"
    if whole < 3_600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3_600} h {whole % 3_600 // 60:02d} min"


def usd(value: float) -> str:
    """An amount of money: `4.10 USD`, `0.0042 USD` where cents say nothing."""
    return f"{value:.2f} USD" if value >= 0.01 or value == 0 else f"{value:.4f} USD"


def ago(seconds: float) -> str:
    """How long ago, coarsely: `just now`, `5 min ago`, `3 h ago`, `12 d ago`."""
    if seconds < 60:
        return "just now"
    if seconds < 3_600:
        return f"{seconds // 60:.0f} min ago"
    if seconds < 86_400:
        return f"{seconds // 3_600:.0f} h ago"
    return f"{seconds // 86_400:.0f} d ago"


def scale_size(size_bytes: float) -> str:
    """`101,376 B` below a megabyte, then MB and GB."""
    if size_bytes < 1_000_000:
        return f"{size_bytes:,.0f} B"
    if size_bytes < 1_000_000_000:
        return f"{size_bytes / 1e6:.1f} MB"
    return f"{size_bytes / 1e9:.1f} GB"


def values(mapping: Mapping[str, object]) -> str:
    """`BLOCK_M=64 num_warps=4`, in the order of the names."""
    return " ".join(f"{name}={mapping[name]}" for name in sorted(mapping))
