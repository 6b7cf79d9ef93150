"""The ledger of ideas: what was predicted before anything was measured, against what came of it.

A prediction stands in the event that proposes a candidate, so it is older than any result. Gains are ratios
against the champion of the time; only what is kept now counts as gained.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from kernel_lab.engine.ledger.tables import RUNNING
from kernel_lab.engine.ledger.views import ExperimentRow
from kernel_lab.engine.proposers.base import PastExperiment

Idea = ExperimentRow | PastExperiment

AGENT_PROPOSERS = ("anthropic", "openai", "command")
PERSON_PROPOSERS = ("manual", "folder", "person")

RANGES = ((-math.inf, 2.0), (2.0, 10.0), (10.0, 50.0), (50.0, math.inf))
"""Predicted gains in percent that calibration tells apart: from the first number on, below the second."""


@dataclass(frozen=True, slots=True)
class Record:
    """What became of the ideas of one source, one lever, or one range of predicted gains."""

    name: str
    proposals: int
    with_speed: int
    """Those that got as far as a speed."""
    kept: int
    gain: float
    """Product of the ratios of those that are kept now: what the champion owes to them."""
    predicted: int
    """Those with a predicted gain and a speed."""
    mean_predicted_percent: float | None
    mean_result_percent: float | None
    mean_error_points: float | None
    """Mean of |predicted − result|, in percentage points."""
    right_sign: float | None
    """Share of them that were faster, or not, as predicted."""


def source_of(proposer: str) -> str:
    """Whose idea it was: `agent`, `person`, `search`, or the proposer's own name."""
    kind = proposer.partition(":")[0]
    if kind in PERSON_PROPOSERS:
        return "person"
    if kind.partition("+")[0] in AGENT_PROPOSERS:
        return "agent"
    return kind


def family_of(lever: str) -> str:
    """A lever without the place where it was turned: `tiles:causal_long` is `tiles`."""
    return lever.partition(":")[0].strip().lower() or "none"


def by_source(ideas: Iterable[Idea]) -> list[Record]:
    """One record for each source, the one with most proposals first."""
    return _grouped(ideas, lambda idea: source_of(idea.proposer))


def by_lever(ideas: Iterable[Idea]) -> list[Record]:
    """One record for each lever, whichever task or bucket it was turned in."""
    return _grouped(ideas, lambda idea: family_of(idea.lever))


def calibration(ideas: Iterable[Idea]) -> list[Record]:
    """One record for each range of predicted gains that was predicted at all, the smallest first."""
    judged = list(_judged(ideas))
    found = []
    for low, high in RANGES:
        inside = [idea for idea in judged if _predicted(idea) is not None and low <= _gain(idea) < high]
        if inside:
            name = f"below {high:g} %" if low == -math.inf else f"{low:g} % and more"
            found.append(_record(name if math.inf in (high, -low) else f"{low:g} to {high:g} %", inside))
    return found


def result_percent(idea: Idea) -> float | None:
    """Gain over the champion of the time; None if it got no speed."""
    ratio = idea.score.get("champion")
    return None if ratio is None or not math.isfinite(ratio) else (ratio - 1.0) * 100.0


def _judged(ideas: Iterable[Idea]) -> Iterable[Idea]:
    """Proposals with a verdict; the seed is none."""
    return (idea for idea in ideas if idea.parent is not None and idea.status not in (RUNNING, "interrupted"))


def _grouped(ideas: Iterable[Idea], key: Callable[[Idea], str]) -> list[Record]:
    groups: dict[str, list[Idea]] = {}
    for idea in _judged(ideas):
        groups.setdefault(key(idea), []).append(idea)
    records = [_record(name, group) for name, group in groups.items()]
    return sorted(records, key=lambda record: (-record.proposals, record.name))


def _record(name: str, group: Sequence[Idea]) -> Record:
    kept = [idea for idea in group if idea.status == "keep"]
    pairs = [
        (predicted, result)
        for idea in group
        if (predicted := _predicted(idea)) is not None and (result := result_percent(idea)) is not None
    ]
    count = len(pairs)
    return Record(
        name=name,
        proposals=len(group),
        with_speed=sum(result_percent(idea) is not None for idea in group),
        kept=len(kept),
        gain=math.prod(1.0 + (result_percent(idea) or 0.0) / 100.0 for idea in kept),
        predicted=count,
        mean_predicted_percent=sum(p for p, _ in pairs) / count if count else None,
        mean_result_percent=sum(r for _, r in pairs) / count if count else None,
        mean_error_points=sum(abs(p - r) for p, r in pairs) / count if count else None,
        right_sign=sum((p > 0) == (r > 0) for p, r in pairs) / count if count else None,
    )


def _predicted(idea: Idea) -> float | None:
    value = idea.prediction.gain_percent if idea.prediction is not None else None
    return value if value is not None and math.isfinite(value) else None


def _gain(idea: Idea) -> float:
    value = _predicted(idea)
    return 0.0 if value is None else value
