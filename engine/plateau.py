"""When nothing was kept for a while: how long, what was turned meanwhile, and where else to start from."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from kernel_lab.engine.ledger.tables import RUNNING
from kernel_lab.engine.proposers.base import PastExperiment, Plateau

BRANCHES = 5
"""The best experiments beside the champion that a plateau starts from in turn."""

JUDGED_ON_SPEED = ("keep", "discard", "seed")
"""Verdicts after which an experiment may be started from: its values were not found wrong."""


def since_keep(history: Sequence[PastExperiment]) -> list[PastExperiment]:
    """Judged experiments after the last one that was kept (or the seed), oldest first."""
    found: list[PastExperiment] = []
    for past in history:
        if past.status in ("keep", "seed"):
            found = []
        elif past.status not in (RUNNING, "interrupted"):
            found.append(past)
    return found


def plateau(history: Sequence[PastExperiment], after: int) -> Plateau | None:
    """The plateau that the task is on once `after` experiments in a row were not kept; None before."""
    found = since_keep(history)
    if len(found) < after:
        return None
    return Plateau(len(found), tuple(dict.fromkeys(past.lever for past in found if past.lever)))


def branch(
    history: Sequence[PastExperiment], champion: int, after: int, spent: Collection[int]
) -> PastExperiment | None:
    """Where else to start from: every second proposal on a plateau leaves the champion for one of the best
    others in turn. None where the champion's turn is, or where there is no other code to start from."""
    beyond = len(since_keep(history)) - after
    if beyond < 0 or beyond % 2:
        return None
    own = next((past.canonical_sha for past in history if past.id == champion), "")
    others: dict[str, PastExperiment] = {}
    for past in sorted(history, key=_speed, reverse=True):
        usable = past.status in JUDGED_ON_SPEED and past.source_sha and past.id not in spent
        if usable and past.canonical_sha not in ("", own):
            others.setdefault(past.canonical_sha, past)
    best = list(others.values())[:BRANCHES]
    return best[beyond // 2 % len(best)] if best else None


def _speed(past: PastExperiment) -> float:
    return past.score.get("seed", 0.0)
