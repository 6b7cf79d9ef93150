"""Events as lines for a person who follows a lab without a screen: what happens, in the order it happens."""

from __future__ import annotations

from kernel_lab.engine import events as e
from kernel_lab.engine.facts import Reason, Speed
from kernel_lab.engine.ledger.records import Record
from kernel_lab.engine.ledger.views import provisional
from kernel_lab.tui.output import clean, ratio, who


class Narrator:
    """Tells events; keeps in mind what it has to say later with a verdict."""

    def __init__(self) -> None:
        self._speed: dict[int, Speed] = {}
        self._checks: dict[int, list[str]] = {}
        self._trials: dict[int, int] = {}

    def lines(self, record: Record) -> list[str]:
        """Lines about one event: none for what is only of interest in detail."""
        return [clean(line) for line in self._lines(record.event)]

    def _lines(self, event: e.Event | None) -> list[str]:
        match event:
            case e.LabCreated():
                return _lab(event)
            case e.EngineStarted():
                return [f"engine started · kernel-lab {event.version}"]
            case e.EngineStopped():
                return [f"engine stopped ({event.reason}): {event.text}"]
            case e.ModeChanged():
                return [f"mode {event.mode}, by {who(event.by)}"]
            case e.Paused():
                return [f"paused by {who(event.by)}" + (f": {event.why}" if event.why else "")]
            case e.Resumed():
                return [f"resumed by {who(event.by)}"]
            case e.Notice():
                return [f"{event.level}: {event.text}"]
            case e.SelftestJudged():
                return [_selftest(event)]
            case e.SpaceExplored():
                return [f"{event.task}: {event.text}"]
            case e.IdeaSaid():
                return [f"idea {event.idea} from {who(event.by)}: {event.text}"]
            case e.IdeaUsed():
                return [f"idea {event.idea} is used by #{event.experiment}"]
            case e.Submitted():
                return [f"a candidate for {event.task} is handed in by {who(event.by)}: {event.description}"]
            case e.IdeaEdited():
                return [f"idea {event.idea} from {who(event.by)} says now: {event.text}"]
            case e.IdeaMoved():
                order = ", ".join(map(str, event.order))
                return [f"ideas are heeded in the order {order}, by {who(event.by)}"]
            case e.PlateauReached():
                return [f"plateau: {event.text}"]
            case e.Asked():
                ask = f"the agent asks (question {event.question}, {event.timeout_s:.0f} s): {event.text}"
                return [f"#{event.experiment}   needs you: {ask} → kernel-lab answer {event.question} …"]
            case e.Answered():
                words = event.text or "no answer"
                return [f"#{event.experiment}   question {event.question}, {event.by}: {words}"]
            case e.IdeaWithdrawn():
                return [f"idea {event.idea} is withdrawn by {who(event.by)}"]
            case e.ChampionChanged():
                was = "" if event.previous is None else f" (was #{event.previous})"
                return [f"#{event.experiment} is the champion of {event.task}{was}"]
            case _:
                return self._experiment(event)

    def _experiment(self, event: e.Event | None) -> list[str]:
        match event:
            case e.ExperimentStarted():
                origin = "seed" if event.parent is None else f"from #{event.parent}, by {who(event.proposer)}"
                return [f"#{event.experiment} {event.task} · {origin}"]
            case e.Proposed():
                return [f"#{event.experiment}   {event.description}"]
            case e.Refused():
                return [f"#{event.experiment}   no candidate: {_reason(event.reason)}"]
            case e.Screened():
                return [f"#{event.experiment}   {_compiled(event)}"]
            case e.Checked():
                self._checks.setdefault(event.experiment, []).append(event.check.status)
                return []
            case e.GateFinished():
                return self._gate(event)
            case e.TrialFinished():
                self._trials[event.experiment] = self._trials.get(event.experiment, 0) + 1
                return []
            case e.TrialsSettled():
                return [f"#{event.experiment}   {self._settled(event)}"]
            case e.SpeedJudged():
                self._speed[event.experiment] = event.speed
                return []
            case e.ApprovalRequested():
                number, reason = event.experiment, event.reason
                answers = f"kernel-lab approve {number}, or reject {number} --why …"
                if event.kind == "plateau":
                    return [f'#{number}   needs you: kernel-lab say "…", or approve {number} to go on']
                return [f"#{number}   needs you ({event.kind}): {reason} → {answers}"]
            case e.Decided():
                why = f": {event.why}" if event.why else ""
                return [f"#{event.experiment}   {event.decision} by {who(event.by)}{why}"]
            case e.ExperimentFinished():
                return self._verdict(event)
            case e.RemeasureRequested():
                why = f": {event.why}" if event.why else ""
                return [f"#{event.experiment}   to be judged again, asked by {event.by}{why}"]
            case e.Remeasured():
                return [f"#{event.experiment}   judged again: {remeasured(event)}"]
            case e.StatusRevised():
                return [f"#{event.experiment}   {event.status} by {who(event.by)}: {event.why}"]
            case _:
                return []

    def _gate(self, event: e.GateFinished) -> list[str]:
        checks = self._checks.pop(event.experiment, [])
        if not event.passed or not checks:
            return []
        unproven = checks.count("unproven")
        rest = f", {unproven} unproven here" if unproven else ""
        passed = checks.count("pass")
        word = "check passes" if passed == 1 else "checks pass"
        return [f"#{event.experiment}   {event.gate}: {passed} {word}{rest}"]

    def _settled(self, event: e.TrialsSettled) -> str:
        tried = self._trials.pop(event.experiment, 0)
        values = "; ".join(
            f"{bucket}: {', '.join(f'{name}={value}' for name, value in settings.items())}"
            for bucket, settings in event.changed.items()
        )
        trials = "" if not tried else "1 trial: " if tried == 1 else f"{tried} trials: "
        return f"{trials}{values or 'no better setting than as proposed'}"

    def _verdict(self, event: e.ExperimentFinished) -> list[str]:
        number = event.experiment
        self._checks.pop(number, None)
        self._trials.pop(number, None)
        speed = self._speed.pop(number, None)
        score = ""
        if speed is not None:
            parts = [f"{ratio(speed.score.get(key), speed.kind)} {name}" for key, name in _SHOWN.items()]
            score = f" · {' · '.join(parts)}" + (" (estimated)" if speed.kind == "estimated" else "")
        why = f" · {_reason(event.reasons[0])}" if event.reasons else ""
        return [f"#{number} {event.status}{score}{why}"]


_SHOWN = {"champion": "champion", "seed": "seed", "fa2": "FA2"}


def _lab(event: e.LabCreated) -> list[str]:
    about = "static: speeds are estimates" if event.device_kind == "static" else "measured"
    first = f"lab {event.lab} · {event.gpu} ({about}) · {event.model} · {', '.join(event.tasks)}"
    return [first, *(f"left out: {line}" for line in event.left_out)]


def _compiled(event: e.Screened) -> str:
    if not event.launches:
        return "compiled: no launches"
    registers = max(launch.registers for launch in event.launches)
    shared = max(launch.smem_bytes for launch in event.launches)
    spills = sum(launch.spill_bytes for launch in event.launches)
    kernels = len({launch.kernel for launch in event.launches})
    spilled = f", {spills:,} B spilled" if spills else ""
    word = "kernel" if kernels == 1 else "kernels"
    return (
        f"compiled: {kernels} {word}, up to {registers} registers and {shared:,} B of shared memory{spilled}"
    )


def _selftest(event: e.SelftestJudged) -> str:
    why = provisional(event)
    missed = f" (wrong: {', '.join(event.missed)})" if event.missed else ""
    line = f"judge: {event.line or 'tried against cheats'}{missed}"
    return f"{line}; wins are kept provisionally: {why}" if why else line


def remeasured(event: e.Remeasured) -> str:
    """What came of judging an experiment again, in one line."""
    gain = "" if event.gain is None else f", {ratio(event.gain)} #{event.against}"
    why = f": {_reason(event.reasons[0])}" if event.reasons else ""
    return f"{event.outcome}{gain}{why}"


def _reason(reason: Reason) -> str:
    return f"{who(reason.gate)} {reason.probe}: {reason.detail}"
