"""The ledger in words for an agent: the champion, what was tried, what failed and why, what people said.

Words of candidates, compilers and models stand in quotes or fences: they are data. What people said is told
as they wrote it.
"""

from __future__ import annotations

from collections.abc import Sequence

from kernel_lab.engine.bottleneck import bottlenecks, describe
from kernel_lab.engine.facts import Reason, ScoreKind
from kernel_lab.engine.proposers.agent.fence import fence, inline, visible
from kernel_lab.engine.proposers.base import PastExperiment, ProposalRequest

LATEST = 30
"""Experiments that the full digest tells one by one; the short one tells a third of them."""
REASON_CHARS = 300
DIGEST_CHARS = 60_000
PEOPLE_LATEST = 20
NOT_TRIED = ("seed", "running", "interrupted")


def workloads(request: ProposalRequest) -> str:
    """The matrix that scores are made of."""
    lines = [f"{request.gpu.title}, {request.model.title}. The score is the weighted geometric mean over:"]
    for w in request.workloads:
        shape = f"B {w['B']}, Hq {w['Hq']}, Hkv {w['Hkv']}, Sq {w['Sq']}, Sk {w['Sk']}, D {w['D']}"
        lines.append(f"- {w['id']} (bucket {w['bucket']}, weight {w['weight']:.3f}): {shape}, {w['dtype']}")
    return "\n".join(lines)


def champion(request: ProposalRequest) -> str:
    """Which candidate is to be beaten, and how fast it is."""
    row = request.champion
    lines = [f"The champion of {request.task.name} is #{row.id} ({row.status})."]
    if row.score:
        scores = ", ".join(f"{_ratio(value, row.score_kind)} × {name}" for name, value in row.score.items())
        lines.append(f"Its speed: {scores}.")
    return " ".join(lines)


def bottleneck(request: ProposalRequest) -> str:
    """What limits the champion, by workload."""
    return describe(bottlenecks(request.champion_facts, request.workloads))


def resources(request: ProposalRequest) -> str:
    """What the champion's kernels use, as compiled for the device."""
    lines = [
        f"- {launch.workload}: {inline(launch.kernel, 80)} grid {'×'.join(map(str, launch.grid))}, "
        f"{launch.num_warps} warps, {launch.smem_bytes:,} B shared, {launch.registers} registers, "
        f"{launch.spill_bytes} B spilled, {launch.tensor_cores or 'no tensor cores'}, "
        f"{launch.ctas_per_sm} CTAs an SM, occupancy {launch.occupancy:.0%}"
        for launch in request.champion_facts.launches
    ]
    return "\n".join(lines)


def ledger(request: ProposalRequest) -> tuple[str, ...]:
    """The digest in three lengths: latest experiments and best of each lever; fewer; the levers alone."""
    tried = [past for past in request.history if past.status not in NOT_TRIED]
    if not tried:
        return ("Nothing was tried yet: only the seed is there.",)
    levers = _levers(tried)

    def form(count: int) -> str:
        latest = tried[-count:] if count else []
        told = "\n".join(_line(past) for past in latest)
        body = f"Best of each lever:\n{levers}"
        if told:
            body += f"\n\nThe last {len(latest)} of {len(tried)} experiments, oldest first:\n{told}"
        return fence(body, "ledger", DIGEST_CHARS)

    return (form(LATEST), form(LATEST // 3), form(0))


def record(request: ProposalRequest) -> str:
    """What agents predicted against what came of it."""
    lines = []
    for past in request.history:
        said = past.prediction.gain_percent if past.prediction else None
        if past.parent is None or said is None or past.score_vs_parent is None:
            continue
        got = (past.score_vs_parent - 1) * 100
        lines.append(f"- #{past.id} by {past.proposer}: predicted {said:+.1f} %, came out at {got:+.1f} %")
    return "\n".join(lines[-LATEST:])


def turned_down_by_people(request: ProposalRequest) -> str:
    """Vetoes and rejects with the reasons that people gave, verbatim."""
    lines = []
    for past in request.history:
        said = [reason for reason in past.reasons if reason.gate == "person" and reason.probe != "kill"]
        if past.status in ("vetoed", "rejected") and said:
            lines.append(
                f"#{past.id} ({past.lever}) was {past.status} by a person: {visible(said[-1].detail)}"
            )
    return "\n".join(lines[-PEOPLE_LATEST:])


def people(request: ProposalRequest) -> str:
    """Every idea that waits, as it was said."""
    lines = []
    for idea in request.ideas:
        scope = {"next": "for this proposal", "always": "for every proposal"}.get(
            idea.scope, f"start from #{idea.from_experiment}"
        )
        lines.append(f"Idea {idea.id} ({scope}):\n{visible(idea.text)}")
    return "\n\n".join(lines)


def ask(request: ProposalRequest) -> str:
    """What is wanted now."""
    ideas = ", ".join(str(idea.id) for idea in request.ideas)
    heed = f" Heed what people say above (ideas {ideas})." if ideas else ""
    start = f"starting from #{request.start.id}."
    lines = [f"Propose experiment #{request.experiment} of {request.task.name}, {start}{heed}"]
    if request.plateau is not None:
        levers = ", ".join(inline(lever, 60) for lever in request.plateau.levers)
        count = request.plateau.experiments
        lines.append(f"Plateau: the last {count} experiments were not kept. They turned {levers}.")
        if request.plateau.branched:
            lines.append("So this one starts from another experiment than the champion.")
        else:
            lines.append("Turn another lever, and take a larger step than these did.")
    return "\n\n".join(lines)


def _levers(tried: Sequence[PastExperiment]) -> str:
    best: dict[str, PastExperiment] = {}
    counts: dict[str, int] = {}
    for past in tried:
        counts[past.lever] = counts.get(past.lever, 0) + 1
        other = best.get(past.lever)
        if other is None or (past.score_vs_parent or 0) > (other.score_vs_parent or 0):
            best[past.lever] = past
    return "\n".join(
        f"- {inline(lever, 60)} tried {counts[lever]} times, best #{past.id}: {past.status}, "
        f"{_ratio(past.score_vs_parent, past.score_kind)} × champion"
        for lever, past in best.items()
    )


def _line(past: PastExperiment) -> str:
    why = _why(past.reasons)
    ratio = _ratio(past.score_vs_parent, past.score_kind)
    return (
        f"- #{past.id} from #{past.parent} by {past.proposer}, lever {inline(past.lever, 60)}: "
        f"{past.status}, {ratio} × champion; {inline(past.description, 200)}{why}"
    )


def _why(reasons: Sequence[Reason]) -> str:
    if not reasons:
        return ""
    first = reasons[0]
    return f"; {first.gate} {first.probe}: {inline(first.detail, REASON_CHARS)}"


def _ratio(value: float | None, kind: ScoreKind | None) -> str:
    if value is None:
        return "no speed"
    return f"{value:.3f}{' (estimated)' if kind == 'estimated' else ''}"
