"""Trials: one setting of a candidate's tunables after the other, so that no idea is lost to a bad tile.

Each bucket has a search of its own over the tunables that the proposal names. Two trials run at a time;
asking and telling keep the order of the trial numbers, so the same seed gives the same trials, also when a
killed engine resumes in the middle.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kernel_lab.engine.candidate import Candidate, values_for, with_config
from kernel_lab.engine.events import Proposed, TrialFinished, TrialsSettled
from kernel_lab.engine.facts import Reason
from kernel_lab.engine.judge.cases import frozen_seed
from kernel_lab.engine.judge.judge import Judge
from kernel_lab.engine.judge.verdict import geometric_mean
from kernel_lab.engine.proposers.base import PastExperiment
from kernel_lab.engine.proposers.settler import Settler, past_trials
from kernel_lab.engine.steps import Steps

TRIALS_AT_ONCE = 2

_TRIAL_STATUS = {"ok": "ok", "oom": "oom", "timeout": "timeout", "crash": "crash"}


@dataclass(frozen=True, slots=True)
class Settled:
    """What the trials led to: the candidate's text with the best values, or why there is none."""

    source: str
    source_sha: str
    tried: int
    reasons: tuple[Reason, ...]


class TrialRound:
    """The trials of one experiment."""

    def __init__(
        self,
        steps: Steps,
        judge: Judge,
        proposed: Proposed,
        candidate: Candidate,
        parent: Candidate,
        parent_us: Mapping[str, float],
        proposed_us: Mapping[str, float],
        *,
        history: Sequence[PastExperiment],
        seed: int,
        budget: int,
        on_trial: Callable[[int, str], None],
    ) -> None:
        self.steps = steps
        self.judge = judge
        self.candidate = candidate
        self.parent = parent
        self.parent_us = parent_us
        self.proposed_us = proposed_us
        self.budget = budget
        self.on_trial = on_trial
        self.space = _ordered(proposed.trial_space, candidate, judge)
        # A search edits nothing but CONFIG: then the parent's own values are a setting of this candidate too.
        self.same_code = with_config(candidate, parent.config) == with_config(parent, parent.config)
        self.settlers = {
            bucket: Settler(
                seed=frozen_seed(seed, bucket) % 2**32,
                space=space,
                parent_values={**values_for(candidate, bucket)},
                warm_start=past_trials(history, bucket),
            )
            for bucket, space in self.space.items()
        }

    async def run(self) -> Settled:
        """Spend the budget, then write the best values of each bucket into CONFIG."""
        done = 0
        best: dict[str, tuple[float, dict[str, Any]]] = {}
        for bucket in self.space:
            best[bucket] = (self._ratio(bucket, self.proposed_us), values_for(self.candidate, bucket))
            self.settlers[bucket].tell(best[bucket][1], best[bucket][0])
            if self.same_code and best[bucket][0] < 1.0:
                best[bucket] = (1.0, values_for(self.parent, bucket))
        order = list(self.space)
        while order and done < self.budget:
            asked: list[tuple[int, str, dict[str, Any]]] = []
            for _ in range(min(TRIALS_AT_ONCE, self.budget - done)):
                while order:
                    bucket = order.pop(0)
                    values = self.settlers[bucket].ask()
                    if values is not None:
                        order.append(bucket)
                        done += 1
                        asked.append((done, bucket, values))
                        break
            for trial in await asyncio.gather(*(self._trial(*one) for one in asked)):
                if self.steps.find(TrialFinished, trial=trial.trial) is None:
                    self.steps.record(trial)
                self.settlers[trial.bucket].tell(trial.values, trial.vs_parent)
                if trial.vs_parent is not None and trial.vs_parent > best[trial.bucket][0]:
                    best[trial.bucket] = (
                        trial.vs_parent,
                        {**values_for(self.candidate, trial.bucket), **trial.values},
                    )
        return self._settle(best, done)

    def _ratio(self, bucket: str, time_us: Mapping[str, float]) -> float:
        workloads = self.judge.workloads_of([bucket])
        weights = {w["id"]: float(w["weight"]) for w in workloads}
        return geometric_mean({name: self.parent_us[name] / time_us[name] for name in weights}, weights)

    def _config(self, bucket: str, values: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        config = {name: dict(row) for name, row in self.candidate.config.items()}
        config[bucket] = {**values_for(self.candidate, bucket), **values}
        return config

    async def _trial(self, number: int, bucket: str, values: dict[str, Any]) -> TrialFinished:
        recorded = self.steps.find(TrialFinished, trial=number)
        if recorded is not None:
            return recorded
        self.on_trial(number, bucket)
        source = with_config(self.candidate, self._config(bucket, values))
        gate, screening = await self.judge.screen(source, self.judge.workloads_of([bucket]))
        if not gate.passed:
            status: Any = _TRIAL_STATUS.get(screening.outcome, "compile_error")
            return TrialFinished(
                self.steps.experiment, number, bucket, values, status, None, {}, screening.detail[:300]
            )
        times = screening.time_us
        return TrialFinished(
            self.steps.experiment, number, bucket, values, "ok", self._ratio(bucket, times), dict(times)
        )

    def _settle(self, best: Mapping[str, tuple[float, dict[str, Any]]], tried: int) -> Settled:
        default = self.candidate.config.get("*", {})
        config = {name: dict(row) for name, row in self.candidate.config.items()}
        changed: dict[str, dict[str, Any]] = {}
        for bucket, (_, values) in best.items():
            before = values_for(self.parent, bucket) if self.same_code else values_for(self.candidate, bucket)
            difference = {key: value for key, value in values.items() if before.get(key) != value}
            if difference:
                changed[bucket] = difference
            row = {key: value for key, value in values.items() if default.get(key) != value}
            if row:
                config[bucket] = row
            else:
                config.pop(bucket, None)
        source = with_config(self.candidate, config)
        settled = self.judge.parse(source)
        if self.steps.find(TrialsSettled) is None:
            event = TrialsSettled(self.steps.experiment, settled.sha, changed)
            self.steps.record(event, blobs=[source.encode()])
        reasons: tuple[Reason, ...] = ()
        if self.same_code and not changed:
            reasons = (Reason("trials", "no_gain", _no_gain(tried)),)
        return Settled(source, settled.sha, tried, reasons)


def _ordered(
    trial_space: Mapping[str, Mapping[str, Sequence[Any]]], candidate: Candidate, judge: Judge
) -> dict[str, dict[str, Sequence[Any]]]:
    """Buckets with workloads, the heaviest first, and their tunables as SPACE has them.

    A ledger keeps no order of keys, and an experiment that is resumed must try the same settings.
    """
    weight = {
        bucket: sum(float(workload["weight"]) for workload in judge.workloads_of([bucket]))
        for bucket in trial_space
    }
    at = {name: number for number, name in enumerate(candidate.space)}
    return {
        bucket: {
            name: trial_space[bucket][name]
            for name in sorted(trial_space[bucket], key=lambda name: (at.get(name, len(at)), name))
        }
        for bucket in sorted(trial_space, key=lambda bucket: (-weight[bucket], bucket))
        if weight[bucket] > 0
    }


def _no_gain(tried: int) -> str:
    others = f", nor with {tried} other settings" if tried else ""
    return f"not faster than the champion in any bucket as proposed{others}"
