"""Everything that a front end may ask of a lab, as frozen dataclasses: the only way into the engine.

A command is a row in the ledger's `commands` table. The engine obeys it once, in the transaction that
records what came of it, and writes one line back (`result`), so that the sender can be told.
"""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass
from typing import Any, Literal

VETO_CATEGORIES = ("cheat", "bug", "rubric_leak", "not_worth_it", "other")


@dataclass(frozen=True, slots=True)
class Command:
    """Base of all commands."""


@dataclass(frozen=True, slots=True)
class Approve(Command):
    """Answer yes to the open question about `experiment`; refused if it is about another source."""

    experiment: int
    source_sha: str | None = None


@dataclass(frozen=True, slots=True)
class Reject(Command):
    experiment: int
    why: str
    source_sha: str | None = None


@dataclass(frozen=True, slots=True)
class Edit(Command):
    """Replace the proposal by `source` and approve that."""

    experiment: int
    source: str


@dataclass(frozen=True, slots=True)
class Submit(Command):
    """Judge a person's own candidate as the next experiment of `task`, whoever proposes otherwise."""

    task: str
    source: str
    description: str
    ideas: tuple[int, ...] = ()
    """What people said that it answers."""


@dataclass(frozen=True, slots=True)
class Keep(Command):
    """Keep an experiment that is held, or revise a vetoed or rejected win."""

    experiment: int


@dataclass(frozen=True, slots=True)
class Veto(Command):
    """Take a kept (or held) win back. `category` is one of VETO_CATEGORIES."""

    experiment: int
    why: str
    category: str = "other"
    probe: str = ""
    """A pattern that describes the cheat: candidates that it fits are turned down from then on."""


@dataclass(frozen=True, slots=True)
class Remeasure(Command):
    """Judge an experiment again, with fresh seeds, after the running one."""

    experiment: int


@dataclass(frozen=True, slots=True)
class Say(Command):
    text: str
    scope: Literal["next", "always", "from"] = "next"
    from_experiment: int | None = None


@dataclass(frozen=True, slots=True)
class Withdraw(Command):
    idea: int


@dataclass(frozen=True, slots=True)
class EditIdea(Command):
    """Say an idea that waits in other words."""

    idea: int
    text: str


@dataclass(frozen=True, slots=True)
class MoveIdea(Command):
    """Put an idea that waits into another place among those that wait; 1 is the first."""

    idea: int
    place: int


@dataclass(frozen=True, slots=True)
class Answer(Command):
    """Answer an agent's question by its number."""

    question: int
    text: str


@dataclass(frozen=True, slots=True)
class SetMode(Command):
    mode: str


@dataclass(frozen=True, slots=True)
class Pause(Command):
    """Finish the running experiment, then wait."""


@dataclass(frozen=True, slots=True)
class Resume(Command):
    pass


@dataclass(frozen=True, slots=True)
class Kill(Command):
    """End the running experiment now; its verdict is `interrupted` and the loop goes on."""


@dataclass(frozen=True, slots=True)
class Stop(Command):
    """End the engine after the running experiment, or `now`, leaving it to be resumed."""

    now: bool = False


def command_name(cls: type[Command]) -> str:
    """`SetMode` → `set_mode`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()


COMMAND_TYPES: dict[str, type[Command]] = {command_name(cls): cls for cls in Command.__subclasses__()}


def encode_command(command: Command) -> tuple[str, dict[str, Any]]:
    """Type name and JSON-ready fields of a command."""
    return command_name(type(command)), dataclasses.asdict(command)


def decode_command(name: str, fields: dict[str, Any]) -> Command | None:
    """The command, or None for one that this version does not know."""
    cls = COMMAND_TYPES.get(name)
    if cls is None:
        return None
    known = {field.name for field in dataclasses.fields(cls)}
    values = {key: tuple(value) if isinstance(value, list) else value for key, value in fields.items()}
    return cls(**{key: value for key, value in values.items() if key in known})
