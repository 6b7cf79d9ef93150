"""What people ask of a running lab: commands in, decisions and modes out.

Commands are rows in the ledger. Each is obeyed once, in the very transaction that records its effect, and
gets one line of answer. A running experiment waits here for a person's decision.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any, Literal, TypeVar

from kernel_lab.engine import commands as c
from kernel_lab.engine import lineage
from kernel_lab.engine.candidate import parse
from kernel_lab.engine.errors import LabError, UsageError
from kernel_lab.engine.events import (
    Answered,
    Decided,
    Event,
    IdeaEdited,
    IdeaMoved,
    IdeaSaid,
    IdeaWithdrawn,
    ModeChanged,
    Paused,
    RemeasureRequested,
    Resumed,
    StatusRevised,
    Submitted,
)
from kernel_lab.engine.facts import MODES
from kernel_lab.engine.judge.veto_probe import lines_of, parse_pattern
from kernel_lab.engine.ledger.store import Ledger
from kernel_lab.engine.ledger.views import OpenQuestion

POLL_S = 0.1
DESCRIPTION_LIMIT = 300
"""Characters of the sentence that says what a candidate tries."""

IDEA_LIMIT = 20_000
"""Characters of one idea: a page or five, not a file."""

R = TypeVar("R")
Outcome = tuple[str, list[Event], list[bytes]]


def check_command(ledger: Ledger, entry_of: Callable[[str], str], command: c.Command) -> None:
    """Raise LabError, with the engine's own words, for a command that it would refuse as the lab stands."""
    Control(ledger, entry_of, ledger.view().mode).outcome(command, "person")


class Control:
    """Obeys commands and answers the loop's questions about mode, pause and decisions."""

    def __init__(self, ledger: Ledger, entry_of: Callable[[str], str], mode: str) -> None:
        self.ledger = ledger
        self.entry_of = entry_of
        self.mode = mode
        self.paused = ledger.view().paused
        self.stopping: Literal["", "after", "now"] = ""
        self.running: int | None = None
        """The experiment that `kill` would end."""
        self.kill = asyncio.Event()
        self.stop_now = asyncio.Event()
        self.changed = asyncio.Event()
        self.handed_in = asyncio.Event()
        """Set when a candidate was handed in, or something is to be judged again."""
        self._waiting: dict[tuple[int, str], asyncio.Future[Decided]] = {}
        self._asked: dict[int, asyncio.Future[Answered]] = {}

    async def serve(self) -> None:
        """Obey commands until cancelled."""
        while True:
            self.obey_all()
            await asyncio.sleep(POLL_S)

    def obey_all(self) -> None:
        """Obey every command that waits."""
        for command in self.ledger.pending_commands():
            self.obey(command.id, command.command, command.by)

    async def decision(self, experiment: int, kind: str) -> Decided:
        """Wait until a person has answered the open question about `experiment`."""
        future: asyncio.Future[Decided] = asyncio.get_running_loop().create_future()
        self._waiting[experiment, kind] = future
        try:
            return await future
        finally:
            self._waiting.pop((experiment, kind), None)

    async def killable(self, experiment: int, work: Coroutine[Any, Any, R]) -> R | None:
        """What the work gives, or None once a person has ended it with `kill`."""
        running = asyncio.create_task(work)
        killing = asyncio.create_task(self.kill.wait())
        self.running = experiment
        try:
            await asyncio.wait({running, killing}, return_when=asyncio.FIRST_COMPLETED)
            if running.done():
                return running.result()
            running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await running
            return None
        finally:
            self.running = None
            self.kill.clear()
            for waiting in (running, killing):
                waiting.cancel()
            await asyncio.gather(running, killing, return_exceptions=True)
            self.ledger.set_now({})

    def question(self, number: int) -> asyncio.Future[Answered]:
        """The answer to an agent's question, once somebody gives it."""
        self._asked[number] = asyncio.get_running_loop().create_future()
        return self._asked[number]

    def forget(self, number: int) -> None:
        """Nobody waits for this answer any more."""
        self._asked.pop(number, None)

    def asks(self, number: int) -> bool:
        """Whether somebody waits for the answer to this question."""
        return number in self._asked

    @property
    def ended(self) -> bool:
        """Whether the engine is to stop: nothing new is begun."""
        return bool(self.stopping) or self.stop_now.is_set()

    def pause_itself(self) -> None:
        """The loop pauses the lab; whoever calls it records why."""
        self.paused = True

    async def runnable(self) -> None:
        """Wait while the lab is paused; returns at once if it is to stop."""
        while self.paused and not self.stopping:
            self.changed.clear()
            await self.changed.wait()

    def obey(self, number: int, command: c.Command | None, by: str) -> None:
        """Obey one command and record what came of it; a refusal is recorded as its answer."""
        blobs: list[bytes] = []
        events: list[Event] = []
        try:
            result, events, blobs = self.outcome(command, by)
        except LabError as error:
            result = f"refused: {error}"
        except Exception as error:  # noqa: BLE001  # left pending it would end every engine of this lab
            what = f"unexpected {type(error).__name__}: {error}"
            result = f"refused: {what}; please report this as a mistake in kernel-lab"
        self.ledger.append(events, blobs=blobs, obeyed=[(number, result)])
        for event in events:
            if isinstance(event, Decided):
                future = self._waiting.get((event.experiment, event.kind))
                if future is not None and not future.done():
                    future.set_result(event)
            if isinstance(event, Submitted | RemeasureRequested):
                self.handed_in.set()
            if isinstance(event, Answered):
                asked = self._asked.get(event.question)
                if asked is not None and not asked.done():
                    asked.set_result(event)
        self.changed.set()

    def outcome(self, command: c.Command | None, by: str) -> Outcome:
        """What obeying a command comes to: the answer, and what is to be recorded. Raises LabError."""
        match command:
            case c.Approve():
                return self._approve(command, by)
            case c.Reject():
                _within_limit(command.why)
                return self._reject(command, by)
            case c.Edit():
                return self._edit(command, by)
            case c.Submit():
                return self._submit(command, by)
            case c.Keep():
                return self._keep(command.experiment, by, "")
            case c.Veto():
                _within_limit(command.why)
                if command.category not in c.VETO_CATEGORIES:
                    raise UsageError(f"unknown category: use one of {', '.join(c.VETO_CATEGORIES)}")
                return self._veto(command, by)
            case c.Remeasure():
                events = lineage.remeasure(self.ledger, command.experiment, by)
                return f"#{command.experiment} is judged again after the running experiment", events, []
            case c.Say():
                return self._say(command, by)
            case c.Withdraw():
                return self._withdraw(command.idea, by)
            case c.EditIdea():
                return self._edit_idea(command, by)
            case c.MoveIdea():
                return self._move_idea(command, by)
            case c.Answer():
                return self._answer(command, by)
            case c.SetMode():
                return self._set_mode(command.mode, by)
            case c.Pause() | c.Resume():
                return self._pause(isinstance(command, c.Pause), by)
            case c.Kill():
                if self.running is None:
                    raise UsageError("no experiment is running: nothing to end")
                self.kill.set()
                return f"#{self.running} is ended", [], []
            case c.Stop():
                self.stopping = "now" if command.now or self.stopping else "after"
                if self.stopping == "now":
                    self.stop_now.set()
                when = "now" if self.stopping == "now" else "after the running experiment"
                return f"the engine stops {when}", [], []
            case _:
                raise UsageError("this version does not know the command: update kernel-lab")

    def _question(self, experiment: int, source_sha: str | None) -> OpenQuestion:
        for question in self.ledger.open_questions():
            if question.experiment == experiment:
                if source_sha is not None and source_sha != question.source_sha:
                    raise UsageError(f"#{experiment} has changed since it was shown: look at it again")
                return question
        raise UsageError(f"nothing is asked about #{experiment}: `kernel-lab results` shows what is open")

    def _approve(self, command: c.Approve, by: str) -> Outcome:
        question = self._question(command.experiment, command.source_sha)
        if question.kind == "hold":
            return self._keep(command.experiment, by, "")
        decided = Decided(command.experiment, question.kind, "approve", by, "", question.source_sha)
        noted = "noted: the search goes on" if question.kind == "plateau" else ""
        return noted or f"#{command.experiment} is approved", [decided], []

    def _reject(self, command: c.Reject, by: str) -> Outcome:
        question = self._question(command.experiment, command.source_sha)
        decided = Decided(command.experiment, question.kind, "reject", by, command.why, question.source_sha)
        events: list[Event] = [decided]
        if question.kind == "hold":
            events.append(StatusRevised(command.experiment, "rejected", by, command.why))
        noted = "noted: the search goes on" if question.kind == "plateau" else ""
        return noted or f"#{command.experiment} is rejected", events, []

    def _edit(self, command: c.Edit, by: str) -> Outcome:
        question = self._question(command.experiment, None)
        row = self.ledger.experiment(command.experiment)
        if question.kind != "proposal" or row is None:
            raise UsageError(f"#{command.experiment} is past editing: reject it and say what is wanted")
        candidate = parse(command.source, self.entry_of(row.task))
        decided = Decided(command.experiment, "proposal", "edit", by, "", candidate.sha)
        return f"#{command.experiment} goes on as edited", [decided], [command.source.encode()]

    def _submit(self, command: c.Submit, by: str) -> Outcome:
        try:
            entry = self.entry_of(command.task)
        except KeyError:
            tasks = ", ".join(self.ledger.view().tasks)
            raise UsageError(f"this lab has no task {command.task!r}: use one of {tasks}") from None
        candidate = parse(command.source, entry)
        known = {idea.id for idea in self.ledger.ideas() if not idea.withdrawn}
        for idea in command.ideas:
            if idea not in known:
                raise UsageError(f"there is no open idea {idea}: `kernel-lab ideas` lists them")
        number = self.ledger.last_submission() + 1
        description = " ".join(command.description.split())[:DESCRIPTION_LIMIT] or "A candidate by hand."
        submitted = Submitted(number, command.task, candidate.sha, description, tuple(command.ideas), by)
        before = len(self.ledger.submissions())
        behind = f", behind {before} handed in before it" if before else ""
        result = f"the candidate is the next experiment of {command.task}{behind}"
        return result, [submitted], [command.source.encode()]

    def _keep(self, experiment: int, by: str, why: str) -> Outcome:
        events = lineage.keep(self.ledger, experiment, by, why)
        last = events[-1]
        if isinstance(last, StatusRevised):
            return f"#{experiment} is not kept: {last.why}", events, []
        return f"#{experiment} is kept and is the champion", events, []

    def _veto(self, command: c.Veto, by: str) -> Outcome:
        probe = command.probe.strip()
        if probe:
            parse_pattern(probe)
            problem = lineage.probe_problem(
                self.ledger, command.experiment, lambda sha: bool(lines_of(probe, self._text(sha)))
            )
            if problem is not None:
                raise UsageError(problem)
        why, category = command.why, command.category
        events = lineage.veto(self.ledger, command.experiment, by, why, category, probe)
        rest = ", and what its probe fits is turned down from now on" if probe else ""
        return f"#{command.experiment} is vetoed{rest}", events, []

    def _text(self, sha: str) -> str:
        return self.ledger.blob(sha).decode()

    def _say(self, command: c.Say, by: str) -> Outcome:
        text = _idea_text(command.text)
        if command.scope not in ("next", "always", "from"):
            raise UsageError("an idea is for `next`, `always` or `from` an experiment: choose one")
        if command.scope == "from":
            start = self.ledger.experiment(command.from_experiment or 0)
            if start is None or not start.source_sha:
                what = "no experiment" if start is None else "no candidate in"
                raise UsageError(f"there is {what} #{command.from_experiment} to start from; see `results`")
        number = max((idea.id for idea in self.ledger.ideas()), default=0) + 1
        said = IdeaSaid(number, text, command.scope, command.from_experiment, by)
        return f"idea {number} is noted", [said], []

    def _withdraw(self, idea: int, by: str) -> Outcome:
        open_ideas = [row.id for row in self.ledger.ideas() if not row.withdrawn]
        if idea not in open_ideas:
            raise UsageError(f"there is no open idea {idea}: `kernel-lab ideas` lists them")
        return f"idea {idea} is withdrawn", [IdeaWithdrawn(idea, by)], []

    def _edit_idea(self, command: c.EditIdea, by: str) -> Outcome:
        self._waiting_ideas(command.idea)
        return f"idea {command.idea} is changed", [IdeaEdited(command.idea, _idea_text(command.text), by)], []

    def _move_idea(self, command: c.MoveIdea, by: str) -> Outcome:
        order = self._waiting_ideas(command.idea)
        order.remove(command.idea)
        order.insert(max(1, command.place) - 1, command.idea)
        place = order.index(command.idea) + 1
        moved = IdeaMoved(command.idea, tuple(order), by)
        return f"idea {command.idea} is number {place} of {len(order)} that wait", [moved], []

    def _waiting_ideas(self, idea: int) -> list[int]:
        """Ideas that wait, in their order. Raises UsageError if `idea` is none of them."""
        rows = self.ledger.ideas()
        row = next((row for row in rows if row.id == idea), None)
        if row is None or row.withdrawn:
            raise UsageError(f"there is no open idea {idea}: `kernel-lab ideas` lists them")
        if not row.waiting:
            used = ", ".join(f"#{number}" for number in row.used_by)
            raise UsageError(f"idea {idea} was used by {used} already: say it anew")
        return [row.id for row in rows if row.waiting]

    def _answer(self, command: c.Answer, by: str) -> Outcome:
        text = command.text.strip()
        if not text or len(text) > IDEA_LIMIT:
            raise UsageError(f"an answer has 1 to {IDEA_LIMIT} characters: say it in fewer words")
        waiting = {row.id: row for row in self.ledger.agent_questions()}
        if command.question not in waiting:
            known = ", ".join(map(str, waiting)) or "none"
            raise UsageError(f"question {command.question} does not wait for an answer (waiting: {known})")
        answered = Answered(waiting[command.question].experiment, command.question, text, by)
        return f"question {command.question} is answered", [answered], []

    def _set_mode(self, mode: str, by: str) -> Outcome:
        if mode not in MODES:
            raise UsageError(f"unknown mode: use one of {', '.join(MODES)}")
        self.mode = mode
        events: list[Event] = [ModeChanged(mode, by)]
        asked_kinds = {"ask": ("proposal", "keep"), "wins": ("keep",), "auto": ()}[mode]
        for question in self.ledger.open_questions():
            if question.kind in ("proposal", "keep") and question.kind not in asked_kinds:
                events.append(
                    Decided(
                        question.experiment, question.kind, "approve", f"mode {mode}", "", question.source_sha
                    )
                )
        return f"the mode is {mode}", events, []

    def _pause(self, paused: bool, by: str) -> Outcome:
        word = "paused" if paused else "running"
        if self.paused == paused:
            return f"the lab is {word} already", [], []
        self.paused = paused
        event = Paused(by) if paused else Resumed(by)
        return ("the lab pauses after the running experiment" if paused else "the lab goes on"), [event], []


def _idea_text(text: str) -> str:
    """What a person said. Raises UsageError if it is nothing, or a book."""
    said = text.strip()
    if not said or len(said) > IDEA_LIMIT:
        raise UsageError(f"an idea has 1 to {IDEA_LIMIT} characters: say it in fewer words")
    return said


def _within_limit(why: str) -> None:
    """A reason is told to every later proposal: it may be as long as an idea."""
    if len(why) > IDEA_LIMIT:
        raise UsageError(f"a reason has at most {IDEA_LIMIT} characters: say it in fewer words")
