"""The progress chart of a report as one inline SVG: no script, no reference to anything outside."""

from __future__ import annotations

import math
from collections.abc import Iterable
from html import escape

from kernel_lab.tui import fmt
from kernel_lab.tui.series import Point, Scored, Series, bounds, series
from kernel_lab.tui.text import one_line

WIDTH, HEIGHT = 960, 340
LEFT, RIGHT, TOP, BOTTOM = 58, 16, 18, 34
COLUMNS = 400
"""Points are thinned to two for each of so many columns."""

TICKS = (
    1.0,
    0.1,
    10.0,
    0.5,
    2.0,
    5.0,
    0.2,
    1.5,
    0.7,
    3.0,
    0.05,
    20.0,
    50.0,
    100.0,
    1.2,
    0.8,
    0.9,
    1.1,
    1.3,
    1.4,
)
"""The more telling first: one that has no room beside those before it is left out."""
TICK_ROOM = 22


class _Scale:
    """Where experiments and ratios stand; ratios on a logarithmic axis."""

    def __init__(self, last: int, low: float, high: float) -> None:
        self.last = max(1, last)
        self.low, self.high = math.log(low), math.log(high)

    def x(self, experiment: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * experiment / self.last

    def y(self, ratio: float) -> float:
        clipped = min(self.high, max(self.low, math.log(max(ratio, 1e-9))))
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (clipped - self.low) / (self.high - self.low)


def progress_svg(rows: Iterable[Scored], baseline: str) -> str:
    """Every task's ratio against `baseline` over the experiments; empty if nothing was judged on speed."""
    shown = series(rows, COLUMNS)
    if not shown:
        return ""
    low, high = bounds(shown)
    low = max(low, min(1.0, *(p.ratio for one in shown for p in one.points)) * 0.9, 0.01)
    scale = _Scale(max(one.points[-1].experiment for one in shown), low, max(high, low * 1.2))
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="Speed against {escape(baseline)} over '
        'the experiments">',
        *_axes(scale, low, high),
    ]
    for index, one in enumerate(shown):
        parts.append(f'<g class="t{min(index, 2)}">{"".join(_task(one, scale))}</g>')
    return "".join([*parts, "</svg>"])


def legend(rows: Iterable[Scored]) -> str:
    """What the marks mean, in words that stand under the chart."""
    names = [
        f'<span class="t{min(index, 2)}">&#9679; {escape(fmt.task_word(one_line(one.task, 40)))}</span>'
        for index, one in enumerate(series(rows, COLUMNS))
    ]
    marks = "large: kept, with its interval; small: not kept; ring: held; hollow and dashed: estimated"
    return f"{' '.join(names)} &middot; {marks}"


def _axes(scale: _Scale, low: float, high: float) -> list[str]:
    parts = []
    taken: list[float] = []
    for tick in TICKS:
        y, name = scale.y(tick), "unit" if tick == 1.0 else "axis"
        if low <= tick <= high and all(abs(y - other) >= TICK_ROOM for other in taken):
            taken.append(y)
            parts.append(f'<line class="{name}" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
            parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{tick:g}&#215;</text>')
    step = max(1, round(scale.last / 8))
    for mark in range(0, scale.last + 1, step):
        x, y = scale.x(mark), HEIGHT - BOTTOM + 18
        parts.append(f'<text x="{x:.1f}" y="{y}" text-anchor="middle">#{mark}</text>')
    return parts


def _task(one: Series, scale: _Scale) -> list[str]:
    kind = " estimated" if one.estimated else ""
    parts = []
    if one.best:
        corners: list[str] = []
        for experiment, ratio in one.best:
            x, y = scale.x(experiment), scale.y(ratio)
            corners.append(f"M{x:.1f} {y:.1f}" if not corners else f"H{x:.1f}V{y:.1f}")
        parts.append(f'<path class="level{kind}" d="{"".join(corners)}H{scale.x(scale.last):.1f}"/>')
    return parts + [_mark(point, scale, one.task) for point in one.points]


def _mark(point: Point, scale: _Scale, task: str) -> str:
    x, y = scale.x(point.experiment), scale.y(point.ratio)
    kind = " estimated" if point.estimated else ""
    name, radius = ("kept", 4) if point.kept else ("held", 5) if point.held else ("tried", 2.5)
    words = f"#{point.experiment} {fmt.task_word(one_line(task, 40))} {point.ratio:.3f}"
    words += " estimated" if point.estimated else f" {fmt.interval(point.interval)}".rstrip()
    bar = ""
    if point.interval is not None and (point.kept or point.held):
        low, high = (scale.y(edge) for edge in point.interval)
        bar = f'<line class="bar" x1="{x:.1f}" x2="{x:.1f}" y1="{low:.1f}" y2="{high:.1f}"/>'
    dot = f'<circle class="{name}{kind}" cx="{x:.1f}" cy="{y:.1f}" r="{radius}">'
    return f"{bar}{dot}<title>{escape(words)}</title></circle>"
