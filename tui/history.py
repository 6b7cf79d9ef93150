"""The history as rows to read: which columns, what they say, which rows a filter leaves. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from kernel_lab.engine.ledger.views import ExperimentRow
from kernel_lab.tui import fmt
from kernel_lab.tui.text import one_line

WHY_LIMIT = 400

Order = Literal["newest", "fastest", "tree"]
ORDERS: tuple[Order, ...] = ("newest", "fastest", "tree")
DEPTH_SHOWN = 6
"""Generations that the tree indents; deeper ones stand below each other with their number."""


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


def in_order(rows: Iterable[HistoryRow], order: Order) -> list[tuple[int, int]]:
    """Experiments from top to bottom with their depth, which is 0 but in the tree.

    `fastest` goes by the ratio to the seed, or to FA2 where there is none; in the `tree` each stands below
    what it was built on, and one whose parent is not shown stands at the root.
    """
    if order == "newest":
        return [(number, 0) for number in sorted((row.experiment for row in rows), reverse=True)]
    if order == "fastest":
        scored = sorted(rows, key=lambda row: (-_ratio(row), -row.experiment))
        return [(row.experiment, 0) for row in scored]
    parents = {row.experiment: row.parent for row in rows}
    children: dict[int | None, list[int]] = {}
    for number in sorted(parents, reverse=True):
        parent = parents[number]
        children.setdefault(parent if parent in parents and parent != number else None, []).append(number)
    result: list[tuple[int, int]] = []
    # Oldest first from the end of a stack, so that deep lines need no recursion.
    stack = [(number, 0) for number in children.get(None, ())]
    while stack:
        number, depth = stack.pop()
        result.append((number, depth))
        stack += [(child, depth + 1) for child in children.get(number, ())]
    if len(result) < len(parents):  # parents that go in a circle are in no ledger of ours
        seen = {number for number, _ in result}
        result += [(number, 0) for number in sorted(parents) if number not in seen]
    return result


def _ratio(row: HistoryRow) -> float:
    value = row.score_seed if row.score_seed is not None else row.score_fa2
    return value if value is not None and math.isfinite(value) else -1.0


def branch(depth: int) -> str:
    """What stands before a row of the tree."""
    if depth <= 0:
        return ""
    if depth <= DEPTH_SHOWN:
        return "  " * (depth - 1) + "└ "
    return "  " * (DEPTH_SHOWN - 1) + f"└ {depth}: "
