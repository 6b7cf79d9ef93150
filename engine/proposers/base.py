"""What a proposer is asked and what it answers: the boundary between the loop and every source of ideas."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from kernel_lab.engine.candidate import Value
from kernel_lab.engine.errors import UsageError
from kernel_lab.engine.facts import Launch, Prediction, Reason, ScoreKind, Speed

if TYPE_CHECKING:
    from kernel_lab.engine.events import Spent
    from kernel_lab.engine.lab import Lab
    from kernel_lab.engine.ledger.views import AskedRow, ExperimentRow, IdeaRow, Spending, TrialRow
    from kernel_lab.engine.profiles import GpuProfile, ModelProfile
    from kernel_lab.engine.tasks import TaskSpec, Workload

AGENTS = ("anthropic", "openai", "command", "anthropic+search", "openai+search")
NAMES = ("search", "manual", "folder", "scripted", *AGENTS)
"""What `--proposer` may name, before a colon."""
WAIT_FOR_PEOPLE = ("manual", "folder")
"""Proposers that may wait for days: a candidate that is handed in meanwhile goes first."""

DEFAULT_TRIALS = 8
"""Settings that search tries within one experiment unless the lab says otherwise."""


@dataclass(frozen=True, slots=True)
class PastExperiment:
    """An experiment as a proposer remembers it. `parent` is the experiment it started from."""

    id: int
    task: str
    parent: int | None
    status: str
    lever: str
    description: str
    source_sha: str | None
    canonical_sha: str
    score_vs_parent: float | None
    trials: tuple[TrialRow, ...] = ()
    proposer: str = ""
    hypothesis: str = ""
    prediction: Prediction | None = None
    reasons: tuple[Reason, ...] = ()
    """Why it was not kept; gate `person` for what a person said (rejects and vetoes)."""
    score: dict[str, float] = field(default_factory=dict)
    """Baseline to ratio, above 1 is faster."""
    score_kind: ScoreKind | None = None
    ideas: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ChampionFacts:
    """What is known about the champion beside its text. Empty where nothing was recorded."""

    launches: tuple[Launch, ...] = ()
    speed: Speed | None = None
    parts: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Workload to the parts of its estimated time, as the screen recorded them."""
    flops: dict[str, float] = field(default_factory=dict)
    moved_bytes: dict[str, float] = field(default_factory=dict)
    """By workload: bytes that have to cross DRAM at the least."""
    roofs: dict[str, Any] = field(default_factory=dict)
    """What the card reaches with simple kernels; empty where nothing is measured."""


@dataclass(frozen=True, slots=True)
class Plateau:
    """Nothing was kept for a while: the search for ideas has to widen."""

    experiments: int
    """Experiments of the task since its last keep."""
    levers: tuple[str, ...]
    """What they turned: look elsewhere."""
    branched: bool = False
    """Whether this request starts from another experiment because of it."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What the bench found out about a candidate that nobody has submitted: `text` is untrusted."""

    passed: bool
    text: str


@dataclass(frozen=True, slots=True)
class Heard:
    """Something people said while a proposal was made. `idea` is its number, None for a verdict of theirs."""

    idea: int | None
    text: str


class Bench(Protocol):
    """What a proposer may ask of the lab while it works on a proposal. Nothing here decides anything."""

    async def compile(self, source: str) -> Finding:
        """Lint, compile for the device: resources, spills, estimate against the champion."""
        ...

    async def check(self, source: str) -> Finding:
        """A few cases of correctness, as before a person sees a proposal."""
        ...

    def experiment(self, number: int) -> str:
        """Everything known about an earlier experiment; raises UsageError if there is none."""
        ...

    def source(self, number: int) -> str:
        """The candidate of an earlier experiment; raises UsageError if there is none."""
        ...

    async def ask(self, question: str, timeout_s: float) -> str | None:
        """Put a question into the queue of what needs a person; None if nobody answers in time."""
        ...

    def heard(self) -> Sequence[Heard]:
        """What people said since the request was made, each thing once."""
        ...

    def spend(self, spent: Spent) -> None:
        """Put what a request used into the books, at once."""
        ...

    def spending(self) -> Spending:
        """What the lab has used of agents so far."""
        ...


@dataclass(frozen=True, slots=True)
class ProposalRequest:
    """Everything a proposer may know. `history` holds this task's experiments, oldest first."""

    experiment: int
    task: TaskSpec
    gpu: GpuProfile
    model: ModelProfile
    champion: ExperimentRow
    champion_source: str
    history: tuple[PastExperiment, ...]
    ideas: tuple[IdeaRow, ...]
    seed: int
    trials: int = DEFAULT_TRIALS
    device_kind: ScoreKind = "estimated"
    workloads: tuple[Workload, ...] = ()
    """The timed shapes with weights and buckets, as scores are made of them."""
    champion_facts: ChampionFacts = ChampionFacts()
    parent: ExperimentRow | None = None
    """The experiment to start from where that is not the champion: a person said so, or a plateau asks."""
    parent_source: str = ""
    plateau: Plateau | None = None
    used_ideas: tuple[IdeaRow, ...] = ()
    """What people said to earlier experiments of this task, the latest last."""
    answers: tuple[AskedRow, ...] = ()
    """What agents asked in earlier experiments of this task, with what people answered."""
    bench: Bench | None = field(default=None, compare=False, repr=False)
    """None where a request is only looked at."""

    @property
    def start(self) -> ExperimentRow:
        """The experiment that this proposal starts from; it is compared with the champion all the same."""
        return self.parent or self.champion

    @property
    def start_source(self) -> str:
        return self.parent_source if self.parent is not None else self.champion_source


@dataclass(frozen=True, slots=True)
class Proposal:
    """A complete candidate with what is expected of it."""

    source: str
    description: str
    """One plain sentence: what is tried."""
    hypothesis: str
    """Why it should help."""
    prediction: Prediction
    lever: str
    trial_space: dict[str, dict[str, list[Value]]] = field(default_factory=dict)
    """Bucket to tunables that trials may settle."""
    ideas: tuple[int, ...] = ()
    transcript: str = ""
    """What the proposer said on its way."""
    proposer: str = ""
    """Who gets the credit, where a proposer stands for several."""


@dataclass(frozen=True, slots=True)
class Exhausted:
    """The proposer has nothing new to try; `text` says what was explored and what would help now."""

    text: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """The proposer gave no candidate that can be judged. The loop records it and goes on."""

    reason: Reason
    transcript: str = ""
    proposer: str = ""


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """The proposer's next candidate is for another task of the lab: it wants to be asked for that one."""

    task: str


@dataclass(frozen=True, slots=True)
class Ended:
    """The run ends here, without an experiment: at a cap, or with a service that refuses."""

    why: Literal["budget", "error"]
    text: str
    passing: bool = False
    """Whether it may pass by itself, as a service that is out of reach."""


Answer = Proposal | Exhausted | Refusal | Elsewhere | Ended
Say = Callable[[str], None]


class Proposer(Protocol):
    """A source of candidates."""

    name: str

    async def propose(self, request: ProposalRequest, say: Say) -> Answer:
        """The next candidate. `say` takes text as it arrives, for people to follow; it may be cancelled.

        Raises ProposerError if the proposer cannot go on at all.
        """
        ...


@runtime_checkable
class Closing(Protocol):
    """A proposer that holds something open: connections, work in the background."""

    async def close(self) -> None: ...


def make_proposer(name: str, lab: Lab) -> Proposer:
    """A proposer by its name, with what it needs behind a colon (`folder:PATH`, `scripted:PATH`).

    Raises UsageError for a name that does not exist, and for an agent that may not be started as it is set.
    """
    kind, _, detail = name.partition(":")
    if kind in ("search", "manual") and detail:
        raise UsageError(f"proposer {kind} takes nothing behind a colon; say `--proposer {kind}`")
    if kind == "search":
        from kernel_lab.engine.proposers.search import Search

        return Search()
    if kind == "manual":
        from kernel_lab.engine.proposers.manual import Manual

        return Manual(lab.path / "manual")
    if kind == "folder":
        from kernel_lab.engine.proposers.folder import Folder
        from kernel_lab.engine.tasks import load_task

        folder = Path(detail).expanduser() if detail else lab.path / "inbox"
        entries = {task.name: task.entry for task in map(load_task, lab.config.tasks)}
        return Folder(folder, lab.path / "inbox" / ".taken.json", entries, given=bool(detail))
    if kind == "scripted":
        from kernel_lab.engine.proposers.scripted import Scripted

        return Scripted.from_file(detail)
    if kind in AGENTS:
        from kernel_lab.engine.proposers.agent.make import make_agent

        return make_agent(kind, detail, lab.config, lab.path)
    raise UsageError(f"there is no proposer {name[:60]!r}; use one of {', '.join(NAMES)}")
