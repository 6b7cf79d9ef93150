"""What the chart draws: points of each task over the experiments, thinned to what a screen can show. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

KEPT = ("keep", "seed")


@dataclass(frozen=True, slots=True)
class Point:
    """One experiment's score: a ratio, above 1 faster than what it is compared with."""

    experiment: int
    ratio: float
    kept: bool
    held: bool
    estimated: bool
    interval: tuple[float, float] | None = None
    """Of the ratio; None for an estimate, which has none."""


@dataclass(frozen=True, slots=True)
class Series:
    """Points of one task in order, and the champion's line: (experiment, ratio) at every change."""

    task: str
    points: tuple[Point, ...]
    best: tuple[tuple[int, float], ...]

    @property
    def estimated(self) -> bool:
        return any(point.estimated for point in self.points)


@dataclass(frozen=True, slots=True)
class Scored:
    """The part of a history row that a chart needs."""

    experiment: int
    task: str
    status: str
    ratio: float | None
    estimated: bool
    interval: tuple[float, float] | None = None


def series(rows: Iterable[Scored], columns: int) -> tuple[Series, ...]:
    """One series per task, at most two points for each of `columns` columns.

    Kept and held experiments win a column over the others; among the others the extremes stay, so that
    thinning hides neither the best nor the worst.
    """
    by_task: dict[str, list[Point]] = {}
    for row in rows:
        if row.ratio is None or not math.isfinite(row.ratio) or row.ratio <= 0:
            continue
        kept, held = row.status in KEPT, row.status == "held"
        point = Point(row.experiment, row.ratio, kept, held, row.estimated, row.interval)
        by_task.setdefault(row.task, []).append(point)
    last = max((points[-1].experiment for points in by_task.values()), default=0)
    return tuple(
        Series(task, tuple(thin(points, columns, last)), tuple(_best(points)))
        for task, points in sorted(by_task.items())
    )


def thin(points: Sequence[Point], columns: int, last: int) -> list[Point]:
    """At most two points per column of a chart whose x axis ends at experiment `last`."""
    columns = max(1, columns)
    if len(points) <= 2 * columns and last <= columns:
        return list(points)
    cells: dict[int, list[Point]] = {}
    for point in points:
        cells.setdefault(min(columns - 1, point.experiment * columns // max(1, last + 1)), []).append(point)
    result: list[Point] = []
    for column in sorted(cells):
        cell = cells[column]
        marked = [point for point in cell if point.kept or point.held]
        rest = [point for point in cell if not (point.kept or point.held)]
        chosen = marked[-2:]
        if rest and len(chosen) < 2:
            chosen.append(max(rest, key=lambda point: point.ratio))
        if rest and len(chosen) < 2:
            worst = min(rest, key=lambda point: point.ratio)
            if worst not in chosen:
                chosen.append(worst)
        result.extend(sorted(chosen, key=lambda point: point.experiment))
    return result


def _best(points: Sequence[Point]) -> list[tuple[int, float]]:
    return [(point.experiment, point.ratio) for point in points if point.kept]


def bounds(all_series: Sequence[Series]) -> tuple[float, float]:
    """Lowest and highest ratio to show: always with the line at 1.0 inside, and a little air.

    An outlier far off the champions is clipped rather than flattening everything else.
    """
    ratios = [point.ratio for one in all_series for point in one.points]
    if not ratios:
        return 0.5, 1.5
    kept = [ratio for one in all_series for _, ratio in one.best] or ratios
    low = max(min(ratios), min(kept) * 0.4)
    high = min(max(ratios), max(kept) * 1.6)
    low, high = min(low, 1.0), max(high, 1.0)
    air = max(0.02, (high - low) * 0.06)
    return max(0.0, low - air), high + air
