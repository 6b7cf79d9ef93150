"""One experiment's speed over context length or batch, beside every baseline: the numbers. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from kernel_lab.engine.facts import Speed, WorkloadTime

Axis = Literal["context", "batch"]
Unit = Literal["ratio", "time", "rate"]
AXES: tuple[Axis, ...] = ("context", "batch")
UNITS: tuple[Unit, ...] = ("ratio", "time", "rate")
CANDIDATE = "candidate"
_FIELDS: dict[Axis, str] = {"context": "Sk", "batch": "B"}


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """One workload: `x` keys or sequences, `y` in the unit asked for, its interval where one was measured."""

    workload: str
    x: float
    y: float
    interval: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Curve:
    """The points of the candidate, or of one baseline. For ratios: baseline / candidate."""

    name: str
    points: tuple[CurvePoint, ...]


def curves(speed: Speed, workloads: Sequence[Mapping[str, Any]], axis: Axis, unit: Unit) -> tuple[Curve, ...]:
    """The candidate (but for ratios, where it is 1) and every baseline over `axis`.

    `workloads`: the task's matrix as the lab recorded it; a workload that it does not name is left out.
    Times are microseconds, rates what the workload's `rate_unit` says.
    """
    where = {str(row.get("id")): row.get(_FIELDS[axis]) for row in workloads}
    names = sorted({name for row in speed.per_workload for name in row.vs})
    result = [] if unit == "ratio" else [Curve(CANDIDATE, _points(speed.per_workload, where, None, unit))]
    result += [Curve(name, _points(speed.per_workload, where, name, unit)) for name in names]
    return tuple(curve for curve in result if curve.points)


def _points(
    rows: Sequence[WorkloadTime], where: Mapping[str, Any], name: str | None, unit: Unit
) -> tuple[CurvePoint, ...]:
    found = []
    for row in rows:
        x = where.get(row.workload)
        ratio = 1.0 if name is None else row.vs.get(name)
        if not isinstance(x, (int, float)) or isinstance(x, bool) or x <= 0 or ratio is None:
            continue
        y = {"ratio": ratio, "time": row.time_us * ratio, "rate": row.rate / ratio if ratio else math.nan}[
            unit
        ]
        if math.isfinite(y) and y > 0:
            interval = row.ci.get(name) if name is not None and unit == "ratio" else None
            found.append(CurvePoint(row.workload, float(x), y, interval))
    return tuple(sorted(found, key=lambda point: (point.x, point.workload)))


def rate_unit(speed: Speed) -> str:
    """What rates are given in; empty where workloads differ."""
    units = {row.rate_unit for row in speed.per_workload}
    return units.pop() if len(units) == 1 else ""


def short_number(value: float) -> str:
    """`8192` is `8k`, `131072` is `128k`."""
    whole = int(value)
    if whole >= 1_048_576 and whole % 1_048_576 == 0:
        return f"{whole // 1_048_576}M"
    return f"{whole // 1_024}k" if whole >= 1_024 and whole % 1_024 == 0 else f"{value:g}"
