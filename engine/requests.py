"""Requests to proposers, made from the ledger alone: the loop and `kernel-lab context` ask the same one."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from kernel_lab.engine import plateau
from kernel_lab.engine.candidate import parse
from kernel_lab.engine.errors import CandidateInvalid, UsageError
from kernel_lab.engine.events import GateFinished, Screened
from kernel_lab.engine.facts import Launch, ScoreKind
from kernel_lab.engine.lab_config import LabConfig
from kernel_lab.engine.ledger.store import Ledger
from kernel_lab.engine.ledger.views import AskedRow, ExperimentRow, IdeaRow
from kernel_lab.engine.profiles import GpuProfile, ModelProfile
from kernel_lab.engine.proposers.base import ChampionFacts, PastExperiment, ProposalRequest
from kernel_lab.engine.tasks import TaskSpec


class Requests:
    """Makes the requests of one lab. What finished experiments were is read once while they stay the same."""

    def __init__(
        self, ledger: Ledger, config: LabConfig, gpu: GpuProfile, model: ModelProfile, kind: ScoreKind
    ) -> None:
        self.ledger = ledger
        self.config = config
        self.gpu = gpu
        self.model = model
        self.kind: ScoreKind = kind
        self.spent: set[int] = set()
        """Experiments that the proposer knows nothing new to try from: nothing starts there any more."""
        self._canonicals: dict[str, str] = {}
        self._past: dict[int, tuple[ExperimentRow, PastExperiment]] = {}

    def make(
        self, task: TaskSpec, experiment: int, champion: ExperimentRow, workloads: Sequence[Mapping[str, Any]]
    ) -> ProposalRequest:
        """The request for `experiment` while `champion` is the one to beat.

        It starts from the champion, or where the first person says who wants to start from an experiment of
        this task, or from another of the best where a plateau asks for it.
        """
        if not champion.source_sha:
            raise UsageError(f"#{champion.id} has no text: the ledger is damaged; run `kernel-lab doctor`")
        history = self.history(task, exclude=experiment)
        parent, ideas = self._said_start(task, champion)
        hint = plateau.plateau(history, self.config.plateau)
        if parent is None and hint is not None:
            other = plateau.branch(history, champion.id, self.config.plateau, self.spent)
            parent = self.ledger.experiment(other.id) if other else None
            hint = replace(hint, branched=parent is not None)
        return ProposalRequest(
            experiment=experiment,
            task=task,
            gpu=self.gpu,
            model=self.model,
            champion=champion,
            champion_source=self.ledger.blob(champion.source_sha).decode(),
            history=tuple(history),
            ideas=ideas,
            seed=self.config.seed,
            trials=self.config.trials,
            device_kind=self.kind,
            workloads=tuple(dict(workload) for workload in workloads),
            champion_facts=self.facts(champion),
            parent=parent,
            parent_source=self.ledger.blob(parent.source_sha).decode()
            if parent and parent.source_sha
            else "",
            plateau=hint,
            used_ideas=self._used_ideas(history),
            answers=self._answers(history),
        )

    def _used_ideas(self, history: Sequence[PastExperiment]) -> tuple[IdeaRow, ...]:
        numbers = {past.id for past in history}
        used = [idea for idea in self.ledger.ideas() if not idea.waiting and numbers & set(idea.used_by)]
        return tuple(sorted((idea for idea in used if not idea.withdrawn), key=lambda idea: idea.used_by))

    def _answers(self, history: Sequence[PastExperiment]) -> tuple[AskedRow, ...]:
        numbers = {past.id for past in history}
        asked = self.ledger.agent_questions(waiting=False)
        return tuple(row for row in asked if row.answer and row.experiment in numbers)

    def next_task(self, tasks: Iterable[str], explored: Collection[str] = ()) -> str:
        """The task of the first experiment that a person wants to start from, else the one with the fewest
        experiments that is not explored."""
        counts = dict.fromkeys(tasks, 0)
        for _, row in self.starts():
            if row.task in counts:
                return row.task
        for row in self.ledger.experiments():
            if row.task in counts and row.parent is not None:
                counts[row.task] += 1
        return min((name for name in counts if name not in explored), key=lambda name: counts[name])

    def starts(self) -> list[tuple[IdeaRow, ExperimentRow]]:
        """What people want to start from, in their order, with the experiments meant."""
        found = []
        for idea in self.ledger.waiting_ideas():
            if idea.scope == "from" and idea.from_experiment not in self.spent:
                row = self.ledger.experiment(idea.from_experiment or 0)
                if row is not None and row.source_sha:
                    found.append((idea, row))
        return found

    def _said_start(
        self, task: TaskSpec, champion: ExperimentRow
    ) -> tuple[ExperimentRow | None, tuple[IdeaRow, ...]]:
        """Where people want this proposal to start from (None: the champion), and all that it should heed.

        What is said from another experiment waits for a proposal that starts there.
        """
        start = next((row for _, row in self.starts() if row.task == task.name), None)
        at = start.id if start is not None else None
        ideas = tuple(
            idea
            for idea in self.ledger.waiting_ideas()
            if idea.scope != "from" or (at is not None and idea.from_experiment == at)
        )
        return (None if at == champion.id else start), ideas

    def facts(self, row: ExperimentRow) -> ChampionFacts:
        """What was recorded about an experiment's candidate."""
        return recorded_facts(self.ledger, row)

    def history(self, task: TaskSpec, exclude: int | None = None) -> list[PastExperiment]:
        """The task's experiments, oldest first."""
        return [
            self._remembered(row, task.entry)
            for row in self.ledger.experiments(task=task.name)
            if row.id != exclude
        ]

    def _remembered(self, row: ExperimentRow, entry: str) -> PastExperiment:
        known = self._past.get(row.id)
        if known is not None and known[0] == row:
            return known[1]
        past = PastExperiment(
            id=row.id,
            task=row.task,
            parent=row.parent,
            status=row.status,
            lever=row.lever,
            description=row.description,
            source_sha=row.source_sha,
            canonical_sha=self._canonical(row.source_sha, entry) if row.source_sha else "",
            score_vs_parent=row.score.get("champion"),
            trials=tuple(self.ledger.trials(row.id)),
            proposer=row.proposer,
            hypothesis=row.hypothesis,
            prediction=row.prediction,
            reasons=row.reasons,
            score=row.score,
            score_kind=row.score_kind,
            ideas=row.ideas,
        )
        self._past[row.id] = (row, past)
        return past

    def _canonical(self, source_sha: str, entry: str) -> str:
        known = self._canonicals.get(source_sha)
        if known is None:
            try:
                known = parse(self.ledger.blob(source_sha).decode(), entry).canonical_sha
            except CandidateInvalid:  # an older version took it
                known = ""
            self._canonicals[source_sha] = known
        return known


def recorded_facts(ledger: Ledger, row: ExperimentRow) -> ChampionFacts:
    """What was recorded about an experiment's candidate as it stands: compiled kernels, times, ceilings."""
    launches: tuple[Launch, ...] = ()
    screened: dict[str, Any] = {}
    for record in ledger.records(experiment=row.id):
        event = record.event
        if isinstance(event, Screened) and event.source_sha == row.source_sha:
            launches = event.launches
        if isinstance(event, GateFinished) and event.gate == "screen":
            screened = event.facts if event.source_sha == row.source_sha else screened
    speed = ledger.speed(row.id)
    measured = speed is not None and speed.kind == "measured"
    return ChampionFacts(
        launches=launches,
        speed=speed,
        parts=dict(screened.get("parts") or {}),
        flops=dict(screened.get("flops") or {}),
        moved_bytes=dict(screened.get("moved_bytes") or {}),
        roofs=dict(ledger.view().environment.get("roofs") or {}) if measured else {},
    )
