"""What limits a candidate, workload by workload: compute, memory, latency or the launch itself.

Two sources, never mixed. For an estimate (`source` "model") the answer is in the parts of the time model that
made it. For a measured time (`source` "roofline") each resource's share is what the algorithm needs of it at
the least, against what this card reached with simple kernels; only bytes that are read again, waves and the
cost of a launch come from the model there, and are marked as such. Hardware counters are not read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from kernel_lab.engine.facts import ScoreKind
from kernel_lab.engine.proposers.base import ChampionFacts

Limit = Literal["compute", "memory", "latency", "launch"]

LIMITS: dict[str, Limit] = {
    "tensor": "compute",
    "exp": "compute",
    "issue": "compute",
    "smem": "memory",
    "dram": "memory",
    "l2": "memory",
    "latency": "latency",
    "launch": "launch",
}
"""Resource, as the time model names it, to what it is an instance of."""

LAUNCH_US = 1.0
"""What one kernel costs however little it does, in a replayed graph; the first costs as much again."""

BUSY = 0.55
"""A resource that is busy for this part of the time limits the workload; below it, waiting does."""

_ISSUE = ("issue", "fma", "alu", "control", "uniform")


@dataclass(frozen=True, slots=True)
class Bottleneck:
    """What limits one workload. Shares are parts of its time, 0 to 1; None where something is not known."""

    workload: str
    bucket: str
    weight: float
    kind: ScoreKind
    """Of `time_us`."""
    source: Literal["model", "roofline"]
    limit: Limit
    resource: str
    """The one of LIMITS that is busiest, or `latency`, or `launch`."""
    time_us: float
    roof_percent: float
    """Of what the card can do at the most for this workload."""
    busy: dict[str, float]
    """Resource to the share of the time that its work would take alone."""
    launches: int
    launch_share: float
    """Of the time, for starting kernels; the cost of a launch is assumed."""
    dram_bytes: float | None
    """Bytes that cross DRAM, by the model."""
    algorithm_bytes: float | None
    """Bytes that have to cross DRAM at the least."""
    ctas_per_sm: int | None
    """Of the longest launch, as are the next two."""
    waves: float | None
    occupancy: float | None
    spill_bytes: int
    assumed: tuple[str, ...] = ()
    """What the model could not see and assumed."""

    @property
    def reread(self) -> float | None:
        """How often what has to be read is read, by the model."""
        if self.dram_bytes is None or not self.algorithm_bytes:
            return None
        return self.dram_bytes / self.algorithm_bytes


def bottlenecks(facts: ChampionFacts, workloads: Sequence[Mapping[str, Any]]) -> list[Bottleneck]:
    """What limits each workload that has a time, in the order of the matrix. Empty without a speed."""
    if facts.speed is None:
        return []
    shapes = {str(workload["id"]): workload for workload in workloads}
    found = []
    for row in facts.speed.per_workload:
        parts = (facts.parts.get(row.workload) or {}).get("parts") or {}
        launched = [dict(one) for one in parts.get("launches", ())]
        measured = facts.speed.kind == "measured"
        launch_share = min(1.0, LAUNCH_US * (len(launched) + 1) / row.time_us) if launched else 0.0
        busy = _model_busy(launched, row.time_us)
        bound = row.bound
        if measured:
            model_dram = _dram_share(launched, facts.roofs, row.time_us)
            busy = _roofline_busy(facts, shapes.get(row.workload, {}), row.workload, row.time_us)
            bound = _measured_bound(busy, model_dram, launch_share)
        longest = max(launched, key=lambda one: float(one.get("time_us", 0.0)), default={})
        compiled = [launch for launch in facts.launches if launch.workload == row.workload]
        named = [launch for launch in compiled if launch.kernel == longest.get("kernel")] or compiled
        found.append(
            Bottleneck(
                workload=row.workload,
                bucket=row.bucket,
                weight=row.weight,
                kind=facts.speed.kind,
                source="roofline" if measured else "model",
                limit=LIMITS.get(bound, "latency"),
                resource=bound,
                time_us=row.time_us,
                roof_percent=row.roof_percent,
                busy=busy,
                launches=len(launched) or len(compiled),
                launch_share=launch_share,
                dram_bytes=sum(float(one["dram_bytes"]) for one in launched) if launched else None,
                algorithm_bytes=facts.moved_bytes.get(row.workload),
                ctas_per_sm=longest.get("ctas_per_sm", named[0].ctas_per_sm if named else None),
                waves=longest.get("waves"),
                occupancy=named[0].occupancy if named else None,
                spill_bytes=max((launch.spill_bytes for launch in compiled), default=0),
                assumed=tuple(str(note) for note in parts.get("assumed", ())),
            )
        )
    return found


def limits_by_weight(found: Sequence[Bottleneck]) -> dict[Limit, float]:
    """Share of the score's weight by limit, the largest first."""
    shares: dict[Limit, float] = {}
    for one in found:
        shares[one.limit] = shares.get(one.limit, 0.0) + one.weight
    return dict(sorted(shares.items(), key=lambda item: -item[1]))


def describe(found: Sequence[Bottleneck]) -> str:
    """One line for the whole and one for each workload, with `estimated` wherever a number is."""
    if not found:
        return ""
    whole = ", ".join(f"{limit} {share:.0%}" for limit, share in limits_by_weight(found).items())
    how = {
        "model": "estimated by the time model",
        "roofline": "measured times against this card's measured ceilings; bytes read, waves and launch "
        "costs are estimated",
    }[found[0].source]
    return "\n".join([f"Limits by weight: {whole} ({how}).", *map(_line, found)])


def _line(one: Bottleneck) -> str:
    about = "~" if one.kind == "estimated" else ""
    what = one.limit if one.resource == one.limit else f"{one.limit} ({one.resource})"
    busy = ", ".join(f"{name} {share:.0%}" for name, share in _largest(one.busy))
    notes = [f"busy: {busy}" if busy else ""]
    if one.reread is not None:
        notes.append(f"~{one.reread:.2f} × the bytes that have to be read")
    if one.waves is not None:
        notes.append(f"~{one.waves:.2f} waves of CTAs, {one.ctas_per_sm} an SM")
    if one.occupancy is not None:
        notes.append(f"occupancy {one.occupancy:.0%}")
    notes.append(
        f"{one.launches} launch{'' if one.launches == 1 else 'es'}, ~{one.launch_share:.0%} of the time"
    )
    if one.spill_bytes:
        notes.append(f"{one.spill_bytes} B spilled")
    notes += [f"assumed: {note}" for note in one.assumed]
    told = "; ".join(note for note in notes if note)
    return (
        f"- {one.workload} (weight {one.weight:.2f}): {what}; {about}{one.time_us:.1f} µs, "
        f"{about}{one.roof_percent:.0f} % of the roof; {told}"
    )


def _largest(busy: Mapping[str, float], count: int = 3) -> list[tuple[str, float]]:
    return sorted(busy.items(), key=lambda item: -item[1])[:count]


def _model_busy(launched: Sequence[Mapping[str, Any]], time_us: float) -> dict[str, float]:
    """Each resource's own time over all launches of one call, as a share of the call's."""
    busy: dict[str, float] = {}
    for one in launched:
        pipes = dict(one.get("pipes_us") or {})
        own = {name: float(pipes.get(name, 0.0)) for name in ("tensor", "exp", "smem")}
        own["issue"] = max((float(pipes.get(name, 0.0)) for name in _ISSUE), default=0.0)
        own["dram"], own["l2"] = float(one.get("dram_us", 0.0)), float(one.get("l2_us", 0.0))
        for name, taken in own.items():
            busy[name] = busy.get(name, 0.0) + taken / time_us
    return busy


def _roofline_busy(
    facts: ChampionFacts, shape: Mapping[str, Any], workload: str, time_us: float
) -> dict[str, float]:
    """The least that the algorithm needs of each resource at this card's measured rates, over the time.

    Each visible pair of a head costs 4·D operations of the two products and one exponential.
    """
    busy: dict[str, float] = {}
    moved, flops = facts.moved_bytes.get(workload), facts.flops.get(workload)
    read_gbs = facts.roofs.get("read_gbs")
    if moved and read_gbs:
        busy["dram"] = moved / time_us / (float(read_gbs) * 1e3)
    tflops = (facts.roofs.get("matmul_tflops") or {}).get(shape.get("dtype"))
    if flops and tflops:
        busy["tensor"] = flops / time_us / (float(tflops) * 1e6)
    gops = facts.roofs.get("exp_gops")
    if flops and gops and shape.get("D"):
        busy["exp"] = flops / (4.0 * float(shape["D"])) / time_us / (float(gops) * 1e3)
    return busy


def _dram_share(launched: Sequence[Mapping[str, Any]], roofs: Mapping[str, Any], time_us: float) -> float:
    """Share of the time for the bytes that cross DRAM by the model, at the measured rate."""
    if not launched or not roofs.get("read_gbs"):
        return 0.0
    crossed = sum(float(one.get("dram_bytes", 0.0)) for one in launched)
    return crossed / time_us / (float(roofs["read_gbs"]) * 1e3)


def _measured_bound(busy: Mapping[str, float], model_dram: float, launch_share: float) -> str:
    name = max(busy, key=lambda one: busy[one], default="latency")
    if busy.get(name, 0.0) >= BUSY:
        return name
    if launch_share > 0.5:
        return "launch"
    return "dram" if model_dram >= BUSY else "latency"
