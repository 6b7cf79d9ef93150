"""What a veto takes back, and what a later keep may bring in: events for a person's change of mind.

A kept win is clean while neither it nor anything it was built on is vetoed. The champion of a task is the
last clean one of its line.
"""

from __future__ import annotations

from kernel_lab.engine.errors import UsageError
from kernel_lab.engine.events import ApprovalRequested, ChampionChanged, Decided, Event, StatusRevised
from kernel_lab.engine.judge.verdict import geometric_mean
from kernel_lab.engine.ledger.views import ExperimentRow, Views

REVISABLE = ("held", "vetoed", "rejected")


def veto(ledger: Views, experiment: int, by: str, why: str, category: str) -> list[Event]:
    """Take a win back: the champion falls to the last clean one, kept descendants are held.

    Champions after it that were not built on it (begun from an older experiment) stay on the line.

    Raises UsageError if there is no win to take back.
    """
    row = _row(ledger, experiment)
    if row.status not in ("keep", "held"):
        raise UsageError(f"#{experiment} is {row.status}, not a kept or held win: nothing to veto")
    events: list[Event] = [StatusRevised(experiment, "vetoed", by, why, category)]
    if row.status == "held":
        events.insert(0, Decided(experiment, "hold", "reject", by, why, row.source_sha or ""))
    built_on_it = ledger.descendants(experiment)
    for number in built_on_it:
        other = _row(ledger, number)
        if other.status == "keep":
            reason = f"built on #{experiment}, which was vetoed: {why}"
            events.append(StatusRevised(number, "held", "loop", reason))
            events.append(ApprovalRequested(number, "hold", other.source_sha or "", reason))
    line = ledger.champion_line(row.task)
    gone = {experiment, *built_on_it}
    at = next((place for place, number in enumerate(line) if number in gone), None)
    if at is None:
        return events
    previous, survivors = line[at - 1], [number for number in line[at:] if number not in gone]
    for survivor in survivors:
        why = f"#{experiment} was vetoed, which it is not built on"
        events.append(ChampionChanged(row.task, survivor, previous, why))
        previous = survivor
    if not survivors:
        events.append(ChampionChanged(row.task, previous, line[-1], f"#{experiment} was vetoed"))
    return events


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
    said = why or f"kept by {by}"
    return [
        *events,
        StatusRevised(experiment, "keep", by, said),
        ChampionChanged(row.task, experiment, champion, said),
    ]


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
