"""Requests to proposers, made from the ledger alone: the loop and `kernel-lab context` ask the same one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kernel_lab.engine.candidate import parse
from kernel_lab.engine.errors import UsageError
from kernel_lab.engine.events import GateFinished, Screened
from kernel_lab.engine.facts import ScoreKind
from kernel_lab.engine.lab_config import LabConfig
from kernel_lab.engine.ledger.store import Ledger
from kernel_lab.engine.ledger.views import ExperimentRow
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
        self._canonicals: dict[str, str] = {}
        self._past: dict[int, tuple[ExperimentRow, PastExperiment]] = {}

    def make(
        self, task: TaskSpec, experiment: int, champion: ExperimentRow, workloads: Sequence[Mapping[str, Any]]
    ) -> ProposalRequest:
        """The request for `experiment` while `champion` is the one to beat."""
        if not champion.source_sha:
            raise UsageError(f"#{champion.id} has no text: the ledger is damaged; run `kernel-lab doctor`")
        return ProposalRequest(
            experiment=experiment,
            task=task,
            gpu=self.gpu,
            model=self.model,
            champion=champion,
            champion_source=self.ledger.blob(champion.source_sha).decode(),
            history=tuple(self.history(task, exclude=experiment)),
            ideas=tuple(idea for idea in self.ledger.ideas() if idea.waiting),
            seed=self.config.seed,
            trials=self.config.trials,
            device_kind=self.kind,
            workloads=tuple(dict(workload) for workload in workloads),
            champion_facts=self.facts(champion),
        )

    def facts(self, row: ExperimentRow) -> ChampionFacts:
        """What was recorded about an experiment's candidate."""
        launches: tuple[Any, ...] = ()
        parts: dict[str, dict[str, Any]] = {}
        for record in self.ledger.records(experiment=row.id):
            event = record.event
            if isinstance(event, Screened) and event.source_sha == row.source_sha:
                launches = event.launches
            if isinstance(event, GateFinished) and (event.gate, event.source_sha) == (
                "screen",
                row.source_sha,
            ):
                parts = dict(event.facts.get("parts") or {})
        return ChampionFacts(launches, self.ledger.speed(row.id), parts)

    def history(self, task: TaskSpec, exclude: int) -> list[PastExperiment]:
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
            source = self.ledger.blob(source_sha).decode()
            known = self._canonicals[source_sha] = parse(source, entry).canonical_sha
        return known
