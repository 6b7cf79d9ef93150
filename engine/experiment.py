"""One experiment from its proposal to its verdict, step by recorded step.

    propose → lint → screen → quick check → (person) → trials → correctness → integrity → speed
            → confirmation → (person) → keep | discard | held | …

Each step is recorded as it ends, so that an engine that was killed resumes behind the last one.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from kernel_lab.engine import lineage
from kernel_lab.engine.candidate import Candidate
from kernel_lab.engine.control import Control
from kernel_lab.engine.errors import CandidateInvalid, ProposerError
from kernel_lab.engine.events import (
    AgentSaid,
    ApprovalRequested,
    ChampionChanged,
    Decided,
    Event,
    ExperimentFinished,
    ExperimentStarted,
    GateFinished,
    IdeaUsed,
    Proposed,
    Refused,
    Screened,
    SpeedJudged,
)
from kernel_lab.engine.facts import Reason
from kernel_lab.engine.judge import verdict
from kernel_lab.engine.judge.cases import frozen_seed
from kernel_lab.engine.judge.judge import GateResult, Judge
from kernel_lab.engine.judge.static import Screening
from kernel_lab.engine.proposers.base import (
    Elsewhere,
    Ended,
    Exhausted,
    PastExperiment,
    Proposal,
    ProposalRequest,
    Proposer,
    Refusal,
)
from kernel_lab.engine.settle import TrialRound
from kernel_lab.engine.steps import Steps

Proof = Literal["correctness", "integrity", "confirm"]
PROOFS: tuple[Proof, ...] = ("correctness", "integrity", "confirm")

ITSELF = "itself"
"""The seed races against itself too: the offset between equal kernels on this card."""
WORTH_MEASURING = 0.9
"""A candidate whose estimate is below this share of the champion's speed is not put on the card."""

OUTPUT_LIMIT = 4_000
"""Characters of a candidate's own output that go into the ledger; the whole lies in runs/N."""


SAY_S = 0.05
"""A streamed text is shown at most so often."""

TRANSCRIPT_LIMIT = 20_000
"""Characters of what a proposer said on its way that go into the ledger, from the end."""


@dataclass(frozen=True, slots=True)
class Champion:
    """The candidate to beat."""

    experiment: int
    candidate: Candidate
    time_us: dict[str, float]


class Turned(Exception):
    """A gate turned the candidate down."""

    def __init__(self, status: str, reasons: tuple[Reason, ...]) -> None:
        super().__init__(status)
        self.status = status
        self.reasons = reasons


class Experiment:
    """Runs one experiment. `run` returns its verdict, or why nothing was proposed for this task."""

    def __init__(
        self,
        steps: Steps,
        judge: Judge,
        control: Control,
        champion: Champion,
        seed: Champion,
        known: Mapping[str, int],
        *,
        lab_seed: int,
        trials: int,
        now: Callable[..., None],
    ) -> None:
        self.steps = steps
        self.judge = judge
        self.control = control
        self.champion = champion
        self.seed = seed
        self.known = known
        self.lab_seed = lab_seed
        self.trials = trials
        self.now = now
        self.id = steps.experiment
        self.holds: dict[Reason, None] = {}

    async def run(
        self, proposer: Proposer, request: ProposalRequest, started: ExperimentStarted
    ) -> ExperimentFinished | Exhausted | Elsewhere | Ended:
        """Every step in order; the verdict is recorded before it is returned."""
        proposed = await self._propose(proposer, request, started)
        if isinstance(proposed, Exhausted | Elsewhere | Ended):
            return proposed
        source_sha: str | None = None
        try:
            if isinstance(proposed, Refused):
                raise Turned("invalid", (proposed.reason,))
            source_sha = proposed.source_sha
            source = await self._admit(proposed)
            source_sha = self.judge.parse(source).sha
            source, status, reasons = await self._judge(proposed, source, request.history)
            source_sha = self.judge.parse(source).sha
        except Turned as turned:
            status, reasons = turned.status, turned.reasons
        return self._finish(status, reasons, source_sha)

    async def judge_seed(self, source: str) -> None:
        """A seed passes every gate but the keep rule, or Turned is raised."""
        await self._early_gates(source)
        screening = await self._screen(source)
        for gate in PROOFS:
            await self._prove(gate, source)
        if self.judge.measured:
            await self._race("speed", source, {ITSELF: source}, screening)
        elif self.steps.find(SpeedJudged) is None:
            others = {"champion": screening.time_us, "seed": screening.time_us}
            self.steps.record(SpeedJudged(self.id, self.judge.speed(screening, others)))

    async def _propose(
        self, proposer: Proposer, request: ProposalRequest, started: ExperimentStarted
    ) -> Proposed | Refused | Exhausted | Elsewhere | Ended:
        recorded = self.steps.find(Proposed) or self.steps.find(Refused)
        if recorded is not None:
            return recorded
        self.now(phase="propose", text="")
        said = _Saying(lambda text: self.now(phase="propose", text=text))
        try:
            answer = await proposer.propose(request, said)
        except ProposerError as error:
            answer = Refusal(Reason("scope", "proposer", str(error)))
        said.show()
        if isinstance(answer, Exhausted | Elsewhere | Ended):
            return answer
        if answer.proposer:
            started = replace(started, proposer=answer.proposer)
        if isinstance(answer, Refusal):
            refused = Refused(self.id, answer.reason)
            self.steps.record(started, *self._transcript(answer.transcript), refused)
            return refused
        return self._record_proposal(answer, request, started)

    def _transcript(self, text: str) -> list[Event]:
        return [AgentSaid(self.id, text[-TRANSCRIPT_LIMIT:])] if text else []

    def _record_proposal(
        self, proposal: Proposal, request: ProposalRequest, started: ExperimentStarted
    ) -> Proposed | Refused:
        try:
            source_bytes = proposal.source.encode()
            candidate = self.judge.parse(proposal.source)
        except (CandidateInvalid, UnicodeEncodeError) as error:
            refused = Refused(self.id, Reason("scope", "candidate", str(error)))
            self.steps.record(started, *self._transcript(proposal.transcript), refused)
            return refused
        # Starting where a person said is heeding them, whoever proposes.
        obeyed = [idea.id for idea in request.ideas if idea.from_experiment == request.start.id]
        obeyed = obeyed if started.submission is None else []
        # What was said in other words since goes on waiting: those words were not heard.
        now = {idea.id: idea.text for idea in self.steps.ledger.ideas() if not idea.withdrawn}
        changed = {idea.id for idea in request.ideas if now.get(idea.id) != idea.text}
        ideas = tuple(n for n in dict.fromkeys([*proposal.ideas, *obeyed]) if n not in changed)
        event = Proposed(
            experiment=self.id,
            source_sha=candidate.sha,
            description=proposal.description,
            hypothesis=proposal.hypothesis,
            prediction=proposal.prediction,
            lever=proposal.lever,
            trial_space={bucket: dict(space) for bucket, space in proposal.trial_space.items()},
            ideas=ideas,
        )
        used: list[Event] = [IdeaUsed(idea, self.id) for idea in ideas]
        said = self._transcript(proposal.transcript)
        self.steps.record(started, *said, event, *used, blobs=[source_bytes])
        return event

    async def _admit(self, proposed: Proposed) -> str:
        """Gates before a person sees it, then the person (mode ask). Returns the text that was let in."""
        source = self._source(proposed.source_sha)
        first = self.known.get(self.judge.parse(source).canonical_sha)
        if first is not None and not proposed.trial_space:
            raise Turned("discard", (Reason("scope", "repeat", f"the same code as #{first}"),))
        await self._early_gates(source)
        decided = self.steps.find(Decided, kind="proposal")
        started = self.steps.find(ExperimentStarted)
        own = started is not None and started.submission is not None  # handing it in was the yes
        if decided is None and self.control.mode == "ask" and not own:
            if self.steps.find(ApprovalRequested, kind="proposal") is None:
                asked = ApprovalRequested(self.id, "proposal", proposed.source_sha, "mode ask")
                self.steps.record(asked)
            self.now(phase="approval")
            decided = await self.control.decision(self.id, "proposal")
            self.steps.seen(decided)
        if decided is None or decided.decision == "approve":
            return source
        if decided.decision == "reject":
            raise Turned("rejected", (Reason("person", "reject", decided.why),))
        source = self._source(decided.source_sha)
        await self._early_gates(source)
        return source

    async def _early_gates(self, source: str) -> None:
        sha = self.judge.parse(source).sha
        self._gate(self._recorded("lint", sha) or self.judge.lint(source), sha)
        await self._screen(source)
        recorded = self._recorded("quick", sha)
        if recorded is None:
            self.now(phase="quick check")
            seed = frozen_seed(self.lab_seed, self.id, sha)
            recorded = await _judged(lambda: self.judge.quick(source, seed, self.steps.check_recorder(sha)))
        self._gate(recorded, sha)

    async def _judge(
        self, proposed: Proposed, source: str, history: Sequence[PastExperiment]
    ) -> tuple[str, str, tuple[Reason, ...]]:
        screening = await self._screen(source)
        if proposed.trial_space:
            source, reasons = await self._settle(proposed, source, screening, history)
            if reasons:
                return source, "discard", reasons
            screening = await self._screen(source)
        if self.judge.measured:
            return await self._judge_measured(source, screening)
        others = {"champion": self.champion.time_us, "seed": self.seed.time_us}
        speed = self.judge.speed(screening, others)
        decision = verdict.decide_estimated(speed)
        judged = SpeedJudged(self.id, speed)
        if decision.status != "discard":
            for gate in PROOFS[:2]:
                await self._prove(gate, source)
        if self.steps.find(SpeedJudged) is None:
            self.steps.record(judged)
        self._gate_once("speed", decision.status == "keep", decision.status, decision.reasons, source)
        if decision.status == "discard":
            return source, "discard", decision.reasons
        await self._prove("confirm", source)
        if decision.status == "held" or self.holds:
            return source, "held", (*self.holds, *decision.reasons)
        rejected = await self._ask_to_keep(source)
        return (source, "rejected", rejected) if rejected else (source, "keep", decision.reasons)

    async def _judge_measured(self, source: str, screening: Screening) -> tuple[str, str, tuple[Reason, ...]]:
        """On a card estimates only say what is not worth measuring; the confirmed race decides."""
        ratios = self.judge.speed(screening, {"champion": self.champion.time_us}).score
        if ratios["champion"] < WORTH_MEASURING:
            detail = f"estimated {ratios['champion']:.2f} × the champion: not worth measuring"
            return source, "discard", (Reason("speed", "estimate", detail),)
        for gate in PROOFS[:2]:
            await self._prove(gate, source)
        others = {"champion": self.champion.candidate.source, "seed": self.seed.candidate.source}
        reasons = await self._race("speed", source, others, screening)
        await self._prove("confirm", source)
        reasons = await self._race("speed_again", source, others, screening) or reasons
        if self.holds:
            return source, "held", (*self.holds, *reasons)
        rejected = await self._ask_to_keep(source)
        return (source, "rejected", rejected) if rejected else (source, "keep", reasons)

    async def _race(
        self, gate: str, source: str, others: dict[str, str], screening: Screening
    ) -> tuple[Reason, ...]:
        """Measure once, record speed and gate; Turned where the keep rule says so."""
        sha = self.judge.parse(source).sha
        result = self._recorded(gate, sha)
        if result is None:
            self.now(phase=gate)
            seed = frozen_seed(self.lab_seed, self.id, sha, gate)
            result, speed = await self.judge.race(gate, source, others, screening, seed)
            for check in result.checks:
                self.steps.check_recorder(sha)(check)
            if speed is not None:
                self.steps.record(SpeedJudged(self.id, speed))
        self._gate(result, sha)
        return result.reasons

    async def _settle(
        self, proposed: Proposed, source: str, screening: Screening, history: Sequence[PastExperiment]
    ) -> tuple[str, tuple[Reason, ...]]:
        def on_trial(number: int, bucket: str) -> None:
            self.now(phase="trials", trial=number, trials=self.trials, bucket=bucket)

        round_ = TrialRound(
            self.steps,
            self.judge,
            proposed,
            self.judge.parse(source),
            self.champion.candidate,
            self.champion.time_us,
            screening.time_us,
            history=history,
            seed=frozen_seed(self.lab_seed, self.id, proposed.source_sha),
            budget=self.trials,
            on_trial=on_trial,
        )
        settled = await round_.run()
        return settled.source, settled.reasons

    async def _prove(self, gate: Proof, source: str) -> None:
        sha = self.judge.parse(source).sha
        result = self._recorded(gate, sha)
        if result is None:
            self.now(phase=gate)
            seed = frozen_seed(self.lab_seed, self.id, sha)
            step = {
                "correctness": self.judge.correctness,
                "integrity": self.judge.integrity,
                "confirm": self.judge.confirm,
            }[gate]
            result = await _judged(lambda: step(source, seed, self.steps.check_recorder(sha)))
        self._gate(result, sha)

    async def _ask_to_keep(self, source: str) -> tuple[Reason, ...]:
        """Empty if the win may be kept."""
        decided = self.steps.find(Decided, kind="keep")
        if decided is None and self.control.mode in ("wins", "ask"):
            if self.steps.find(ApprovalRequested, kind="keep") is None:
                speed = self.steps.all(SpeedJudged)[-1].speed
                gain = speed.score["champion"]
                reason = f"a win of {gain:.3f} × the champion ({speed.kind}): keep #{self.id}?"
                sha = self.judge.parse(source).sha
                self.steps.record(ApprovalRequested(self.id, "keep", sha, reason))
            self.now(phase="approval")
            decided = await self.control.decision(self.id, "keep")
            self.steps.seen(decided)
        if decided is not None and decided.decision == "reject":
            return (Reason("person", "reject", decided.why),)
        return ()

    async def _screen(self, source: str) -> Screening:
        """Compile, record once. The host answers repeats from its cache, so a resumed step costs little."""
        sha = self.judge.parse(source).sha
        recorded = self._recorded("screen", sha)
        if recorded is not None and not recorded.passed:
            self._gate(recorded, sha)
        self.now(phase="screen")
        gate, screening = await self.judge.screen(source)
        if gate.passed and self.steps.find(Screened, source_sha=sha) is None:
            self.steps.record(Screened(self.id, sha, screening.launches, screening.time_us))
        self._gate(recorded or gate, sha)
        return screening

    def _recorded(self, gate: str, sha: str) -> GateResult | None:
        """How a gate ended. Where the judge's own processes failed, nothing is known: it is judged again."""
        for event in self.steps.all(GateFinished):
            if (event.gate, event.source_sha) == (gate, sha) and event.status != "error":
                return GateResult(
                    gate, event.passed, event.status, event.reasons, (), event.facts, event.seconds
                )
        return None

    def _gate(self, result: GateResult, sha: str) -> None:
        """Record a gate once and stop at one that failed; one that could not prove everything is a hold."""
        if self._recorded(result.gate, sha) is None:
            facts = dict(result.facts)
            if "output" in facts:
                facts["output"] = str(facts["output"])[-OUTPUT_LIMIT:]
            self.steps.record(
                GateFinished(
                    self.id,
                    result.gate,
                    result.passed,
                    result.status,
                    result.reasons,
                    facts,
                    result.seconds,
                    sha,
                )
            )
        if result.status == "held":
            self.holds.update(dict.fromkeys(result.reasons))
        elif not result.passed:
            raise Turned(result.status or "crash", result.reasons)

    def _gate_once(
        self, gate: str, passed: bool, status: str, reasons: tuple[Reason, ...], source: str
    ) -> None:
        sha = self.judge.parse(source).sha
        if self.steps.find(GateFinished, gate=gate, source_sha=sha) is None:
            asked = None if passed else status
            self.steps.record(GateFinished(self.id, gate, passed, asked, reasons, {}, 0.0, sha))

    def _finish(self, status: str, reasons: tuple[Reason, ...], source_sha: str | None) -> ExperimentFinished:
        task = self.judge.task.name
        previous = self.steps.ledger.champions().get(task, self.champion.experiment)
        if status == "keep":
            status, reasons = self._still_a_win(previous, reasons)
        finished = ExperimentFinished(self.id, status, reasons, source_sha)
        events: list[Event] = [finished]
        if status == "keep":
            why = reasons[0].detail if reasons else ""
            events.append(ChampionChanged(task, self.id, previous, why))
        if status == "held" and source_sha:
            events.append(
                ApprovalRequested(self.id, "hold", source_sha, reasons[0].detail if reasons else "")
            )
        self.steps.record(*events)
        return finished

    def _still_a_win(self, champion: int, reasons: tuple[Reason, ...]) -> tuple[str, tuple[Reason, ...]]:
        """What a win is where people vetoed what it is built on, or kept another champion, meanwhile."""
        ledger = self.steps.ledger
        vetoed = lineage.vetoed_ancestor(ledger, self.id)
        if vetoed is not None:
            why = vetoed.reasons[-1].detail if vetoed.reasons else ""
            return "held", (Reason("person", "veto", f"built on #{vetoed.id}, which was vetoed: {why}"),)
        if champion != self.champion.experiment:
            ratio = lineage.faster_than(ledger, self.id, champion)
            if ratio is not None and ratio <= 1.0:
                detail = f"the champion is #{champion} now, and this is {ratio:.3f} × as fast"
                return "discard", (Reason("speed", "moved", detail),)
        return "keep", reasons

    def _source(self, sha: str) -> str:
        return self.steps.ledger.blob(sha).decode()


class _Saying:
    """What a proposer says, shown as it grows, but not for every piece."""

    def __init__(self, show: Callable[[str], None]) -> None:
        self._show = show
        self._pieces: list[str] = []
        self._shown_at = 0.0

    def __call__(self, piece: str) -> None:
        self._pieces.append(piece)
        if time.monotonic() - self._shown_at >= SAY_S:
            self.show()

    def show(self) -> None:
        text = "".join(self._pieces)[-TRANSCRIPT_LIMIT:]
        if text:
            self._pieces = [text]
            self._shown_at = time.monotonic()
            self._show(text)


async def _judged(step: Callable[[], Awaitable[GateResult]]) -> GateResult:
    """A gate's result; where the judge's own processes failed (`error`), that of a second go."""
    result = await step()
    return await step() if result.status == "error" else result
