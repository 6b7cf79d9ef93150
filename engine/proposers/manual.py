"""Candidates from the person's own editor: a copy of the champion is written, and a saved change is proposed.

The copy begins with three comment lines in which the person may say what is tried and why; they are taken
off again. A save that is no candidate is answered with its reason, and the next save is waited for.
"""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

from kernel_lab.engine.candidate import read_candidate_file
from kernel_lab.engine.errors import CandidateInvalid, ProposerError, UsageError
from kernel_lab.engine.facts import Prediction
from kernel_lab.engine.proposers.base import Answer, Proposal, ProposalRequest, Say
from kernel_lab.engine.proposers.people import MAX_WORDS, one_line, read_candidate

POLL_S = 0.5
_HEADER = re.compile(r"#: ?([a-z]*) ?:?(.*)")


class Manual:
    """Writes `<folder>/<task>-<experiment>.py` and waits until a changed copy is saved."""

    name = "manual"

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    async def propose(self, request: ProposalRequest, say: Say) -> Answer:
        """The saved change of the champion's copy. An unfinished edit of a killed engine is kept."""
        path = self.folder / f"{request.task.name}-{request.experiment}.py"
        if not path.exists():
            self._write(path, request)
        say(f"Waiting for a saved change of {path} (a copy of #{request.start.id}): edit it and save.\n")
        seen = ""
        missing = 0
        while True:
            text = self._saved(path)
            missing = missing + 1 if text is None else 0
            if missing > 4:  # gone for good, not just between an editor's rename and write
                self._write(path, request)
            elif text is not None and text != seen:
                seen = text
                answer = self._answer(text, request, say)
                if answer is not None:
                    return answer
            await asyncio.sleep(POLL_S)

    def _answer(self, text: str, request: ProposalRequest, say: Say) -> Proposal | None:
        said, source = split_header(text)
        if source.strip() == request.start_source.strip():
            return None
        try:
            _, space = read_candidate(source, request)
        except CandidateInvalid as error:
            say(f"Not a candidate yet: {error}. Save again when it is mended.\n")
            return None
        return Proposal(
            source=source,
            description=said.get("what") or f"Edit #{request.start.id} by hand.",
            hypothesis=said.get("why", ""),
            prediction=Prediction(_number(said.get("gain", "")), None),
            lever="by_hand",
            trial_space=space,
            ideas=tuple(idea.id for idea in request.ideas),
        )

    def _saved(self, path: Path) -> str | None:
        """The file's text; None while it is missing or unreadable."""
        try:
            return read_candidate_file(path)
        except UsageError:
            return None

    def _write(self, path: Path, request: ProposalRequest) -> None:
        header = [
            f"#: A copy of #{request.start.id}. Say what you try and why, edit below, and save.",
            "#: what:",
            "#: why:",
            *(f"#: idea: {one_line(idea.text)}" for idea in request.ideas),
        ]
        fresh = path.with_name(path.name + ".new")
        try:
            self.folder.mkdir(exist_ok=True)
            fresh.write_text("\n".join(header) + "\n" + request.start_source, encoding="utf-8", newline="")
            fresh.replace(path)
        except OSError as error:
            why = (error.strerror or "unknown").lower()
            raise ProposerError(f"{path} cannot be written ({why}); make room or permit it") from None


def split_header(text: str) -> tuple[dict[str, str], str]:
    """What the comment lines at the top say (`what`, `why`, `gain`), and the text below them."""
    said: dict[str, str] = {}
    lines = text.splitlines(keepends=True)
    while lines and lines[0].startswith("#:"):
        match = _HEADER.match(lines.pop(0).strip())
        if match and match[1] in ("what", "why", "gain") and match[2].strip():
            said[match[1]] = one_line(match[2], MAX_WORDS)
    return said, "".join(lines)


def _number(text: str) -> float | None:
    try:
        return float(text.strip().rstrip("%"))
    except ValueError:
        return None
