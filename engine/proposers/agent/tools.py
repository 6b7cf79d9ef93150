"""The tools of an agent: what each is called with, and what it answers. Nothing that comes in is trusted.

A draft begins as the champion's text. Tools change it, try it on the bench, and submit it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kernel_lab.engine.candidate import MAX_SOURCE_BYTES, parse
from kernel_lab.engine.errors import CandidateInvalid, UsageError
from kernel_lab.engine.facts import Prediction
from kernel_lab.engine.proposers.agent import digest
from kernel_lab.engine.proposers.agent.fence import fence
from kernel_lab.engine.proposers.agent.wire import Tool, ToolCall
from kernel_lab.engine.proposers.base import Bench, Proposal, ProposalRequest
from kernel_lab.engine.proposers.people import MAX_LINE, MAX_WORDS, one_line, trial_space

OUTPUT_LIMIT = 8_000
"""Characters of one answer that quotes a compiler, a kernel or an earlier model."""
SOURCE_LIMIT = 60_000
ASKS = 1
"""Questions to a person within one proposal."""

Schema = dict[str, Any]


def _object(required: Sequence[str], **properties: Schema) -> Schema:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def _words(description: str) -> Schema:
    return {"type": "string", "description": description}


_NUMBER: Schema = {"type": "integer", "description": "an experiment's number"}
_SOURCE = _words("the whole candidate file")

TOOLS = (
    Tool(
        "read_note",
        "Notes in full: of the card, of the model whose shapes count, or of the task.",
        _object(["about"], about={"type": "string", "enum": ["card", "model", "task"]}),
    ),
    Tool(
        "read_experiment",
        "An earlier experiment: what was tried, its trials, its verdict and why; or its candidate's source.",
        _object(["number"], number=_NUMBER, source={"type": "boolean", "description": "its source instead"}),
    ),
    Tool("show_draft", "Your draft as it is now.", _object([])),
    Tool(
        "start_from",
        "Make the draft the candidate of an earlier experiment of this task.",
        _object(["number"], number=_NUMBER),
    ),
    Tool(
        "edit",
        "Replace one piece of the draft. `old` must stand in it exactly once, white space included.",
        _object(["old", "new"], old=_words("the piece as it is"), new=_words("what takes its place")),
    ),
    Tool("write", "Replace the whole draft.", _object(["source"], source=_SOURCE)),
    Tool(
        "compile",
        "Lint the draft and compile it for the device: registers, spills, shared memory, occupancy, and its "
        "estimated speed against the champion, by workload.",
        _object([]),
    ),
    Tool("check", "Run the draft on a few cases and compare its values with the reference.", _object([])),
    Tool("profile", "What limits the champion, by workload, and what its kernels take.", _object([])),
    Tool(
        "ask_person",
        "Ask the person who watches one question that decides what you do. It may stay unanswered.",
        _object(["question"], question=_words("one question, in one or two sentences")),
    ),
    Tool(
        "submit",
        "Submit the draft as the proposal. This ends your work on it.",
        _object(
            ["description", "hypothesis", "predicted_gain_percent", "predicted_bottleneck", "lever"],
            description=_words("one plain sentence: what is tried"),
            hypothesis=_words("why it should be faster"),
            predicted_gain_percent={
                "type": "number",
                "description": "gain over the champion that you expect over the whole matrix",
            },
            predicted_bottleneck=_words("the resource that will bind then"),
            lever=_words("short name of what is turned, such as split_kv"),
            tunables={
                "type": "array",
                "items": {"type": "string"},
                "description": "names in SPACE that trials shall settle; left out: every numeric one",
            },
            source={**_SOURCE, "description": "the whole candidate, in place of the draft"},
        ),
    ),
)
_BY_NAME = {tool.name: tool for tool in TOOLS}


@dataclass(frozen=True, slots=True)
class Answer:
    """What a call is answered. `mistake` names what was wrong with it, empty where nothing was."""

    text: str
    mistake: str = ""
    proposal: Proposal | None = None
    line: str = ""
    """What happened, in a few words, for people who follow."""


class Workbench:
    """The draft of one proposal and the tools that work on it."""

    def __init__(self, request: ProposalRequest, bench: Bench, *, ask_seconds: float) -> None:
        self.request = request
        self.bench = bench
        self.ask_seconds = ask_seconds
        self.draft = request.start_source
        self.asked = 0

    async def call(self, call: ToolCall) -> Answer:
        """Carry out one call; a wrong one is answered with what is wrong."""
        tool = _BY_NAME.get(call.name)
        if tool is None:
            names = ", ".join(_BY_NAME)
            return Answer(f"There is no such tool. There are: {names}.", "malformed", line="no such tool")
        if call.arguments is None:
            return Answer(f"Not carried out: {call.problem}.", "malformed", line=call.problem)
        wrong = _wrong(call.arguments, tool.parameters)
        if wrong:
            return Answer(f"Not carried out: {wrong}.", "malformed", line=wrong)
        arguments = dict(call.arguments)
        try:
            match call.name:
                case "read_note":
                    return self._note(arguments["about"])
                case "read_experiment":
                    return self._experiment(arguments["number"], bool(arguments.get("source")))
                case "show_draft":
                    return Answer(fence(self.draft, "draft", SOURCE_LIMIT), line="reads its draft")
                case "start_from":
                    self.draft = self.bench.source(arguments["number"])
                    return Answer(
                        fence(self.draft, f"draft, from #{arguments['number']}", SOURCE_LIMIT),
                        line=f"#{arguments['number']}",
                    )
                case "edit":
                    return self._edit(arguments["old"], arguments["new"])
                case "write":
                    return self._write(arguments["source"])
                case "compile":
                    found = await self.bench.compile(self.draft)
                    return _found(found.passed, found.text, "compiles")
                case "check":
                    found = await self.bench.check(self.draft)
                    return _found(found.passed, found.text, "passes")
                case "profile":
                    text = f"{digest.bottleneck(self.request)}\n{digest.resources(self.request)}"
                    return Answer(text, line=f"#{self.request.champion.id}")
                case "ask_person":
                    return await self._ask(arguments["question"])
                case _:
                    return self._submit(arguments)
        except (UsageError, CandidateInvalid) as error:
            return Answer(f"Not carried out: {error}", "malformed", line=str(error))

    def _note(self, about: str) -> Answer:
        request = self.request
        notes = {"card": request.gpu.notes, "model": request.model.notes, "task": request.task.notes}
        return Answer(notes[about].strip() or "There are no notes.", line=about)

    def _experiment(self, number: int, source: bool) -> Answer:
        text = self.bench.source(number) if source else self.bench.experiment(number)
        return Answer(
            fence(text, f"experiment #{number}", SOURCE_LIMIT if source else OUTPUT_LIMIT), line=f"#{number}"
        )

    def _edit(self, old: str, new: str) -> Answer:
        count = self.draft.count(old) if old else 0
        if count != 1:
            text = f"The edit does not apply: `old` stands {count} times in the draft, not once."
            return Answer(text, "edit", line=f"does not apply ({count} places)")
        return self._changed(self.draft.replace(old, new))

    def _write(self, source: str) -> Answer:
        return self._changed(source)

    def _changed(self, source: str) -> Answer:
        problem = _problem(source)
        if problem:
            return Answer(f"Not carried out: {problem}.", "edit", line=problem)
        before, self.draft = self.draft, source
        lines = len(source.splitlines())
        same = " It is what it was before." if before == source else ""
        return Answer(f"The draft has {lines} lines now.{same}", line=f"{lines} lines")

    async def _ask(self, question: str) -> Answer:
        if self.asked >= ASKS:
            return Answer("You have asked already: decide yourself.", "malformed", line="asked already")
        self.asked += 1
        answer = await self.bench.ask(one_line(question, MAX_WORDS), self.ask_seconds)
        if answer is None:
            return Answer("Nobody has answered in time: decide yourself.", line="nobody answered")
        return Answer(f"The person answers: {answer}", line="answered")

    def _submit(self, arguments: Mapping[str, Any]) -> Answer:
        source = arguments.get("source") or self.draft
        problem = _problem(source)
        if problem:
            return Answer(f"Not submitted: {problem}.", "candidate", line=problem)
        if not source.strip():
            return Answer("Not submitted: the candidate is empty.", "candidate", line="empty")
        self.draft = source
        try:
            candidate = parse(source, self.request.task.entry)
        except CandidateInvalid as error:
            return Answer(f"Not submitted: {error}", "candidate", line=str(error))
        space = trial_space(candidate, self.request)
        names = arguments.get("tunables")
        if names is not None:
            unknown = [name for name in names if name not in candidate.space]
            if unknown:
                text = f"Not submitted: {one_line(str(unknown[0]), 60)} is not in SPACE."
                return Answer(text, "malformed", line="a tunable that SPACE has not")
            chosen = {name: list(candidate.space[name]) for name in names if len(candidate.space[name]) > 1}
            space = {bucket: dict(chosen) for bucket in space} if chosen else {}
        gain = float(arguments["predicted_gain_percent"])
        proposal = Proposal(
            source=source,
            description=one_line(arguments["description"]),
            hypothesis=one_line(arguments["hypothesis"], MAX_WORDS),
            prediction=Prediction(gain, one_line(arguments["predicted_bottleneck"], 120) or None),
            lever=one_line(arguments["lever"], 60) or "unnamed",
            trial_space=space,
        )
        first = next(
            (past.id for past in self.request.history if past.canonical_sha == candidate.canonical_sha), None
        )
        if first is not None:
            text = (
                f"Not submitted: this is the code of #{first}, tried already. Change it, or try another idea."
            )
            return Answer(text, "repeat", proposal, line=f"the code of #{first}")
        return Answer("Submitted.", proposal=proposal, line=proposal.description)


def _found(passed: bool, text: str, word: str) -> Answer:
    first = one_line(text.partition("\n")[0], MAX_LINE)
    return Answer(fence(text, "result", OUTPUT_LIMIT), line=word if passed else first)


def _problem(source: str) -> str:
    try:
        size = len(source.encode())
    except UnicodeEncodeError:
        return "the text holds half a character"
    return f"the text has {size:,} bytes, at most {MAX_SOURCE_BYTES:,} do" if size > MAX_SOURCE_BYTES else ""


_KINDS: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
}


def _wrong(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    """What does not fit the schema, in one line; empty if everything does."""
    properties: Mapping[str, Mapping[str, Any]] = schema["properties"]
    for name in schema["required"]:
        if name not in arguments:
            return f"`{name}` is missing"
    for name, value in arguments.items():
        wanted = properties.get(name)
        if wanted is None:
            return f"there is no argument `{one_line(str(name), 40)}`"
        kind = wanted["type"]
        if not isinstance(value, _KINDS[kind]) or (isinstance(value, bool) and kind != "boolean"):
            return f"`{name}` is no {kind}"
        if isinstance(value, float) and not math.isfinite(value):
            return f"`{name}` is no finite number"
        if isinstance(value, int) and abs(value) > 10**12:
            return f"`{name}` is out of range"
        if "enum" in wanted and value not in wanted["enum"]:
            return f"`{name}` is none of {', '.join(wanted['enum'])}"
        if isinstance(value, list) and not all(isinstance(item, str) for item in value):
            return f"`{name}` holds something that is no text"
    return ""
