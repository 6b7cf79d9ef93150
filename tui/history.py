"""The history as rows to read: which columns, what they say, which rows a filter leaves. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kernel_lab.engine.ledger.views import ExperimentRow
from kernel_lab.tui import fmt
from kernel_lab.tui.text import one_line

WHY_LIMIT = 400


@dataclass(frozen=True, slots=True)
class HistoryRow:
    """One experiment as the history shows it. All texts are cleaned and hold no line break."""

    experiment: int
    task: str
    parent: int | None
    status: str
    score_seed: float | None
    score_fa2: float | None
    estimated: bool
    champion: bool
    trials: int
    why: str
    searched: str
    """Lower-case text that the filter looks into."""


def history_row(row: ExperimentRow, champions: Mapping[str, int]) -> HistoryRow:
    why = why_of(row)
    words = (f"#{row.id}", row.task, row.status, row.lever, row.proposer, why, row.hypothesis[:WHY_LIMIT])
    return HistoryRow(
        experiment=row.id,
        task=one_line(row.task, 40),
        parent=row.parent,
        status=one_line(row.status, 16),
        score_seed=row.score.get("seed"),
        score_fa2=row.score.get("fa2"),
        estimated=row.score_kind == "estimated",
        champion=champions.get(row.task) == row.id,
        trials=row.trials,
        why=why,
        searched=" ".join(words).lower(),
    )


def why_of(row: ExperimentRow) -> str:
    """One plain sentence: what was tried, and why it ended as it did."""
    what = one_line(row.description, WHY_LIMIT)
    if row.status == "running":
        return f"{what or 'being proposed'} ({one_line(row.phase or 'at work', 40)})"
    if not row.reasons:
        return what or "no reason was recorded"
    reason = row.reasons[-1]
    detail = one_line(reason.detail, WHY_LIMIT)
    if row.status in ("keep", "seed"):
        return f"{what} ({detail})" if what and detail else what or detail
    return f"{detail}. Tried: {what}" if what and detail else detail or what


def matches(row: HistoryRow, query: str) -> bool:
    """Whether every word of the filter is somewhere in the row; `#12` is that experiment alone."""
    for word in query.lower().split():
        if word.startswith("#") and word[1:].isdigit():
            if row.experiment != int(word[1:]):
                return False
        elif word not in row.searched:
            return False
    return True


def cells(row: HistoryRow) -> tuple[str, ...]:
    """Number, task, status, × seed, × FA2 and trials as text."""
    mark = "*" if row.champion else " "
    return (
        f"{mark}#{row.experiment}",
        fmt.task_word(row.task),
        row.status,
        fmt.ratio(row.score_seed),
        fmt.ratio(row.score_fa2),
        str(row.trials) if row.trials else "-",
    )
