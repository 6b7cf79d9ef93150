"""Judging an experiment again: fresh seeds, today's judge, and the champion that it has to beat now.

What people ask for, and what a veto leaves to be looked at, waits as events until the loop has time. The
outcome is an event too. A kept win that falls is taken back as a veto would; one that is held stays so, with
the new facts in its question: only a person says that what was built on a vetoed win is clean.
"""

from __future__ import annotations

from collections.abc import Mapping

from kernel_lab.engine import lineage
from kernel_lab.engine.control import Control
from kernel_lab.engine.events import (
    ApprovalRequested,
    Event,
    Remeasured,
    RemeasureRequested,
    SpeedJudged,
    StatusRevised,
)
from kernel_lab.engine.facts import Reason
from kernel_lab.engine.judge.cases import frozen_seed
from kernel_lab.engine.judge.judge import Judge
from kernel_lab.engine.judge.rejudge import KeptWin, Rejudged, rejudge
from kernel_lab.engine.judge.veto_probe import VetoProbe
from kernel_lab.engine.ledger.store import Ledger
from kernel_lab.engine.ledger.views import ExperimentRow


def rival_of(ledger: Ledger, row: ExperimentRow) -> int:
    """The champion before it on the line, or today's if it does not stand there."""
    line = ledger.champion_line(row.task)
    return line[line.index(row.id) - 1] if row.id in line[1:] else line[-1]


def next_in_line(ledger: Ledger, judges: Mapping[str, Judge]) -> ExperimentRow | None:
    """The first experiment that waits to be judged again. Tells the judges what vetoes have named."""
    view = ledger.view()
    probes = tuple(VetoProbe(number, pattern) for number, pattern in view.veto_probes)
    for judge in judges.values():
        judge.veto_probes = probes
    rows = (ledger.experiment(number) for number in view.remeasure)
    return next((row for row in rows if row is not None and row.task in judges), None)


async def judge_again(
    ledger: Ledger,
    control: Control,
    judges: Mapping[str, Judge],
    gpu: str,
    model: str,
    lab_seed: int,
    row: ExperimentRow,
) -> None:
    """Judge one experiment again and record what came of it; a kill ends that, and is recorded too."""
    rival = rival_of(ledger, row)
    other = ledger.experiment(rival)
    win = KeptWin(
        experiment=row.id,
        task=row.task,
        gpu=gpu,
        model=model,
        status=row.status,
        source=ledger.blob(row.source_sha or "").decode(),
        rival=ledger.blob((other.source_sha if other else "") or "").decode(),
        kind=row.score_kind or "estimated",
        gain=row.score.get("champion"),
    )
    seed = frozen_seed(lab_seed, row.id, "again", requested(ledger, row.id))
    result = await control.killable(row.id, rejudge(judges[row.task], win, seed))
    if result is None:
        reason = Reason("person", "kill", "ended by you in the middle")
        ledger.append([Remeasured(row.id, "interrupted", rival, None, (reason,), seed)])
        return
    # A person may have decided about it meanwhile.
    ledger.append(outcome(ledger, ledger.experiment(row.id) or row, rival, result))


def requested(ledger: Ledger, experiment: int) -> int:
    """Number of the event that asked for it last: each time draws its own seeds, a resumed one the same."""
    asked = [r.seq for r in ledger.records(experiment=experiment) if isinstance(r.event, RemeasureRequested)]
    return asked[-1] if asked else 0


def outcome(ledger: Ledger, row: ExperimentRow, rival: int, result: Rejudged) -> list[Event]:
    """What is recorded: the outcome, the new speed, and what follows for the verdict and the champion."""
    gain = result.speed.score.get("champion") if result.speed is not None else None
    events: list[Event] = [
        Remeasured(row.id, result.outcome, rival, gain, result.reasons, result.seed, result.checks_passed)
    ]
    if result.speed is not None:
        events.append(SpeedJudged(row.id, result.speed))
    first = result.reasons[0] if result.reasons else Reason("speed", "threshold", "")
    why = f"judged again against #{rival}: {first.gate} {first.probe}: {first.detail}"
    if result.outcome == "falls" and row.status in ("keep", "held"):
        status = result.gates[-1].status or "discard"
        events.append(StatusRevised(row.id, status, "loop", why))
        if row.status == "keep":
            events += lineage.fall(ledger, row, "fell when it was judged again")
    elif row.status == "held":
        now = f"{gain:.3f} × #{rival}" if gain is not None else f"against #{rival}"
        asked = next((q.reason for q in ledger.open_questions() if q.experiment == row.id), "")
        known = asked.split(" (judged again: ")[0]
        reason = f"{known} (judged again: {result.outcome}, {now})"
        events.append(ApprovalRequested(row.id, "hold", row.source_sha or "", reason))
    return events
