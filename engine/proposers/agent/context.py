"""What an agent sees, built from files and the ledger for each proposal: never from a conversation's memory.

The stable sections come first and are the same bytes from request to request while the facts are the same,
so that a provider's cache holds them; what changes follows. The whole is kept under a budget of tokens by
giving up, in the order of `ORDER_OF_DROPPING`, what is missed least. What people said, their latest vetoes,
the rules and the champion's text are never given up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from kernel_lab.engine.proposers.agent import digest, rules
from kernel_lab.engine.proposers.agent.fence import fence
from kernel_lab.engine.proposers.base import ProposalRequest

BYTES_PER_TOKEN = 3.0
"""Bytes of UTF-8 that a token holds at least, on average: code and tables take more tokens than prose. An
estimate on the safe side, since every provider counts with a tokenizer of its own."""

STABLE_SHARE = 0.6
"""The largest part of the budget for the stable sections. They are cut to it whatever the rest holds, so that
a longer ledger does not change their bytes."""

CANDIDATE_LIMIT = 200_000
NOTES_LIMIT = 60_000


@dataclass(frozen=True, slots=True)
class Section:
    """One part of the context. `stable`: the same bytes while the facts it tells are the same."""

    name: str
    text: str
    stable: bool

    def rendered(self) -> str:
        return f"# {self.name}\n\n{self.text.strip()}\n\n"


@dataclass(frozen=True, slots=True)
class Context:
    """What an agent sees, in order: the stable sections, then the others."""

    sections: tuple[Section, ...]
    dropped: tuple[str, ...]
    """What was left out or shortened for the budget, in the order in which it was given up."""
    token_budget: int

    @property
    def prefix(self) -> str:
        """The stable sections: cache up to here."""
        return "".join(section.rendered() for section in self.sections if section.stable)

    @property
    def changing(self) -> str:
        """Everything after the prefix."""
        return "".join(section.rendered() for section in self.sections if not section.stable)

    @property
    def text(self) -> str:
        return self.prefix + self.changing

    @property
    def tokens(self) -> int:
        """Estimated tokens of the whole. More than `token_budget` if even the least does not fit."""
        return count_tokens(self.text)


def count_tokens(text: str) -> int:
    """An estimate that errs on the high side."""
    return math.ceil(len(text.encode("utf-8", "replace")) / BYTES_PER_TOKEN)


@dataclass(frozen=True, slots=True)
class _Part:
    """A section with shorter forms of it, the longest first; an empty last form leaves it out."""

    name: str
    stable: bool
    forms: tuple[str, ...]


ORDER_OF_DROPPING = (
    "Ledger",
    "What people said before",
    "Predictions against results",
    "Ledger",
    "Champion's resources",
    "Vetoes and rejects",
    "Model",
    "Card",
    "Task notes",
)
"""Each entry takes the named section one form shorter, from the first on, until the context fits."""


def build_context(request: ProposalRequest, *, token_budget: int) -> Context:
    """The context for one proposal in at most `token_budget` estimated tokens."""
    parts = _parts(request)
    at = {part.name: 0 for part in parts}
    dropped: list[str] = []

    def size(stable_only: bool = False) -> int:
        chosen = [Section(part.name, part.forms[at[part.name]], part.stable) for part in parts]
        text = "".join(s.rendered() for s in chosen if s.text and (s.stable or not stable_only))
        return count_tokens(text)

    def give_up(names: tuple[str, ...], limit: int, *, stable_only: bool = False) -> None:
        by_name = {part.name: part for part in parts}
        for name in names:
            if size(stable_only) <= limit:
                return
            part = by_name.get(name)
            if part is None or at[name] + 1 >= len(part.forms):
                continue
            at[name] += 1
            word = "shortened" if part.forms[at[name]] else "left out"
            dropped.append(f"{name} {word}")

    stable = {part.name for part in parts if part.stable}
    first = tuple(name for name in ORDER_OF_DROPPING if name in stable)
    give_up(first, int(token_budget * STABLE_SHARE), stable_only=True)
    give_up(tuple(name for name in ORDER_OF_DROPPING if name not in stable), token_budget)
    give_up(first, token_budget)
    sections = tuple(
        Section(part.name, part.forms[at[part.name]], part.stable)
        for part in sorted(parts, key=lambda part: not part.stable)
        if part.forms[at[part.name]]
    )
    return Context(sections, tuple(dropped), token_budget)


def _parts(request: ProposalRequest) -> list[_Part]:
    task, gpu, model = request.task, request.gpu, request.model
    source = fence(request.champion_source, f"candidate #{request.champion.id}", CANDIDATE_LIMIT)
    return [
        _Part("Role", True, (rules.ROLE,)),
        _Part("Rules", True, (rules.rules(request.device_kind),)),
        _Part("Task", True, (rules.contract(task),)),
        _Part("Workloads", True, (digest.workloads(request),)),
        _Part("Card", True, _notes(gpu.title, gpu.notes)),
        _Part("Model", True, _notes(model.title, model.notes)),
        _Part("Task notes", True, _notes(task.name, task.notes)),
        _Part("Champion", False, (f"{digest.champion(request)}\n\n{source}",)),
        _Part("Starting point", False, (digest.start(request, CANDIDATE_LIMIT),)),
        _Part("Champion's bottleneck", False, (digest.bottleneck(request),)),
        _Part("Champion's resources", False, (digest.resources(request), "")),
        _Part("Ledger", False, digest.ledger(request)),
        _Part("Predictions against results", False, (digest.record(request), "")),
        _Part("What people said before", False, (digest.people_before(request), "")),
        _Part("Vetoes and rejects", False, digest.turned_down_by_people(request)),
        _Part("What people say", False, (digest.people(request),)),
        _Part("Now", False, (digest.ask(request),)),
    ]


def _notes(title: str, notes: str) -> tuple[str, ...]:
    """Notes whole, then their first half by paragraphs, then none."""
    whole = notes.strip()[:NOTES_LIMIT]
    if not whole:
        return ("",)
    paragraphs = whole.split("\n\n")
    half = "\n\n".join(paragraphs[: max(1, len(paragraphs) // 2)])
    return (whole, f"{half}\n\n[the rest of these notes was left out]", "") if half != whole else (whole, "")
