"""Any agent program as a proposer: it reads the prompt on its standard input and edits `candidate.py`.

It works in a folder of its own, of which only that one file is taken back. It gets a clean environment, a
process group that ends with it, and a deadline. What it prints is shown to people, never obeyed.
"""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import os
import re
import secrets
import shlex
import shutil
import signal
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from kernel_lab.engine.candidate import read_candidate_file
from kernel_lab.engine.errors import CandidateInvalid, ProposerError, UsageError
from kernel_lab.engine.facts import Prediction, Reason
from kernel_lab.engine.proposers.agent.context import build_context
from kernel_lab.engine.proposers.agent.redact import RedactedStream, Redactor
from kernel_lab.engine.proposers.agent.settings import AgentSettings
from kernel_lab.engine.proposers.base import Answer, Proposal, ProposalRequest, Refusal, Say
from kernel_lab.engine.proposers.people import one_line, read_candidate, words_from_text

KEPT = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TERM", "TMPDIR", "TZ")
"""Variables that a program needs to run at all. Any other is passed only if `agent_env` names it."""

MARK = "KERNEL_LAB_AGENT"
"""A variable that tells every process of one run, wherever it went, by a value that no other run has."""

OUTPUT_LIMIT = 1_000_000
"""Bytes of output that are read; the rest is thrown away."""
POLL_S = 0.05
END_S = 2.0
"""How long a program that was asked to end may take."""

_GAIN = re.compile(r"^gain: *([+-]?\d{1,4}(?:\.\d{1,4})?) *%? *$", re.MULTILINE | re.IGNORECASE)

TASK = """\
# What to do

Edit the file `candidate.py` in the present folder: it is the champion's text, and what it says when you end
is your proposal. Nothing else that you write is taken. Keep it one file with SPACE, CONFIG and the entry
function. Write `proposal.md` beside it: its first line says in one plain sentence what you try, the rest why,
and a line `gain: N` the gain in percent that you expect.
"""


class Command:
    """Runs `command` for each proposal. `passed`: variables beyond KEPT, by name and value."""

    name = "command"

    def __init__(self, command: str, settings: AgentSettings, home: Path, passed: Mapping[str, str]) -> None:
        try:
            self.arguments = shlex.split(command)
        except ValueError as error:
            raise UsageError(f"the command cannot be read ({error}): quote it as in a shell") from None
        if not self.arguments:
            raise UsageError("which program? say `--proposer 'command:PROGRAM ARGUMENTS'`")
        self.settings = settings
        self.home = home
        self.passed = dict(passed)
        self.redactor = Redactor(self.passed.values())

    async def propose(self, request: ProposalRequest, say: Say) -> Answer:
        """One run of the program. Raises ProposerError where it cannot be started."""
        if request.bench is not None:
            request.bench.heard()
        context = build_context(request, token_budget=self.settings.context_tokens)
        said: list[str] = []

        def show(piece: str) -> None:
            if piece:
                said.append(piece)
                say(piece)

        folder = self._folder(request)
        try:
            (folder / "candidate.py").write_text(request.start_source, encoding="utf-8", newline="")
            status = await self._run(folder, self.redactor(context.text + TASK), show)
            answer = self._answer(request, folder, status)
        except OSError as error:
            why = (error.strerror or "unknown").lower()
            raise ProposerError(f"{folder} cannot be used ({why}); make room or permit it") from None
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        transcript = "".join(said)
        if isinstance(answer, Refusal):
            return replace(answer, transcript=transcript)
        return replace(answer, transcript=transcript, ideas=tuple(idea.id for idea in request.ideas))

    def _folder(self, request: ProposalRequest) -> Path:
        folder = self.home / f"{request.task.name}-{request.experiment}"
        shutil.rmtree(folder, ignore_errors=True)  # what an engine that was killed has left
        try:
            folder.mkdir(parents=True)
        except OSError as error:
            why = (error.strerror or "unknown").lower()
            raise ProposerError(f"{folder} cannot be made ({why}); make room or permit it") from None
        return folder

    async def _run(self, folder: Path, prompt: str, show: Say) -> str:
        """Empty if the program ended well, else what became of it."""
        mark = secrets.token_hex(16)
        environment = {name: os.environ[name] for name in KEPT if name in os.environ} | self.passed
        environment[MARK] = mark
        try:
            process = await asyncio.create_subprocess_exec(
                *self.arguments,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                cwd=folder,
                env=environment,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or str(error)
            raise ProposerError(
                f"{self.arguments[0]} cannot be started ({why}): install it or name its path"
            ) from None
        showing = asyncio.create_task(self._show(process, show))
        feeding = asyncio.create_task(_feed(process, prompt))
        code: int | None = None
        try:
            async with asyncio.timeout(self.settings.seconds):
                code = await _exit(process)
        except TimeoutError:
            return f"it was ended after {self.settings.seconds:g} s"
        finally:
            await _end(process, mark)
            await asyncio.wait({showing, feeding}, timeout=END_S)
            for task in (showing, feeding):
                task.cancel()
            await asyncio.gather(showing, feeding, return_exceptions=True)
        return "" if code == 0 else f"it ended with status {code}"

    async def _show(self, process: asyncio.subprocess.Process, show: Say) -> None:
        assert process.stdout is not None  # noqa: S101  it was opened as a pipe
        stream = RedactedStream(self.redactor)
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        read = 0
        while piece := await process.stdout.read(65_536):
            if read < OUTPUT_LIMIT:
                show(stream.feed(decoder.decode(piece[: OUTPUT_LIMIT - read])))
            read += len(piece)
        show(stream.flush())

    def _answer(self, request: ProposalRequest, folder: Path, status: str) -> Proposal | Refusal:
        try:
            source = self.redactor(read_candidate_file(folder / "candidate.py"))
        except UsageError as error:
            return _refused("candidate", f"{error}" + (f"; {status}" if status else ""))
        if source == request.start_source:
            return _refused("no_change", status or "the program left candidate.py as it was")
        if status:
            return _refused("program", f"{self.arguments[0]}: {status}")
        try:
            _, space = read_candidate(source, request)
        except CandidateInvalid as error:
            return _refused("candidate", str(error))
        try:
            note = self.redactor(read_candidate_file(folder / "proposal.md"))
        except UsageError:
            note = ""
        gain = _GAIN.search(note)
        words = words_from_text(_GAIN.sub("", note))
        return Proposal(
            source=source,
            description=words.description or f"What {one_line(Path(self.arguments[0]).name, 40)} wrote.",
            hypothesis=words.hypothesis,
            prediction=Prediction(float(gain[1]) if gain else None, None),
            lever="command",
            trial_space=space,
        )


def _refused(probe: str, detail: str) -> Refusal:
    return Refusal(Reason("scope", probe, detail))


async def _exit(process: asyncio.subprocess.Process) -> int:
    """The exit status. `wait` would wait for children too that hold the pipes."""
    while process.returncode is None:  # noqa: ASYNC110
        await asyncio.sleep(POLL_S)
    return process.returncode


async def _feed(process: asyncio.subprocess.Process, prompt: str) -> None:
    """Write the prompt; a program that reads none of it is as good as any."""
    assert process.stdin is not None  # noqa: S101  it was opened as a pipe
    with contextlib.suppress(ConnectionError):
        process.stdin.write(prompt.encode("utf-8", "replace"))
        await process.stdin.drain()
    process.stdin.close()


async def _end(process: asyncio.subprocess.Process, mark: str) -> None:
    """End the program and everything that it started, also what left its group or its parent."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        _signal(process, mark, number)
        deadline = asyncio.get_running_loop().time() + END_S
        while process.returncode is None or _marked(mark):
            if asyncio.get_running_loop().time() > deadline:
                break
            if number == signal.SIGKILL:
                _signal(process, mark, number)  # what was forked in between
            await asyncio.sleep(POLL_S)
        else:
            return


def _signal(process: asyncio.subprocess.Process, mark: str, number: signal.Signals) -> None:
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
    for pid in _marked(mark):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _marked(mark: str) -> list[int]:
    """Processes whose environment holds the mark. Where the system shows none, the group has to do."""
    text = f"{MARK}={mark}".encode()
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if text in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
        except OSError:
            continue
    return found
