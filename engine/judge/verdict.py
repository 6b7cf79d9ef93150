"""From facts to scores and verdicts: pure functions, no I/O.

A score is the weighted geometric mean of ratios over the workload matrix; a ratio is other / candidate, so
above 1 the candidate is faster. Estimates have no interval: nothing about them was sampled.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from kernel_lab.engine.facts import Check, Reason, ScoreKind, Speed, WorkloadTime

KEEP_THRESHOLD_ESTIMATED = 1.01
"""An estimate must promise at least 1 % over the champion: less is below what the model can tell apart."""

BUCKET_FLOOR = 0.97
"""No bucket may become slower than this against the champion, however much the others gain."""

ROOF_TOLERANCE_PERCENT = 100.0
"""Faster than the device's roof is a mistake or a cheat until a person has looked."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What the speed gate asks for: `keep`, `discard` or `held`, and why."""

    status: Literal["keep", "discard", "held"]
    reasons: tuple[Reason, ...]


def geometric_mean(ratios: Mapping[str, float], weights: Mapping[str, float]) -> float:
    """Weighted geometric mean over the keys of `ratios`; NaN if there are none."""
    total = sum(weights[key] for key in ratios)
    if not ratios or total <= 0:
        return math.nan
    return math.exp(sum(weights[key] * math.log(ratio) for key, ratio in ratios.items()) / total)


def score_speed(
    kind: ScoreKind,
    workloads: Sequence[Mapping[str, Any]],
    time_us: Mapping[str, float],
    others_us: Mapping[str, Mapping[str, float]],
    parts: Mapping[str, Mapping[str, Any]],
    flops: Mapping[str, float],
    moved_bytes: Mapping[str, float],
) -> Speed:
    """Scores of a candidate against every name in `others_us` (`fa2`, `seed`, `champion`, …).

    `parts` gives `bound` and `roof_percent` by workload. Decode is reported in TB/s, prefill in TFLOP/s.
    """
    rows = []
    for workload in workloads:
        name = cast(str, workload["id"])
        us = time_us[name]
        decode = workload["task"] == "gqa_decode"
        rate = moved_bytes[name] / us / 1e6 if decode else flops[name] / us / 1e6
        rows.append(
            WorkloadTime(
                workload=name,
                bucket=cast(str, workload["bucket"]),
                weight=float(workload["weight"]),
                time_us=us,
                rate=rate,
                rate_unit="TB/s" if decode else "TFLOP/s",
                roof_percent=float(parts[name].get("roof_percent", 0.0)),
                bound=str(parts[name].get("bound", "unknown")),
                vs={other: times[name] / us for other, times in others_us.items() if name in times},
            )
        )
    weights = {row.workload: row.weight for row in rows}
    score = {
        other: geometric_mean({row.workload: row.vs[other] for row in rows if other in row.vs}, weights)
        for other in others_us
    }
    return Speed(kind=kind, score=score, ci={}, per_workload=tuple(rows))


def bucket_ratios(speed: Speed, other: str) -> dict[str, float]:
    """Ratio against `other` by bucket."""
    buckets: dict[str, list[WorkloadTime]] = {}
    for row in speed.per_workload:
        buckets.setdefault(row.bucket, []).append(row)
    return {
        bucket: geometric_mean({r.workload: r.vs[other] for r in rows}, {r.workload: r.weight for r in rows})
        for bucket, rows in buckets.items()
    }


def decide_estimated(speed: Speed) -> Decision:
    """Keep, hold or discard on estimates: the roof first, then every bucket, then the whole."""
    above = [row for row in speed.per_workload if row.roof_percent > ROOF_TOLERANCE_PERCENT]
    if above:
        worst = max(above, key=lambda row: row.roof_percent)
        detail = f"{worst.workload} is estimated at {worst.roof_percent:.0f} % of what the device can do"
        return Decision("held", (Reason("speed", "roof", detail),))
    gain = speed.score["champion"]
    slower = {name: ratio for name, ratio in bucket_ratios(speed, "champion").items() if ratio < BUCKET_FLOOR}
    if slower:
        name, ratio = min(slower.items(), key=lambda item: item[1])
        detail = f"bucket {name} would run at {ratio:.2f} × the champion (at least {BUCKET_FLOOR} is asked)"
        return Decision("discard", (Reason("speed", "bucket_floor", detail),))
    if gain < KEEP_THRESHOLD_ESTIMATED:
        detail = f"estimated {gain:.3f} × the champion (at least {KEEP_THRESHOLD_ESTIMATED} is asked)"
        return Decision("discard", (Reason("speed", "threshold", detail),))
    return Decision("keep", (Reason("speed", "threshold", f"estimated {gain:.3f} × the champion"),))


def failed(checks: Sequence[Check]) -> tuple[Reason, ...]:
    """Reasons for every failed check, the largest excess over its limit first."""

    def excess(check: Check) -> float:
        if check.error is None or not check.limit:
            return math.inf
        return math.inf if math.isnan(check.error) else check.error / check.limit

    bad = sorted((check for check in checks if check.status == "fail"), key=excess, reverse=True)
    return tuple(Reason(check.gate, check.probe, f"{check.case}: {check.detail}") for check in bad)


def judge_checks(
    gate: str, outcome: str, detail: str, checks: Sequence[Check]
) -> tuple[str | None, tuple[Reason, ...]]:
    """The verdict that a gate's checks ask for (None: passed), and why.

    `outcome` is what became of the process. What could not run is unproven: a hold, never a pass. A gate
    that gave no answer at all failed.
    """
    reasons = failed(checks)
    if outcome == "cheat" and reasons:
        return "cheat", reasons
    if outcome != "ok":
        return outcome, (Reason(gate, outcome, detail), *reasons)
    if reasons:
        return "incorrect", reasons
    unproven = [check for check in checks if check.status == "unproven"]
    if unproven:
        first = unproven[0]
        what = f"{len(unproven)} of {len(checks)} checks could not run here; {first.case}: {first.detail}"
        return "held", (Reason(gate, "unproven", what),)
    if not checks:
        return "crash", (Reason(gate, "empty", "no check gave an answer"),)
    return None, ()
