"""The ledger in words for an agent: the champion, what was tried, what failed and why, what people said.

Words of candidates, compilers and models stand in quotes or fences: they are data. What people said is told
as they wrote it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from kernel_lab.engine import scores
from kernel_lab.engine.bottleneck import bottlenecks, describe
from kernel_lab.engine.facts import Reason, ScoreKind
from kernel_lab.engine.ledger.views import TrialRow
from kernel_lab.engine.proposers.agent.fence import fence, inline, visible
from kernel_lab.engine.proposers.base import PastExperiment, ProposalRequest

LATEST = 30
"""Experiments that the full digest tells one by one; the short one tells a third of them."""
REASON_CHARS = 300
DIGEST_CHARS = 60_000
PEOPLE_LATEST = 20
ALWAYS_VERBATIM = 5
"""The latest vetoes and rejects, whose reasons are never shortened."""
LEVERS_SHOWN = 45
KEPT_SHOWN = 12
FAILURES_SHOWN = 12
BUCKETS_SHOWN = 4
NOT_TRIED = ("seed", "running", "interrupted")


def workloads(request: ProposalRequest) -> str:
    """The matrix that scores are made of."""
    lines = [f"{request.gpu.title}, {request.model.title}. The score is the weighted geometric mean over:"]
    for w in request.workloads:
        shape = f"B {w['B']}, Hq {w['Hq']}, Hkv {w['Hkv']}, Sq {w['Sq']}, Sk {w['Sk']}, D {w['D']}"
        causal = ", causal" if w.get("causal") else ""
        ragged = f", lengths {min(w['seq_lens'])} to {max(w['seq_lens'])}" if w.get("seq_lens") else ""
        what = f"{shape}, {w['dtype']}{causal}{ragged}"
        lines.append(f"- {w['id']} (bucket {w['bucket']}, weight {w['weight']:.3f}): {what}")
    return "\n".join(lines)


def champion(request: ProposalRequest) -> str:
    """Which candidate is to be beaten, and how fast it is."""
    row = request.champion
    lines = [f"The champion of {request.task.name} is #{row.id} ({row.status})."]
    if row.score:
        scores = ", ".join(f"{_ratio(value, row.score_kind)} × {name}" for name, value in row.score.items())
        lines.append(f"Its speed: {scores}.")
    return " ".join(lines)


def start(request: ProposalRequest, limit_chars: int) -> str:
    """The candidate to start from where that is not the champion."""
    row = request.parent
    if row is None:
        return ""
    scores = ", ".join(f"{_ratio(value, row.score_kind)} × {name}" for name, value in row.score.items())
    text = f"This proposal starts from #{row.id} ({row.status}), not from the champion. {scores}".strip()
    return f"{text}\n\n{fence(request.parent_source, f'candidate #{row.id}', limit_chars)}"


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
    """The digest in three lengths: how it stands, what failed and why, the best of each lever, and the latest
    experiments one by one; fewer of these; the levers alone."""
    tried = [past for past in request.history if past.status not in NOT_TRIED]
    if not tried:
        return ("Nothing was tried yet: only the seed is there.",)
    kept = [past for past in request.history if past.status in ("seed", "keep")]

    def form(latest: int, levers: int) -> str:
        blocks = [_counts(tried), f"Champions in turn: {' → '.join(map(_kept, kept[-KEPT_SHOWN:]))}"]
        failures = _failures(tried)
        if failures:
            blocks.append(f"What failed, by check:\n{failures}")
        blocks.append(f"Best of each lever, the best first:\n{_levers(tried, levers)}")
        if latest:
            told = "\n".join(_line(past) for past in tried[-latest:])
            blocks.append(f"The last {min(latest, len(tried))} of {len(tried)}, oldest first:\n{told}")
        return fence("\n\n".join(blocks), "ledger", DIGEST_CHARS)

    return (form(LATEST, LEVERS_SHOWN), form(LATEST // 3, LEVERS_SHOWN), form(0, LEVERS_SHOWN // 3))


def record(request: ProposalRequest) -> str:
    """What was predicted against what came of it: by source, by predicted gain, and the latest of agents."""
    lines = [_record(one, "by") for one in scores.by_source(request.history)]
    lines += [_record(one, "predicted") for one in scores.calibration(request.history)]
    mine = []
    for past in request.history:
        got = scores.result_percent(past)
        said = past.prediction.gain_percent if past.prediction else None
        if past.parent is not None and scores.source_of(past.proposer) == "agent" and said is not None:
            came = f"came out at {got:+.1f} %" if got is not None else "got no speed"
            mine.append(f"- #{past.id} {inline(past.lever, 60)}: predicted {said:+.1f} %, {came}")
    if mine:
        lines.append("The latest by agents:")
    return "\n".join([*lines, *mine[-LATEST // 2 :]])


def _record(one: scores.Record, word: str) -> str:
    gain = f"; what is kept of them brought {one.gain:.3f} ×" if one.kept else ""
    text = f"- {word} {one.name}: {one.proposals} tried, {one.with_speed} with a speed, {one.kept} kept{gain}"
    if one.mean_error_points is None or one.right_sign is None:
        return text
    return (
        f"{text}; predicted {one.mean_predicted_percent:+.1f} % on average, came out at "
        f"{one.mean_result_percent:+.1f} %, off by {one.mean_error_points:.1f} points, right about faster or "
        f"not in {one.right_sign:.0%}"
    )


def turned_down_by_people(request: ProposalRequest) -> tuple[str, ...]:
    """Vetoes and rejects with the reasons that people gave, verbatim, the latest last; in the short form only
    the latest are verbatim, and of older ones what fits a line."""
    found = []
    for past in request.history:
        said = [reason for reason in past.reasons if reason.gate == "person" and reason.probe != "kill"]
        if past.status in ("vetoed", "rejected") and said:
            what = f"#{past.id} (lever {inline(past.lever, 60)}: {inline(past.description, 200)})"
            kind = f" as {said[-1].probe}" if past.status == "vetoed" and said[-1].probe != "other" else ""
            found.append((f"{what} was {past.status} by a person{kind}:", said[-1].detail))
    found = found[-PEOPLE_LATEST:]

    def form(verbatim: int) -> str:
        short = [f"{what} {inline(why, 200)}" for what, why in found[: max(0, len(found) - verbatim)]]
        return "\n\n".join([*short, *(f"{what} {visible(why)}" for what, why in found[-verbatim:])])

    return form(PEOPLE_LATEST), form(ALWAYS_VERBATIM)


def people(request: ProposalRequest) -> str:
    """Every idea that waits, as it was said, in the order in which it is to be heeded."""
    lines = []
    for idea in request.ideas:
        scope = {"next": "for this proposal", "always": "for every proposal"}.get(
            idea.scope, f"start from #{idea.from_experiment}"
        )
        lines.append(f"Idea {idea.id} ({scope}):\n{visible(idea.text)}")
    return "\n\n".join(lines)


def people_before(request: ProposalRequest) -> str:
    """What people said to earlier proposals, which experiments used it, and what they answered."""
    by_id = {past.id: past for past in request.history}
    lines = []
    for idea in request.used_ideas[-PEOPLE_LATEST:]:
        used = ", ".join(
            f"#{number} by {by_id[number].proposer}: {by_id[number].status}"
            for number in idea.used_by
            if number in by_id
        )
        lines.append(f"- idea {idea.id} (used by {used}): {inline(idea.text, 400)}")
    for row in request.answers[-PEOPLE_LATEST:]:
        asked = inline(row.text, 300)
        lines.append(f"- asked in #{row.experiment}: {asked}; answered: {inline(row.answer or '', 400)}")
    return "\n".join(lines)


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


def _counts(tried: Sequence[PastExperiment]) -> str:
    counts = Counter(past.status for past in tried)
    return f"{len(tried)} tried: {', '.join(f'{n} {status}' for status, n in counts.most_common())}."


def _kept(past: PastExperiment) -> str:
    lever = "seed" if past.status == "seed" else inline(past.lever, 60)
    return f"#{past.id} {lever} {_ratio(past.score.get('seed'), past.score_kind)} × seed"


def _failures(tried: Sequence[PastExperiment]) -> str:
    """Each check that turned candidates down, the most frequent first, with its latest words."""
    groups: dict[tuple[str, str, str], list[PastExperiment]] = {}
    for past in tried:
        if past.status not in ("keep", "discard", "vetoed", "rejected") and past.reasons:
            first = past.reasons[0]
            groups.setdefault((past.status, first.gate, first.probe), []).append(past)
    ordered = sorted(groups.items(), key=lambda item: -len(item[1]))[:FAILURES_SHOWN]
    return "\n".join(
        f"- {status} ({gate} {inline(probe, 40)}): {', '.join(f'#{past.id}' for past in group[-8:])}; "
        f"latest: {inline(group[-1].reasons[0].detail, REASON_CHARS)}"
        for (status, gate, probe), group in ordered
    )


def _levers(tried: Sequence[PastExperiment], most: int) -> str:
    groups: dict[str, list[PastExperiment]] = {}
    for past in tried:
        groups.setdefault(past.lever, []).append(past)
    best = {
        lever: max(group, key=lambda past: past.score_vs_parent or 0.0) for lever, group in groups.items()
    }
    ordered = sorted(best.items(), key=lambda item: -(item[1].score_vs_parent or 0.0))
    lines = []
    for lever, past in ordered[:most]:
        count = len(groups[lever])
        lines.append(
            f"- {inline(lever, 60)}, {count} tried, best #{past.id}: {past.status}, "
            f"{_ratio(past.score_vs_parent, past.score_kind)} × champion{_best_trials(past)}"
        )
    if len(ordered) > most:
        lines.append(f"- and {len(ordered) - most} levers that did worse")
    return "\n".join(lines)


def _best_trials(past: PastExperiment) -> str:
    """The best setting of each bucket that trials tried."""
    best: dict[str, TrialRow] = {}
    for trial in past.trials:
        other = best.get(trial.bucket)
        if trial.vs_parent is not None and (other is None or trial.vs_parent > (other.vs_parent or 0.0)):
            best[trial.bucket] = trial
    told = []
    for bucket, trial in list(best.items())[:BUCKETS_SHOWN]:
        values = " ".join(f"{name}={value}" for name, value in trial.values.items())
        told.append(f"{inline(bucket, 30)} {inline(values, 120)} {trial.vs_parent:.3f} ×")
    return f"; best settings: {', '.join(told)}" if told else ""


def _line(past: PastExperiment) -> str:
    why = _why(past.reasons)
    said = past.prediction.gain_percent if past.prediction else None
    predicted = f" (predicted {said:+.1f} %)" if said is not None else ""
    ratio = _ratio(past.score_vs_parent, past.score_kind)
    return (
        f"- #{past.id} from #{past.parent} by {past.proposer}, lever {inline(past.lever, 60)}: "
        f"{past.status}, {ratio} × champion{predicted}; {inline(past.description, 200)}{why}"
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
