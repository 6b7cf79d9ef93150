"""Judging a kept win again: the same gates, fresh seeds, and the rival that it had to beat.

It is judged on the device that the caller gives, which need not be the one that it was kept on. What was
measured counts as proven again only where it is measured again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from kernel_lab.engine.errors import CandidateInvalid, EnvironmentProblem, UsageError
from kernel_lab.engine.events import (
    ChampionChanged,
    ExperimentFinished,
    LabCreated,
    SpeedJudged,
    StatusRevised,
)
from kernel_lab.engine.facts import Check, Reason, ScoreKind, Speed
from kernel_lab.engine.judge import verdict
from kernel_lab.engine.judge.cases import frozen_seed
from kernel_lab.engine.judge.judge import GateResult, Judge
from kernel_lab.engine.receipt import Receipt

Outcome = Literal["survives", "falls", "unproven"]


@dataclass(frozen=True, slots=True)
class KeptWin:
    """A win as it was recorded. `rival` is the champion that it beat, `kind` how that was found."""

    experiment: int
    task: str
    gpu: str
    model: str
    status: str
    """Its verdict as it stands: `keep`, or what became of it later."""
    source: str
    rival: str
    kind: ScoreKind
    gain: float | None
    """Recorded ratio against the rival."""


def win_of(receipt: Receipt) -> KeptWin:
    """What a receipt says was kept. Raises UsageError where its events do not say it."""
    number = receipt.experiment
    created, finished = receipt.last(LabCreated), receipt.last(ExperimentFinished, experiment=number)
    kept, judged = (
        receipt.last(ChampionChanged, experiment=number),
        receipt.last(SpeedJudged, experiment=number),
    )
    revised = receipt.last(StatusRevised, experiment=number)
    beaten = receipt.last(ExperimentFinished, experiment=kept.previous)
    source = receipt.texts.get(str(finished.source_sha))
    rival = receipt.texts.get(str(beaten.source_sha)) if beaten is not None else source
    names = (kept.task, created.gpu, created.model, finished.status)
    if source is None or rival is None or not all(isinstance(name, str) for name in names):
        raise UsageError(
            f"the receipt of #{number} does not name what was kept: make it anew with `show --receipt`"
        )
    speed = judged.speed if judged is not None and isinstance(judged.speed, Speed) else None
    gain = speed.score.get("champion") if speed is not None and isinstance(speed.score, dict) else None
    return KeptWin(
        experiment=number,
        task=kept.task,
        gpu=created.gpu,
        model=created.model,
        status=str(revised.status if revised is not None else finished.status),
        source=source,
        rival=rival,
        kind="measured" if speed is not None and speed.kind == "measured" else "estimated",
        gain=gain if isinstance(gain, float) else None,
    )


@dataclass(frozen=True, slots=True)
class Rejudged:
    """What became of a win. `speed` is judged here, against `champion` (the rival), `seed` and `fa2`."""

    experiment: int
    task: str
    outcome: Outcome
    reasons: tuple[Reason, ...]
    checks: tuple[Check, ...]
    speed: Speed | None
    recorded: float | None
    seed: int
    gates: tuple[GateResult, ...] = ()

    @property
    def checks_passed(self) -> int:
        return sum(check.status == "pass" for check in self.checks)


async def rejudge(
    judge: Judge, win: KeptWin, seed: int, on_check: Callable[[Check], None] | None = None
) -> Rejudged:
    """Every gate and the keep rule. `falls` where one fails, `unproven` where one could not decide."""
    gates: list[GateResult] = []
    open_questions: list[Reason] = []
    speed: Speed | None = None

    def answer(outcome: Outcome, reasons: tuple[Reason, ...]) -> Rejudged:
        checks = tuple(check for gate in gates for check in gate.checks)
        return Rejudged(
            win.experiment, win.task, outcome, reasons, checks, speed, win.gain, seed, tuple(gates)
        )

    def stops(gate: GateResult) -> bool:
        gates.append(gate)
        if gate.status == "error":
            why = gate.reasons[0].detail if gate.reasons else "the host gave no answer"
            raise EnvironmentProblem(
                f"nothing could be judged ({why}): `kernel-lab doctor` says what is wrong here"
            )
        if gate.status == "held":
            open_questions.extend(gate.reasons)
        return not gate.passed and gate.status != "held"

    if stops(lint := judge.lint(win.source)):
        return answer("falls", lint.reasons)
    screen, screening = await judge.screen(win.source)
    if stops(screen):
        return answer("falls", screen.reasons)
    seed = frozen_seed(seed, judge.parse(win.source).sha)
    for step in (judge.correctness, judge.integrity, judge.confirm):
        if stops(gate := await step(win.source, seed, on_check)):
            return answer("falls", gate.reasons)
    others = {"champion": win.rival, "seed": judge.task.seed_source}
    if judge.measured:
        race, speed = await judge.race("speed", win.source, others, screening, frozen_seed(seed, "speed"))
        if stops(race):
            return answer("falls", race.reasons)
    else:
        times = await _times(judge, others)
        if isinstance(times, GateResult):
            return answer("unproven", times.reasons)
        speed = judge.speed(screening, times)
        decision = verdict.decide_estimated(speed)
        if stops(GateResult("speed", decision.status == "keep", _asked(decision.status), decision.reasons)):
            return answer("falls", decision.reasons)
        if win.kind == "measured":
            why = f"it was measured on a card; here its speed is only estimated for {judge.device.gpu.title}"
            open_questions.append(Reason("speed", "device", why))
    return answer("unproven" if open_questions else "survives", tuple(open_questions))


def _asked(status: str) -> str | None:
    return None if status == "keep" else status


async def _times(judge: Judge, others: dict[str, str]) -> dict[str, Any] | GateResult:
    """Estimated times of the rivals; the gate of one that does not compile here."""
    found: dict[str, Any] = {}
    for name, source in others.items():
        try:
            gate, screening = await judge.screen(source)
        except CandidateInvalid as error:
            return GateResult("speed", False, "held", (Reason("speed", name, str(error)),))
        if not gate.passed:
            why = tuple(Reason("speed", name, f"does not compile here: {r.detail}") for r in gate.reasons)
            return GateResult("speed", False, "held", why)
        found[name] = screening.time_us
    return found
