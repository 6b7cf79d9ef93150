"""What a veto takes back, and what a later keep may bring in: events for a person's change of mind.

A kept win is clean while neither it nor anything it was built on is vetoed. The champion of a task is the
last clean one of its line.
"""

from __future__ import annotations

from collections.abc import Callable

from kernel_lab.engine.errors import UsageError
from kernel_lab.engine.events import (
    ApprovalRequested,
    ChampionChanged,
    Decided,
    Event,
    RemeasureRequested,
    StatusRevised,
)
from kernel_lab.engine.judge.verdict import geometric_mean
from kernel_lab.engine.ledger.views import ExperimentRow, Views

REVISABLE = ("held", "vetoed", "rejected")


def veto(ledger: Views, experiment: int, by: str, why: str, category: str, probe: str = "") -> list[Event]:
    """Take a win back: the champion falls to the last clean one; kept descendants are held and judged again.

    Champions after it that were not built on it (begun from an older experiment) stay on the line.

    Raises UsageError if there is no win to take back.
    """
    row = _row(ledger, experiment)
    if row.status not in ("keep", "held"):
        raise UsageError(f"#{experiment} is {row.status}, not a kept or held win: nothing to veto")
    events: list[Event] = [StatusRevised(experiment, "vetoed", by, why, category, probe)]
    if row.status == "held":
        events.insert(0, Decided(experiment, "hold", "reject", by, why, row.source_sha or ""))
    return [*events, *fall(ledger, row, f"was vetoed: {why}")]


def fall(ledger: Views, row: ExperimentRow, what: str) -> list[Event]:
    """What follows when `row` is a win no longer; `what` says why, such as `was vetoed: …`.

    What was built on it is held, and judged again on the last clean champion.
    """
    events: list[Event] = []
    again: list[Event] = []
    built_on_it = ledger.descendants(row.id)
    for number in built_on_it:
        other = _row(ledger, number)
        if other.status == "keep":
            reason = f"built on #{row.id}, which {what}"
            events.append(StatusRevised(number, "held", "loop", reason))
            events.append(ApprovalRequested(number, "hold", other.source_sha or "", reason))
        if other.status in ("keep", "held"):
            again.append(RemeasureRequested(number, "loop", f"built on #{row.id}, which {what}"))
    line = ledger.champion_line(row.task)
    gone = {row.id, *built_on_it}
    at = next((place for place, number in enumerate(line) if number in gone), None)
    if at is None:
        return [*events, *again]
    short = what.partition(":")[0]
    previous, survivors = line[at - 1], [number for number in line[at:] if number not in gone]
    for survivor in survivors:
        why = f"#{row.id} {short}, which it is not built on"
        events.append(ChampionChanged(row.task, survivor, previous, why))
        previous = survivor
    if not survivors:
        events.append(ChampionChanged(row.task, previous, line[-1], f"#{row.id} {short}"))
    return [*events, *again]


def remeasure(ledger: Views, experiment: int, by: str) -> list[Event]:
    """Ask for an experiment to be judged again. Raises UsageError where there is nothing to judge."""
    row = _row(ledger, experiment)
    if row.parent is None:
        raise UsageError(f"#{experiment} is the seed: it has nothing to beat; name an experiment after it")
    if row.status == "running" or row.source_sha is None or ledger.speed(experiment) is None:
        raise UsageError(f"#{experiment} was never judged on speed: nothing to judge again")
    return [RemeasureRequested(experiment, by)]


def probe_problem(ledger: Views, experiment: int, fits: Callable[[str], bool]) -> str | None:
    """Why a veto's probe will not do: it must fit what is vetoed, and no champion that stays.

    `fits` tells of a text's sha256 whether the probe fits that text.
    """
    row = _row(ledger, experiment)
    if row.source_sha is None or not fits(row.source_sha):
        return f"the probe does not fit #{experiment}: describe what its text does"
    gone = {experiment, *ledger.descendants(experiment)}
    for number in ledger.champion_line(row.task):
        other = _row(ledger, number)
        if number not in gone and other.source_sha and fits(other.source_sha):
            return (
                f"the probe also fits #{number}, which stays: say it more narrowly, or veto #{number} first"
            )
    return None


def keep(ledger: Views, experiment: int, by: str, why: str) -> list[Event]:
    """Keep a held, vetoed or rejected win; it must still beat today's champion, else it is discarded.

    Raises UsageError if the experiment is none of these or never passed its gates.
    """
    row = _row(ledger, experiment)
    if row.status not in REVISABLE:
        raise UsageError(
            f"#{experiment} is {row.status}: only {', '.join(REVISABLE)} wins can be kept by hand"
        )
    champion = ledger.champions()[row.task]
    ratio = faster_than(ledger, experiment, champion)
    if ratio is None:
        raise UsageError(f"#{experiment} was never judged on speed: it cannot be kept")
    events: list[Event] = []
    if row.status == "held":
        events.append(Decided(experiment, "hold", "approve", by, why, row.source_sha or ""))
    if ratio <= 1.0:
        reason = f"the champion is #{champion} now, and this is {ratio:.3f} × as fast"
        return [*events, StatusRevised(experiment, "discard", "loop", reason)]
    said = why or "kept by hand"
    return [
        *events,
        StatusRevised(experiment, "keep", by, said),
        ChampionChanged(row.task, experiment, champion, said),
    ]


def vetoed_ancestor(ledger: Views, experiment: int) -> ExperimentRow | None:
    """The nearest experiment that this one was built on and that a person vetoed; None if there is none."""
    row = ledger.experiment(experiment)
    while row is not None and row.parent is not None:
        row = ledger.experiment(row.parent)
        if row is not None and row.status == "vetoed":
            return row
    return None


def faster_than(ledger: Views, experiment: int, champion: int) -> float | None:
    """Champion's time / experiment's time over the workloads both were judged on; None if there are none."""
    mine, theirs = ledger.speed(experiment), ledger.speed(champion)
    if mine is None or theirs is None:
        return None
    champion_us = {row.workload: row.time_us for row in theirs.per_workload}
    shared = [row for row in mine.per_workload if row.workload in champion_us]
    return geometric_mean(
        {row.workload: champion_us[row.workload] / row.time_us for row in shared},
        {row.workload: row.weight for row in shared},
    )


def _row(ledger: Views, experiment: int) -> ExperimentRow:
    row = ledger.experiment(experiment)
    if row is None:
        raise UsageError(f"there is no experiment #{experiment}: `kernel-lab results` lists them")
    return row
