"""Everything known about one experiment, folded from its events. Pure: no I/O, no drawing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from kernel_lab.engine import events as e
from kernel_lab.engine.facts import Check, Launch, Reason, Speed
from kernel_lab.tui.narrator import remeasured
from kernel_lab.tui.output import who

GATE_ORDER = ("scope", "lint", "screen", "quick", "trials", "correctness", "integrity", "speed", "confirm")


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that happened. `time` is seconds since the epoch, `level` good, bad, warn or plain."""

    time: float
    what: str
    text: str
    level: str = "plain"


@dataclass(slots=True)
class Detail:
    """One experiment as its events tell it. `source_sha` is the newest text of the candidate."""

    experiment: int
    task: str = ""
    parent: int | None = None
    proposer: str = ""
    started: float = 0.0
    finished: float | None = None
    status: str = "running"
    proposed: e.Proposed | None = None
    source_sha: str | None = None
    reasons: tuple[Reason, ...] = ()
    checks: dict[tuple[str, str, str], Check] = field(default_factory=dict)
    gates: dict[str, e.GateFinished] = field(default_factory=dict)
    launches: tuple[Launch, ...] = ()
    trials: list[e.TrialFinished] = field(default_factory=list)
    changed: dict[str, dict[str, object]] = field(default_factory=dict)
    speed: Speed | None = None
    asked: e.ApprovalRequested | None = None
    """The open question, None once it is answered."""
    said: str = ""
    """What an agent said on its way to the proposal."""
    steps: list[Step] = field(default_factory=list)
    verdicts: list[Step] = field(default_factory=list)
    """Those of the steps that decided something: verdicts, answers, revisions, judgings again."""

    def apply(self, time: float, event: e.Event | None) -> None:
        """Take one more event in, in the ledger's order; events of other experiments are not for here."""
        match event:
            case e.ExperimentStarted():
                self.task, self.parent, self.proposer = event.task, event.parent, event.proposer
                self.started = time
                origin = "" if event.parent is None else f" from #{event.parent}"
                self._step(time, "started", f"by {who(event.proposer)}{origin}")
            case e.Proposed():
                self.proposed, self.source_sha = event, event.source_sha
                self._step(time, "proposed", f"turns {event.lever}")
            case e.AgentSaid():
                self.said = event.text
            case e.Spent():
                cost = "price unknown" if event.usd is None else f"{event.usd:.3f} USD"
                tokens = event.input_tokens + event.cached_tokens + event.cache_write_tokens
                words = f"{event.model}: {tokens:,} tokens read, {event.output_tokens:,} written, {cost}"
                self._step(time, "asked a model", words)
            case e.Refused():
                self.reasons = (event.reason,)
                self._step(time, "refused", event.reason.detail, "bad")
            case e.Checked():
                check = event.check
                self.checks[check.gate, check.case, check.probe] = check
            case e.GateFinished():
                self._gate(time, event)
            case e.Screened():
                self.launches, self.source_sha = event.launches, event.source_sha
            case e.ApprovalRequested():
                self.asked = event
                self._step(time, f"asked ({event.kind})", event.reason, "warn")
            case e.Decided():
                self.asked = None
                if event.decision == "edit":
                    self.source_sha = event.source_sha
                    self.checks.clear()
                    self.gates.clear()
                level = "bad" if event.decision == "reject" else "good"
                self._verdict(time, f"{event.decision} by {who(event.by)}", event.why, level)
            case e.TrialFinished():
                self.trials.append(event)
            case e.TrialsSettled():
                self.source_sha = event.source_sha
                self.changed = dict(event.changed)
                ok = sum(trial.status == "ok" for trial in self.trials)
                self._step(
                    time, "trials", f"{len(self.trials)} tried, {ok} ran; changed {_named(event.changed)}"
                )
            case e.SpeedJudged():
                self.speed = event.speed
            case e.ExperimentFinished():
                self.status, self.finished = event.status, time
                self.reasons = event.reasons or self.reasons
                self.source_sha = event.source_sha or self.source_sha
                why = event.reasons[0].detail if event.reasons else ""
                self._verdict(time, event.status, why, _level(event.status))
            case e.ChampionChanged():
                previous = "" if event.previous is None else f" after #{event.previous}"
                self._step(time, "champion", f"of {event.task}{previous}", "good")
            case e.StatusRevised():
                self.status = event.status
                if event.status != "held":
                    self.asked = None
                said = f"{event.category}: {event.why}" if event.category != "other" else event.why
                self._verdict(time, f"{event.status} by {who(event.by)}", said, _level(event.status))
            case e.RemeasureRequested():
                self._step(time, f"again, by {who(event.by)}", event.why)
            case e.Remeasured():
                level = "good" if event.outcome == "survives" else "warn"
                self._verdict(time, "judged again", remeasured(event), level)
            case e.IdeaUsed():
                self._step(time, "idea", f"answers idea {event.idea}")
            case e.Notice():
                self._step(time, event.level, event.text, "warn")
            case _:
                pass

    def _gate(self, time: float, event: e.GateFinished) -> None:
        self.gates[event.gate] = event
        level = "good" if event.passed else "warn" if event.status in ("discard", "held") else "bad"
        text = "; ".join(reason.detail for reason in event.reasons) or (
            "passed" if event.passed else "failed"
        )
        self._step(time, event.gate, f"{text} ({event.seconds:.1f} s)", level)

    def _step(self, time: float, what: str, text: str, level: str = "plain") -> None:
        self.steps.append(Step(time, what, text, level))

    def _verdict(self, time: float, what: str, text: str, level: str) -> None:
        self._step(time, what, text, level)
        self.verdicts.append(self.steps[-1])

    @property
    def running(self) -> bool:
        return self.finished is None

    def gate_state(self, gate: str) -> str:
        """`pass`, `fail`, `running`, or empty for a gate that has not begun."""
        if gate in self.gates:
            return "pass" if self.gates[gate].passed else "fail"
        if gate == "trials" and self.changed:
            return "pass"
        begun = (gate == "trials" and bool(self.trials)) or any(key[0] == gate for key in self.checks)
        return "running" if begun and self.running else ""


def fold(experiment: int, records: Iterable[tuple[float, e.Event | None]]) -> Detail:
    """The detail of one experiment from its (time, event) pairs in order."""
    detail = Detail(experiment)
    for time, event in records:
        detail.apply(time, event)
    return detail


def _level(status: str) -> str:
    if status in ("keep", "seed"):
        return "good"
    return "warn" if status in ("held", "discard", "rejected", "interrupted", "vetoed") else "bad"


def _named(changed: dict[str, dict[str, object]]) -> str:
    if not changed:
        return "nothing"
    return "; ".join(
        f"{bucket}: " + " ".join(f"{name}={value}" for name, value in values.items())
        for bucket, values in changed.items()
    )
