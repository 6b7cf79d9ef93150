"""One proposal as a dialogue with a model: requests, tool calls, answers, until it submits or may not go on.

Failures that may pass are waited out; a mistake is answered once and, made again, ends the proposal with a
reason of its own. Whatever a request used is in the books before the next one is sent.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import replace

from kernel_lab.engine.events import Spent
from kernel_lab.engine.facts import Reason
from kernel_lab.engine.proposers.agent.budget import CapReached, Purse, estimated
from kernel_lab.engine.proposers.agent.context import count_tokens
from kernel_lab.engine.proposers.agent.redact import RedactedStream, Redactor
from kernel_lab.engine.proposers.agent.settings import AgentSettings
from kernel_lab.engine.proposers.agent.tools import TOOLS, Workbench
from kernel_lab.engine.proposers.agent.wire import (
    RETRIED,
    Halted,
    Prompt,
    Provider,
    ProviderError,
    Reply,
    Results,
    ToolCall,
    Usage,
    Watch,
)
from kernel_lab.engine.proposers.base import Bench, Ended, Heard, Proposal, ProposalRequest, Refusal
from kernel_lab.engine.proposers.people import one_line

BACKOFF_LIMIT_S = 60.0
CALLS_AT_ONCE = 8
"""Calls of one reply that are carried out."""
TEXT_LIMIT = 400_000
"""Characters of one reply: what writes more has gone astray."""

NUDGES = {
    "no_call": "That was text. Work with the tools, and end with `submit`.",
    "length": "Your reply was cut at its length. Be shorter: edit the draft piece by piece, then `submit`.",
    "empty": "That was nothing. Work with the tools, and end with `submit`.",
}
WORDS = {
    "no_call": "text in place of a submission",
    "length": "replies that are cut at their length",
    "empty": "empty replies",
    "malformed": "calls that are malformed",
    "edit": "edits that do not apply",
    "candidate": "a submission that is no candidate",
    "repeat": "a candidate that was tried already",
}


class Over(Halted):
    """The dialogue ends without a proposal: `probe` and `detail` say why."""

    def __init__(self, probe: str, detail: str) -> None:
        super().__init__(detail)
        self.probe = probe
        self.detail = detail


class Dialogue:
    """Makes one proposal. `say` takes what people may follow; `credit` is the name in the books."""

    def __init__(
        self,
        provider: Provider,
        request: ProposalRequest,
        bench: Bench,
        settings: AgentSettings,
        purse: Purse,
        redactor: Redactor,
        say: Callable[[str], None],
        credit: str,
    ) -> None:
        self.provider = provider
        self.request = request
        self.bench = bench
        self.settings = settings
        self.purse = purse
        self.redact = redactor
        self.credit = credit
        self.workbench = Workbench(request, bench, ask_seconds=settings.ask_seconds)
        self.ideas = [idea.id for idea in request.ideas]
        self._say = say
        self._said: list[str] = []
        self._turns: list[Reply | Results] = []
        self._mistaken: set[str] = set()
        self._prompt_tokens = 0

    async def run(self, prompt: Prompt) -> Proposal | Refusal | Ended:
        """The proposal, why there is none, or that the run must end."""
        try:
            async with asyncio.timeout(self.settings.seconds):
                proposal = await self._converse(prompt)
            return replace(proposal, ideas=tuple(self.ideas), transcript=self.transcript)
        except TimeoutError:
            return self._refusal("time", f"no submission within {self.settings.seconds:g} s")
        except Over as over:
            return self._refusal(over.probe, over.detail)
        except CapReached as cap:
            if cap.lab:
                return Ended("budget", str(cap))
            return self._refusal("budget", str(cap))
        except ProviderError as error:
            return self._failed(error)

    @property
    def transcript(self) -> str:
        return "".join(self._said)

    async def _converse(self, prompt: Prompt) -> Proposal:
        self._prompt_tokens = count_tokens(prompt.prefix + prompt.changing)
        for turn in range(self.settings.turns):
            reply = await self._request(prompt)
            self._turns.append(reply)
            results, proposal = await self._answer(reply)
            if proposal is not None:
                return proposal
            left = self.settings.turns - turn - 1
            lines = [results.text, *map(self._meanwhile, self.bench.heard())]
            if left == 1:
                lines.append("This is your last reply: `submit` now.")
            results = replace(results, text="\n\n".join(line for line in lines if line))
            self._turns.append(results)
            answered = results.text + "".join(text for _, text, _ in results.results)
            self._prompt_tokens += count_tokens(answered)
        raise Over("turns", f"no submission within {self.settings.turns} replies")

    def _meanwhile(self, heard: Heard) -> str:
        """What a person said since the proposal began: it is in the very next request."""
        if heard.idea is not None:
            self.ideas.append(heard.idea)
        self.say(f"\n[heard: {one_line(heard.text, 200)}]\n")
        return f"A person says meanwhile, and it goes before your own ideas: {heard.text}"

    async def _answer(self, reply: Reply) -> tuple[Results, Proposal | None]:
        """Carry out the calls of a reply. Raises Over for a mistake that was answered before."""
        if reply.stop == "refusal":
            raise Over(
                "refusal", f"the model declines: {one_line(reply.detail or reply.text, 300) or 'no reason'}"
            )
        if reply.stop == "context":
            raise Over("context", "the dialogue has outgrown the model's context")
        if not reply.calls or (reply.stop == "length" and reply.calls[-1].arguments is None):
            kind = "length" if reply.stop == "length" else "no_call" if reply.text.strip() else "empty"
            self._mistake(kind)
            cut = tuple((call, "Not carried out: your reply was cut.", True) for call in reply.calls)
            return Results(cut, NUDGES[kind]), None
        self._mistaken -= set(NUDGES)
        results: list[tuple[ToolCall, str, bool]] = []
        for number, call in enumerate(reply.calls):
            if number >= CALLS_AT_ONCE:
                results.append((call, "Not carried out: too many calls at once.", True))
                continue
            self.say(f"\n→ {one_line(call.name, 40)}")
            answer = await self.workbench.call(call)
            self.say(f": {one_line(answer.line, 160)}\n" if answer.line else "\n")
            if answer.proposal is not None and (not answer.mistake or answer.mistake in self._mistaken):
                return Results(tuple(results)), answer.proposal  # a repeat that insists gets its own verdict
            if answer.mistake:
                self._mistake(answer.mistake)
            elif call.name in ("edit", "write"):
                self._mistaken -= {"edit", "candidate", "malformed"}
            else:
                self._mistaken.discard("malformed")
            results.append((call, self.redact(answer.text), bool(answer.mistake)))
        return Results(tuple(results)), None

    def _mistake(self, kind: str) -> None:
        if kind in self._mistaken:
            raise Over(kind, f"{WORDS[kind]}, twice in a row")
        self._mistaken.add(kind)

    # ---- requests

    async def _request(self, prompt: Prompt) -> Reply:
        """One reply, however often it takes. Raises ProviderError, CapReached."""
        for attempt in range(self.settings.retries + 1):
            most = self.purse.before(self._prompt_tokens)
            try:
                return await self._once(prompt, most)
            except ProviderError as error:
                if error.kind not in RETRIED or attempt == self.settings.retries:
                    raise
                wait = self._wait(attempt, error)
                self.say(f"\n[{self._line(error)}; again in {wait:.0f} s]\n")
                await asyncio.sleep(wait)
        raise AssertionError("a last attempt either answers or raises")

    async def _once(self, prompt: Prompt, most: int) -> Reply:
        stream = RedactedStream(self.redact)

        def on_text(piece: str) -> None:
            self.say(stream.feed(piece))

        def on_progress(watch: Watch) -> None:
            if watch.characters > TEXT_LIMIT:
                raise Over("length", f"a reply of more than {TEXT_LIMIT:,} characters")
            self.purse.during(watch)

        watch = Watch(on_text, on_progress)
        try:
            reply = await self.provider.reply(prompt, self._turns, TOOLS, most, watch)
        finally:
            self.say(stream.flush())
            self._book(watch)
        self._prompt_tokens = max(self._prompt_tokens, reply.usage.prompt) + reply.usage.output
        return self._redacted(reply)

    def _book(self, watch: Watch) -> None:
        """Put what a request used into the books, also where it failed after it had begun to answer."""
        usage = estimated(watch)
        if usage == Usage():
            return
        if not usage.prompt:  # the service does not tell before the end, and the end never came
            usage = replace(usage, input=self._prompt_tokens)
        spent = Spent(
            experiment=self.request.experiment,
            proposer=self.credit,
            model=self.provider.model,
            input_tokens=usage.input,
            cached_tokens=usage.cached,
            cache_write_tokens=usage.cache_write,
            output_tokens=usage.output,
            thinking_tokens=usage.thinking,
            usd=self.purse.cost(usage),
            complete=watch.reported,
        )
        self.bench.spend(spent)
        self.purse.book(usage)

    def _redacted(self, reply: Reply) -> Reply:
        calls = tuple(
            replace(
                call,
                name=self.redact(call.name),
                arguments=None if call.arguments is None else self.redact.value(call.arguments),
                problem=self.redact(call.problem),
            )
            for call in reply.calls
        )
        return replace(reply, text=self.redact(reply.text), detail=self.redact(reply.detail), calls=calls)

    def _wait(self, attempt: int, error: ProviderError) -> float:
        if error.retry_after_s is not None:
            return error.retry_after_s
        longest = min(BACKOFF_LIMIT_S, self.settings.backoff_s * 2**attempt)
        return float(longest * random.uniform(0.5, 1.0))  # noqa: S311  spreads clients, decides nothing

    # ---- ends

    def say(self, piece: str) -> None:
        if piece:
            self._said.append(piece)
            self._say(piece)

    def _refusal(self, probe: str, detail: str) -> Refusal:
        self.say(f"\n[{detail}]\n")
        return Refusal(Reason("scope", probe, detail), self.transcript)

    def _failed(self, error: ProviderError) -> Refusal | Ended:
        line = self._line(error)
        if error.kind == "context":
            return self._refusal("context", f"the service finds the dialogue too long: {line}")
        remedy = {
            "key": "give a key that it takes",
            "request": "check model and address",
        }.get(error.kind, "start again when it can be reached")
        return Ended("error", f"{line}: {remedy}", passing=error.kind in RETRIED)

    def _line(self, error: ProviderError) -> str:
        return one_line(self.redact(f"{self.provider.name} ({self.provider.model}): {error}"), 300)
