"""The gates of one task on one device, each a function from a candidate's text to a GateResult.

The loop records every gate as it ends; `check_candidate` runs them all at once for the command line. The
judge decides on facts that the host answers and never runs a candidate itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, cast

from kernel_lab.engine import fa2
from kernel_lab.engine.candidate import Candidate, parse
from kernel_lab.engine.errors import CandidateInvalid
from kernel_lab.engine.facts import Check, Launch, Reason, Speed
from kernel_lab.engine.judge import verdict
from kernel_lab.engine.judge.cases import (
    frozen_seed,
    hidden_cases,
    in_dtypes,
    long_cases,
    model_cases,
    sampled_cases,
    seeded_cases,
)
from kernel_lab.engine.judge.lint import lint, lint_verdict
from kernel_lab.engine.judge.measured import MeasuredDevice
from kernel_lab.engine.judge.race import THRESHOLD, RaceScore, decide_measured, disturbed
from kernel_lab.engine.judge.static import Screening, StaticDevice
from kernel_lab.engine.judge.veto_probe import VetoProbe, look
from kernel_lab.engine.tasks import TaskSpec

HIDDEN_CASES = 4
QUICK_CASES = 2
ROUNDS_WITHOUT_RIVAL = 15
PROBED_CASES = 2


@dataclass(frozen=True, slots=True)
class GateResult:
    """How a gate ended. `status` is the verdict that a failed gate asks for."""

    gate: str
    passed: bool
    status: str | None = None
    reasons: tuple[Reason, ...] = ()
    checks: tuple[Check, ...] = ()
    facts: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class CheckReport:
    """What `kernel-lab check` prints: every gate but the keep rule."""

    verdict: str
    reasons: tuple[Reason, ...]
    checks: tuple[Check, ...]
    launches: tuple[Launch, ...]
    speed: Speed | None
    environment: dict[str, Any]


OnCheck = Callable[[Check], None] | None


class Judge:
    """Gates for one task. `workloads` is the lab's matrix; times of FA2 come from the GPU's profile."""

    def __init__(self, device: StaticDevice, task: TaskSpec, workloads: Sequence[Mapping[str, Any]]) -> None:
        self.device = device
        self.task = task
        self.workloads = [dict(workload) for workload in workloads]
        self.threshold = THRESHOLD
        """What a measured win must surely be above: more on a card whose equal kernels differ."""
        self.veto_probes: tuple[VetoProbe, ...] = ()
        """What people named when they vetoed wins: no candidate may fit them."""
        self.fa2_us = {w["id"]: fa2.fa2_time_us(device.gpu, w) for w in self.workloads}

    def workloads_of(self, buckets: Sequence[str]) -> list[dict[str, Any]]:
        """The workloads that fall into these buckets."""
        return [workload for workload in self.workloads if workload["bucket"] in buckets]

    def parse(self, source: str) -> Candidate:
        """The candidate, or CandidateInvalid."""
        return parse(source, self.task.entry)

    def lint(self, source: str) -> GateResult:
        """Scope and lint: is it one candidate file that uses only what it may?"""
        started = time.monotonic()
        try:
            self.parse(source)
        except CandidateInvalid as error:
            reason = Reason("scope", "candidate", str(error))
            return GateResult("lint", False, "invalid", (reason,), seconds=time.monotonic() - started)
        vetoed = look(self.veto_probes, source)
        reasons = (*vetoed, *lint(source, self.task.entry))
        status = "cheat" if vetoed else lint_verdict(reasons) if reasons else None
        return GateResult("lint", not reasons, status, reasons, seconds=time.monotonic() - started)

    async def screen(
        self, source: str, workloads: Sequence[Mapping[str, Any]] | None = None
    ) -> tuple[GateResult, Screening]:
        """Compile for the device: what does not compile or fit is refused before anything runs."""
        started = time.monotonic()
        screening = await self.device.screen(self.task, source, workloads or self.workloads)
        seconds = time.monotonic() - started
        if screening.outcome != "ok":
            reason = Reason("screen", screening.outcome, screening.detail)
            output = {"output": screening.output}
            gate = GateResult("screen", False, screening.outcome, (reason,), facts=output, seconds=seconds)
            return gate, screening
        facts: dict[str, Any] = {
            "flops": screening.flops,
            "moved_bytes": screening.moved_bytes,
            "parts": screening.parts,
        }
        return GateResult("screen", True, facts=facts, seconds=seconds), screening

    async def quick(self, source: str, seed: int, on_check: OnCheck = None) -> GateResult:
        """A few edge cases without probes: people see only what passes this."""
        cases = self._cases(self.task.static_cases, frozen_seed(seed, "quick"))[:QUICK_CASES]
        return await self._run("quick", source, cases, seed, probes=False, on_check=on_check)

    async def correctness(self, source: str, seed: int, on_check: OnCheck = None) -> GateResult:
        """Every edge case and hidden shapes, against float64 beside an FA2-like computation.

        On a card also every timed shape, in the dtype it is timed in; without one the heads of the timed
        shapes over few keys, and for each timed shape a few programs of its real launch.
        """
        gate_seed = frozen_seed(seed, "correctness")
        narrow = [] if self.measured else [*long_cases(self.workloads), *model_cases(self.workloads)]
        cases = self._cases([*self.task.static_cases, *self._hidden(gate_seed), *narrow], gate_seed)
        if self.measured:
            cases += seeded_cases(self.workloads, self.task.name, gate_seed)
        else:
            cases += sampled_cases(self.workloads, self.task.name, gate_seed)
        return await self._run("correctness", source, cases, gate_seed, probes=False, on_check=on_check)

    async def integrity(
        self,
        source: str,
        seed: int,
        on_check: OnCheck = None,
        *,
        among: Sequence[Mapping[str, Any]] | None = None,
    ) -> GateResult:
        """Probes for caches, aliases, mutation, library calls and other ways to look right, on some cases
        `among` the task's static ones, or these.

        Without a card the timed shapes do not run: only what is launched for them is compared.
        """
        gate_seed = frozen_seed(seed, "integrity")
        cases = self._cases(among or self.task.static_cases, gate_seed)[:PROBED_CASES]
        if not self.measured:
            timed = seeded_cases(self.workloads, self.task.name, gate_seed)
            cases += [{**case, "shape_only": True} for case in timed]
        return await self._run("integrity", source, cases, gate_seed, probes=True, on_check=on_check)

    async def confirm(self, source: str, seed: int, on_check: OnCheck = None) -> GateResult:
        """New processes, new seeds and new hidden shapes, before a keep counts."""
        gate_seed = frozen_seed(seed, "confirm")
        cases = self._cases(self._hidden(gate_seed), gate_seed)
        return await self._run("confirm", source, cases, gate_seed, probes=False, on_check=on_check)

    @property
    def measured(self) -> bool:
        """Whether speeds are measured on a card."""
        return isinstance(self.device, MeasuredDevice)

    def _hidden(self, seed: int) -> list[dict[str, Any]]:
        interpreted = not self.measured
        return hidden_cases(self.task.hidden, self.task.name, seed, HIDDEN_CASES, interpreted=interpreted)

    def _cases(self, cases: Sequence[Mapping[str, Any]], seed: int) -> list[dict[str, Any]]:
        return seeded_cases(in_dtypes(cases, self.device.dtypes, seed), self.task.name, seed)

    async def _run(
        self,
        gate: str,
        source: str,
        cases: Sequence[Mapping[str, Any]],
        seed: int,
        *,
        probes: bool,
        on_check: OnCheck,
    ) -> GateResult:
        started = time.monotonic()
        result = await self.device.check(
            self.task, source, gate, cases, seed=seed, probes=probes, on_check=on_check
        )
        status, reasons = verdict.judge_checks(gate, result.outcome, result.detail, result.checks)
        facts: dict[str, Any] = {"seed": seed, "shapes": {case["case"]: _shape(case) for case in cases}}
        if result.output:
            facts["output"] = result.output
        seconds = time.monotonic() - started
        return GateResult(gate, status is None, status, reasons, result.checks, facts, seconds)

    def speed(self, screening: Screening, others_us: Mapping[str, Mapping[str, float]]) -> Speed:
        """Estimated speed against FA2's figures and every other set of times."""
        return verdict.score_speed(
            "estimated",
            self.workloads,
            screening.time_us,
            {"fa2": self.fa2_us, **others_us},
            screening.parts,
            screening.flops,
            screening.moved_bytes,
        )

    async def race(
        self, gate: str, source: str, others: Mapping[str, str], screening: Screening, seed: int
    ) -> tuple[GateResult, Speed | None]:
        """Measured speed against `others` (name to text) and FA2, ended once the champion's case is clear.

        A text that stands under two names races once.
        The gate fails with `discard` or `held` where the keep rule says so, and with the verdict of a
        contestant that answered wrongly or cheated while it was timed.
        """
        device = cast(MeasuredDevice, self.device)
        started = time.monotonic()
        champion = others.get("champion")
        same = [name for name, text in others.items() if name != "champion" and text == champion]
        contestants = {"candidate": source, **{n: text for n, text in others.items() if n not in same}}
        settled = partial(RaceScore.settled, threshold=self.threshold) if champion else _enough
        async with device.quiet:
            race = await device.race(self.task, contestants, self.workloads, seed, settled)
            if disturbed(race.facts):
                again = frozen_seed(seed, "disturbed")
                race = await device.race(self.task, contestants, self.workloads, again, settled)
        status, reasons = verdict.judge_checks(gate, race.outcome, race.detail, race.checks)
        seconds = time.monotonic() - started
        kept = ("rounds", "clocks", "launches", "agree")
        facts: dict[str, Any] = {"seed": seed, **{k: race.facts[k] for k in kept if k in race.facts}}
        if status is not None:
            return GateResult(gate, False, status, reasons, race.checks, facts, seconds), None
        speed = race.score.speed(screening.flops, screening.moved_bytes, device.roofs)
        for name in same:
            speed = renamed(speed, {"champion": ("champion", name)})
        if disturbed(race.facts):
            reasons = (Reason("speed", "other_program", "another program came to the card in both races"),)
            return GateResult(gate, False, "held", reasons, race.checks, facts, seconds), speed
        if champion is None:
            return GateResult(gate, True, None, (), race.checks, facts, seconds), speed
        decision = decide_measured(speed, self.threshold)
        asked = None if decision.status == "keep" else decision.status
        return GateResult(gate, asked is None, asked, decision.reasons, race.checks, facts, seconds), speed


def _shape(case: Mapping[str, Any]) -> str:
    """A case in one line, for whoever reads a receipt: `B1 Hq2 Hkv1 Sq20 Sk100 D64 fp16 normal`."""
    sizes = [f"{name}{case[name]}" for name in ("B", "Hq", "Hkv", "Sq", "Sk", "D") if name in case]
    words = [str(case[name]) for name in ("dtype", "layout", "distribution") if name in case]
    return " ".join([*sizes, *words, *(["causal"] if case.get("causal") else [])])


def renamed(speed: Speed, names: Mapping[str, tuple[str, ...]]) -> Speed:
    """The same speed with what stands under one name put under others."""

    def moved(values: Mapping[str, Any]) -> dict[str, Any]:
        return {new: value for old, value in values.items() for new in names.get(old, (old,))}

    rows = tuple(replace(row, vs=moved(row.vs), ci=moved(row.ci)) for row in speed.per_workload)
    return replace(speed, score=moved(speed.score), ci=moved(speed.ci), per_workload=rows)


def _enough(score: RaceScore) -> bool:
    """When a race that decides nothing has enough rounds."""
    return score.rounds >= ROUNDS_WITHOUT_RIVAL


async def check_candidate(judge: Judge, source: str, seed: int, on_check: OnCheck = None) -> CheckReport:
    """Every gate but the keep rule, in the loop's order; stops at the first that fails."""
    environment = await judge.device.environment()
    checks: list[Check] = []
    launches: tuple[Launch, ...] = ()

    def report(gate: GateResult, speed: Speed | None = None) -> CheckReport:
        return CheckReport(gate.status or "pass", gate.reasons, tuple(checks), launches, speed, environment)

    gate = judge.lint(source)
    if not gate.passed:
        return report(gate)
    gate, screening = await judge.screen(source)
    launches = screening.launches
    if not gate.passed:
        return report(gate)
    seed = frozen_seed(seed, judge.parse(source).sha)
    for step in (judge.correctness, judge.integrity, judge.confirm):
        gate = await step(source, seed, on_check)
        checks.extend(gate.checks)
        if not gate.passed:
            return report(gate)
    if judge.measured:
        others = {"champion": judge.task.seed_source}
        gate, measured = await judge.race("speed", source, others, screening, frozen_seed(seed, "speed"))
        checks.extend(gate.checks)
        turned = gate if gate.status not in (None, "discard") else GateResult("speed", True)
        return report(turned, measured and renamed(measured, {"champion": ("seed",)}))
    seed_screening = (await judge.screen(judge.task.seed_source))[1]
    speed = judge.speed(screening, {"seed": seed_screening.time_us})
    above = verdict.decide_estimated(judge.speed(screening, {"champion": seed_screening.time_us}))
    if above.status == "held":
        return report(GateResult("speed", False, "held", above.reasons), speed)
    return report(gate, speed)


async def bench_candidate(judge: Judge, source: str) -> tuple[GateResult, Speed | None, Screening]:
    """Speed alone, against FA2 and the seed; None if the candidate does not compile for the device."""
    gate, screening = await judge.screen(source)
    if not gate.passed:
        return gate, None, screening
    if judge.measured:
        await judge.device.environment()
        others = {"champion": judge.task.seed_source}
        race, measured = await judge.race("speed", source, others, screening, frozen_seed(0, source))
        turned = race if race.status not in (None, "discard") else gate
        return turned, measured and renamed(measured, {"champion": ("seed",)}), screening
    seed_screening = (await judge.screen(judge.task.seed_source))[1]
    return gate, judge.speed(screening, {"seed": seed_screening.time_us}), screening
