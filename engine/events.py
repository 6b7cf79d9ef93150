"""Everything that happens in a lab, as frozen dataclasses: the only way out of the engine.

An event is appended to the ledger, hash-chained, and read by every front end alike: live, attached,
headless or replaying. Its `type` is the class name in snake case. Readers skip types and fields that they
do not know, so that an older front end can follow a newer engine.
"""

from __future__ import annotations

import dataclasses
import re
import types
import typing
from dataclasses import dataclass, field
from typing import Any, Literal

from kernel_lab.engine.facts import Check, Launch, Prediction, Reason, Speed

SCHEMA_VERSION = 1

T = typing.TypeVar("T")
QuestionKind = Literal["proposal", "keep", "hold", "plateau"]


@dataclass(frozen=True, slots=True)
class Event:
    """Base of all events."""


# ---- the lab ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LabCreated(Event):
    """A lab was set up. `config` is the content of lab.toml at that moment."""

    lab: str
    device_kind: Literal["static", "measured"]
    gpu: str
    model: str
    tasks: tuple[str, ...]
    config: dict[str, Any]
    workloads: dict[str, list[dict[str, Any]]]
    """Task to workload matrix: the very shapes, weights and buckets that scores are made of."""
    left_out: tuple[str, ...] = ()
    """What the matrix leaves out and why: layers that the tasks cannot express, shapes too large."""


@dataclass(frozen=True, slots=True)
class EngineStarted(Event):
    version: str
    environment: dict[str, Any]


@dataclass(frozen=True, slots=True)
class EngineStopped(Event):
    """The engine ended on purpose. `reason`: `stop`, `budget`, `exhausted`, `hours`, `error`."""

    reason: str
    text: str


@dataclass(frozen=True, slots=True)
class ModeChanged(Event):
    mode: str
    by: str


@dataclass(frozen=True, slots=True)
class Paused(Event):
    by: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class Resumed(Event):
    by: str


@dataclass(frozen=True, slots=True)
class Notice(Event):
    """One line that a person should see. `level`: `info`, `warning`, `error`."""

    level: str
    text: str
    experiment: int | None = None


@dataclass(frozen=True, slots=True)
class SelftestJudged(Event):
    """How the judge does against cheats and honest kernels, in the environment of this engine.

    Wins are kept provisionally unless `state` is `green`.
    """

    state: Literal["off", "running", "green", "red"]
    line: str
    """`caught 13/13, false alarms 0/3`; empty while it runs."""
    red: tuple[str, ...]
    """Classes of cheats that are not caught."""
    disabled: tuple[str, ...]
    """Guards that are switched off."""
    quick: bool
    missed: tuple[str, ...] = ()
    """Files of the battery that came out wrong."""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class SpaceExplored(Event):
    """A proposer has nothing new to try for a task, and says what would help."""

    task: str
    text: str


@dataclass(frozen=True, slots=True)
class PlateauReached(Event):
    """Nothing was kept for a while: `experiments` of `task` up to `experiment`. The search widens."""

    experiment: int
    task: str
    experiments: int
    levers: tuple[str, ...]
    """What was turned since the last keep."""
    text: str


# ---- one experiment, in the order of its steps ----------------------------------------------------


@dataclass(frozen=True, slots=True)
class ExperimentStarted(Event):
    """`parent` is the experiment whose candidate this one starts from; None for a seed."""

    experiment: int
    task: str
    parent: int | None
    proposer: str
    submission: int | None = None
    """The person's own candidate that it judges, which waits no longer."""


@dataclass(frozen=True, slots=True)
class Proposed(Event):
    """A complete candidate with its hypothesis. `source_sha` names a blob in the ledger."""

    experiment: int
    source_sha: str
    description: str
    """One plain sentence: what is tried."""
    hypothesis: str
    """Why it should help."""
    prediction: Prediction
    lever: str
    """Short name of what is turned, such as `split_kv` or `tiles:causal_long`."""
    trial_space: dict[str, dict[str, list[Any]]] = field(default_factory=dict)
    """Bucket to tunables that trials may settle."""
    ideas: tuple[int, ...] = ()
    """What people said that this proposal answers."""


@dataclass(frozen=True, slots=True)
class AgentSaid(Event):
    """What an agent said on its way to a proposal, with its calls of tools as short lines."""

    experiment: int
    text: str


@dataclass(frozen=True, slots=True)
class Spent(Event):
    """One request to a model. `usd` is None where no price is known.

    `input_tokens` are those that no cache served, `output_tokens` include thinking. Where a reply was cut
    before its usage was told, `complete` is False and its output is estimated from what had arrived.
    """

    experiment: int
    proposer: str
    model: str
    input_tokens: int
    cached_tokens: int
    cache_write_tokens: int
    output_tokens: int
    thinking_tokens: int
    usd: float | None
    complete: bool = True


@dataclass(frozen=True, slots=True)
class Asked(Event):
    """An agent asks the person something while it works on `experiment`; it waits `timeout_s` at most."""

    experiment: int
    question: int
    text: str
    timeout_s: float


@dataclass(frozen=True, slots=True)
class Answered(Event):
    """A question has its answer; `text` is empty where nobody gave one (`by` then says why)."""

    experiment: int
    question: int
    text: str
    by: str


@dataclass(frozen=True, slots=True)
class Refused(Event):
    """The proposer gave no candidate that can be judged."""

    experiment: int
    reason: Reason


@dataclass(frozen=True, slots=True)
class Checked(Event):
    """One check of one gate ended."""

    experiment: int
    check: Check
    source_sha: str = ""


@dataclass(frozen=True, slots=True)
class GateFinished(Event):
    """A gate ended. `facts` holds what the gate found, bounded in size."""

    experiment: int
    gate: str
    passed: bool
    status: str | None
    """The verdict that a failed gate asks for; None if it passed."""
    reasons: tuple[Reason, ...] = ()
    facts: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    source_sha: str = ""
    """The very text that went through the gate: an edited proposal goes through its gates again."""


@dataclass(frozen=True, slots=True)
class Screened(Event):
    """The candidate compiled for the device. `time_us`: workload to estimate."""

    experiment: int
    source_sha: str
    launches: tuple[Launch, ...]
    time_us: dict[str, float]


@dataclass(frozen=True, slots=True)
class ApprovalRequested(Event):
    """A person is asked. `kind`: `proposal` (may it be judged), `keep` (may it be kept), `hold`, `plateau`
    (what now: `experiment` is the champion that nothing beats)."""

    experiment: int
    kind: QuestionKind
    source_sha: str
    reason: str


@dataclass(frozen=True, slots=True)
class Decided(Event):
    """A person (or the mode) answered. `decision`: `approve`, `reject`, `edit`."""

    experiment: int
    kind: QuestionKind
    decision: Literal["approve", "reject", "edit"]
    by: str
    why: str
    source_sha: str
    """The candidate that was decided on; after `edit` the edited one."""


@dataclass(frozen=True, slots=True)
class TrialFinished(Event):
    """One setting was tried. `vs_parent`: parent / trial over the buckets tried, above 1 is faster."""

    experiment: int
    trial: int
    bucket: str
    values: dict[str, Any]
    status: Literal["ok", "compile_error", "oom", "pruned", "incorrect", "timeout", "crash"]
    vs_parent: float | None
    time_us: dict[str, float]
    detail: str = ""


@dataclass(frozen=True, slots=True)
class TrialsSettled(Event):
    """Trials ended: `source_sha` is the candidate with the best values written into CONFIG."""

    experiment: int
    source_sha: str
    changed: dict[str, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class SpeedJudged(Event):
    """The candidate's speed. On a static device an estimate, and said to be one."""

    experiment: int
    speed: Speed


@dataclass(frozen=True, slots=True)
class ExperimentFinished(Event):
    """The verdict, once. A later change of mind is a StatusRevised."""

    experiment: int
    status: str
    reasons: tuple[Reason, ...]
    source_sha: str | None


@dataclass(frozen=True, slots=True)
class ChampionChanged(Event):
    """`experiment` is the candidate kept for now for `task`."""

    task: str
    experiment: int
    previous: int | None
    why: str


@dataclass(frozen=True, slots=True)
class StatusRevised(Event):
    """A person, or the loop on a person's behalf, revised a verdict. `category` as in the veto form."""

    experiment: int
    status: str
    by: str
    why: str
    category: str = "other"
    probe: str = ""
    """With a veto: a pattern (see `judge.veto_probe`) that no candidate after it may fit."""


@dataclass(frozen=True, slots=True)
class RemeasureRequested(Event):
    """An experiment is to be judged again, with fresh seeds, as soon as the loop has time."""

    experiment: int
    by: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class Remeasured(Event):
    """It was judged again. What follows for its verdict stands in events of their own."""

    experiment: int
    outcome: Literal["survives", "falls", "unproven", "interrupted"]
    against: int
    """The champion that it had to beat."""
    gain: float | None
    """Its time / the candidate's; None where it never came to that."""
    reasons: tuple[Reason, ...]
    seed: int
    checks_passed: int = 0


# ---- what people say ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class IdeaSaid(Event):
    """`scope`: `next`, `always`, or `from` (then `from_experiment` is set)."""

    idea: int
    text: str
    scope: Literal["next", "always", "from"]
    from_experiment: int | None
    by: str


@dataclass(frozen=True, slots=True)
class IdeaUsed(Event):
    idea: int
    experiment: int


@dataclass(frozen=True, slots=True)
class IdeaEdited(Event):
    """An idea that waits says something else from now on."""

    idea: int
    text: str
    by: str


@dataclass(frozen=True, slots=True)
class IdeaMoved(Event):
    """Ideas that wait have another order; `order` names all of them, the first to be heeded first."""

    idea: int
    order: tuple[int, ...]
    by: str


@dataclass(frozen=True, slots=True)
class IdeaWithdrawn(Event):
    idea: int
    by: str


@dataclass(frozen=True, slots=True)
class Submitted(Event):
    """A person handed in a candidate of their own: it is the next experiment of `task`."""

    submission: int
    task: str
    source_sha: str
    description: str
    ideas: tuple[int, ...]
    """What people said that it answers."""
    by: str


# ---- encoding -------------------------------------------------------------------------------------


def type_name(cls: type[Event]) -> str:
    """`ExperimentStarted` → `experiment_started`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()


EVENT_TYPES: dict[str, type[Event]] = {type_name(cls): cls for cls in Event.__subclasses__()}


def encode(event: Event) -> tuple[str, dict[str, Any]]:
    """Type name and JSON-ready fields of an event."""
    return type_name(type(event)), dataclasses.asdict(event)


def decode(name: str, fields: dict[str, Any]) -> Event | None:
    """The event, or None for a type that this version does not know. Unknown fields are skipped."""
    cls = EVENT_TYPES.get(name)
    return None if cls is None else build(cls, fields)


def build(cls: type[T], fields: dict[str, Any]) -> T:
    """A frozen dataclass from JSON fields, nested dataclasses and tuples included."""
    hints = _hints(cls)
    known = {name: _revive(hints[name], value) for name, value in fields.items() if name in hints}
    return cls(**known)


_HINTS: dict[type, dict[str, Any]] = {}


def _hints(cls: type) -> dict[str, Any]:
    if cls not in _HINTS:
        _HINTS[cls] = typing.get_type_hints(cls)
    return _HINTS[cls]


def _revive(hint: Any, value: Any) -> Any:
    if value is None:
        return None
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        inner = [part for part in typing.get_args(hint) if part is not type(None)]
        return _revive(inner[0], value) if len(inner) == 1 else value
    if dataclasses.is_dataclass(hint) and isinstance(value, dict):
        return build(typing.cast(type, hint), value)
    if origin is tuple:
        parts = typing.get_args(hint)
        if len(parts) == 2 and parts[1] is Ellipsis:
            return tuple(_revive(parts[0], item) for item in value)
        return tuple(_revive(part, item) for part, item in zip(parts, value, strict=True))
    if origin is list:
        return [_revive(typing.get_args(hint)[0], item) for item in value]
    if origin is dict:
        return {key: _revive(typing.get_args(hint)[1], item) for key, item in value.items()}
    return value
