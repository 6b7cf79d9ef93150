"""What the lab answers to a proposer at work: facts about a draft, earlier experiments, what people say.

It decides nothing and records only what was used and asked. On a card it waits for the card: nothing is
compiled or run beside a timed block.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from kernel_lab.engine.bottleneck import bottlenecks, describe
from kernel_lab.engine.control import Control
from kernel_lab.engine.errors import UsageError
from kernel_lab.engine.events import (
    Answered,
    Asked,
    Decided,
    GateFinished,
    IdeaEdited,
    IdeaSaid,
    Spent,
    StatusRevised,
)
from kernel_lab.engine.facts import Launch, Reason, Speed
from kernel_lab.engine.judge.cases import frozen_seed
from kernel_lab.engine.judge.judge import GateResult, Judge
from kernel_lab.engine.ledger.store import Ledger
from kernel_lab.engine.ledger.views import ExperimentRow, Spending
from kernel_lab.engine.proposers.base import ChampionFacts, Finding, Heard

TRIALS_SHOWN = 12
OUTPUT_SHOWN = 3_000


class LabBench:
    """The bench for one proposal. `champion_us`: workload to the champion's time."""

    def __init__(
        self,
        ledger: Ledger,
        judge: Judge,
        control: Control,
        *,
        experiment: int,
        champion_us: Mapping[str, float],
        lab_seed: int,
    ) -> None:
        self.ledger = ledger
        self.judge = judge
        self.control = control
        self.number = experiment
        self.champion_us = champion_us
        self.lab_seed = lab_seed
        self._heard_to = ledger.last_seq()
        self._close_old_questions()

    # ---- the candidate

    async def compile(self, source: str) -> Finding:
        """Lint, then compile for the device: resources, spills, estimate against the champion."""
        linted = self.judge.lint(source)
        if not linted.passed:
            return Finding(False, _turned(linted))
        async with self.judge.device.quiet:
            gate, screening = await self.judge.screen(source)
        if not gate.passed:
            return Finding(False, _turned(gate))
        speed = self.judge.speed(screening, {"champion": self.champion_us})
        facts = ChampionFacts(
            screening.launches, speed, screening.parts, screening.flops, screening.moved_bytes
        )
        limits = describe(bottlenecks(facts, self.judge.workloads))
        return Finding(True, "\n".join([*_launch_lines(screening.launches), *_speed_lines(speed), limits]))

    async def check(self, source: str) -> Finding:
        """A few cases of correctness, as before a person sees a proposal."""
        linted = self.judge.lint(source)
        if not linted.passed:
            return Finding(False, _turned(linted))
        seed = frozen_seed(self.lab_seed, self.number, self.judge.parse(source).sha)
        async with self.judge.device.quiet:
            gate = await self.judge.quick(source, seed)
        lines = [
            f"{check.status}: {check.case} {check.probe}"
            + (
                f", error {check.error:.2e} of {check.limit:.2e}"
                if check.error is not None and check.limit
                else ""
            )
            + (f", {check.detail}" if check.detail and check.status != "pass" else "")
            for check in gate.checks
        ]
        return Finding(gate.passed, "\n".join(lines) if gate.passed else "\n".join([_turned(gate), *lines]))

    # ---- what is known

    def experiment(self, number: int) -> str:
        """Everything known about an earlier experiment."""
        row = self._row(number)
        lines = [
            f"#{row.id} {row.task}, from {'the seed' if row.parent is None else f'#{row.parent}'}, "
            f"by {row.proposer}: {row.status}",
            f"tried: {row.description}",
            f"because: {row.hypothesis}",
            *(f"{reason.gate} {reason.probe}: {reason.detail}" for reason in row.reasons),
        ]
        lines += [f"{row.score_kind} ratio to {name}: {ratio:.4f}" for name, ratio in row.score.items()]
        for trial in self.ledger.trials(number)[:TRIALS_SHOWN]:
            ratio = "" if trial.vs_parent is None else f" {trial.vs_parent:.4f} × the parent"
            values = ", ".join(f"{name}={value}" for name, value in trial.values.items())
            lines.append(f"trial {trial.bucket} {values}: {trial.status}{ratio} {trial.detail}".rstrip())
        for record in self.ledger.records(experiment=number):
            if isinstance(record.event, GateFinished) and record.event.facts.get("output"):
                lines += [
                    f"output of {record.event.gate}:",
                    str(record.event.facts["output"])[-OUTPUT_SHOWN:],
                ]
        return "\n".join(lines)

    def source(self, number: int) -> str:
        """The candidate of an earlier experiment of this task."""
        row = self._row(number)
        if row.task != self.judge.task.name or not row.source_sha:
            raise UsageError(f"#{number} has no candidate of {self.judge.task.name}: choose another")
        return self.ledger.blob(row.source_sha).decode()

    def _row(self, number: int) -> ExperimentRow:
        row = self.ledger.experiment(number)
        if row is None:
            raise UsageError(f"there is no experiment #{number}: the digest lists those that there are")
        return row

    # ---- people

    async def ask(self, question: str, timeout_s: float) -> str | None:
        """The answer of a person; None if nobody gives one in time."""
        number = max((row.id for row in self.ledger.agent_questions(waiting=False)), default=0) + 1
        answer = self.control.question(number)
        self.ledger.append([Asked(self.number, number, question, timeout_s)])
        try:
            event = await asyncio.wait_for(asyncio.shield(answer), timeout_s)
        except TimeoutError:
            self.ledger.append([Answered(self.number, number, "", "nobody in time")])
            return None
        finally:
            self.control.forget(number)
        return event.text or None

    def heard(self) -> Sequence[Heard]:
        """What people said since the request was made, each thing once.

        What is to start from another experiment is no news for a proposal that is under way: it waits.
        """
        waiting = {idea.id: idea for idea in self.ledger.ideas() if idea.waiting and idea.scope != "from"}
        heard: list[Heard] = []
        for record in self.ledger.records(after=self._heard_to):
            self._heard_to = record.seq
            match record.event:
                case IdeaSaid(idea=idea, scope=scope) if idea in waiting:
                    heard.append(Heard(idea, f"idea {idea}, for {scope}: {waiting[idea].text}"))
                case IdeaEdited(idea=idea, text=text) if idea in waiting:
                    heard.append(Heard(idea, f"idea {idea} says now: {text}"))
                case StatusRevised(experiment=number, status=status, why=why):
                    heard.append(Heard(None, f"#{number} is {status}: {why}"))
                case Decided(experiment=number, decision="reject", why=why):
                    heard.append(Heard(None, f"#{number} is rejected: {why}"))
        return heard

    def _close_old_questions(self) -> None:
        """Nobody waits any more for what an engine that was killed had asked."""
        old = [row for row in self.ledger.agent_questions() if not self.control.asks(row.id)]
        if old:
            self.ledger.append(
                [Answered(row.experiment, row.id, "", "the engine started again") for row in old]
            )
            self._heard_to = self.ledger.last_seq()

    # ---- the books

    def spend(self, spent: Spent) -> None:
        self.ledger.append([spent])

    def spending(self) -> Spending:
        return self.ledger.spending()


def _turned(gate: GateResult) -> str:
    lines = [f"{gate.status}: {_reason(reason)}" for reason in gate.reasons] or [str(gate.status)]
    output = gate.facts.get("output")
    return "\n".join([*lines, str(output)[-OUTPUT_SHOWN:]] if output else lines)


def _reason(reason: Reason) -> str:
    return f"{reason.gate} {reason.probe}: {reason.detail}"


def _launch_lines(launches: Sequence[Launch]) -> list[str]:
    """One line for each kernel in each form that it was compiled to."""
    lines: dict[str, list[str]] = {}
    for launch in launches:
        spilled = f", {launch.spill_bytes:,} B spilled" if launch.spill_bytes else ""
        line = (
            f"kernel {launch.kernel}: {launch.num_warps} warps, {launch.registers} registers{spilled}, "
            f"{launch.smem_bytes:,} B shared memory, {launch.ctas_per_sm} CTAs per SM, "
            f"occupancy {launch.occupancy:.0%}, {launch.tensor_cores or 'no tensor cores'}"
        )
        lines.setdefault(line, []).append(launch.workload)
    return [f"{line} [{', '.join(workloads)}]" for line, workloads in lines.items()]


def _speed_lines(speed: Speed) -> list[str]:
    lines = [f"{speed.kind} speed: {ratio:.4f} × {name}" for name, ratio in speed.score.items()]
    for row in speed.per_workload:
        against = ", ".join(f"{ratio:.3f} × {name}" for name, ratio in row.vs.items())
        lines.append(
            f"{row.workload} ({row.bucket}, weight {row.weight:.2f}): {row.time_us:.1f} us, "
            f"{row.roof_percent:.0f} % of the roof, bound by {row.bound}; {against}"
        )
    return lines
