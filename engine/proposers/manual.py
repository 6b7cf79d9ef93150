"""Candidates from the person's own editor: a copy of the champion is written, and a saved change is proposed.

The copy begins with three comment lines in which the person may say what is tried and why; they are taken
off again. A save that is no candidate is answered with its reason, and the next save is waited for.
"""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

from kernel_lab.engine.candidate import read_candidate_file, text_sha
from kernel_lab.engine.errors import CandidateInvalid, ProposerError, UsageError
from kernel_lab.engine.facts import Prediction
from kernel_lab.engine.proposers.base import Answer, Proposal, ProposalRequest, Say
from kernel_lab.engine.proposers.people import MAX_WORDS, one_line, read_candidate

POLL_S = 0.5
_HEADER = re.compile(r"#: ?([a-z]*) ?:?(.*)")


LEVER = "by_hand"


class Manual:
    """Writes `<folder>/<task>-<experiment>.py` and waits until a changed copy is saved.

    A copy that was begun for an earlier experiment, which another candidate took, is watched too: the person
    may have it open.
    """

    name = "manual"

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    async def propose(self, request: ProposalRequest, say: Say) -> Answer:
        """The saved change of the champion's copy. An unfinished edit of a killed engine is kept."""
        path = self.folder / f"{request.task.name}-{request.experiment}.py"
        earlier = self._begun_before(request)
        begun = [old for old in earlier if _changed(self._saved(old), request)]
        if begun:
            what = f"{begun[0]}, which is begun"
        else:
            what = f"{path} (a copy of #{request.start.id})"
            if not path.exists():
                self._write(path, request)
        say(f"Waiting for a saved change of {what}: edit it and save.\n")
        seen: dict[Path, str] = {}
        missing = 0
        while True:
            for copy in (path, *earlier):
                text = self._saved(copy)
                if text is not None and text != seen.get(copy):
                    seen[copy] = text
                    answer = self._answer(text, request, say)
                    if answer is not None:
                        return answer
            missing = missing + 1 if not begun and self._saved(path) is None else 0
            if missing > 4:  # gone for good, not just between an editor's rename and write
                self._write(path, request)
            await asyncio.sleep(POLL_S)

    def _begun_before(self, request: ProposalRequest) -> list[Path]:
        """Copies of this task for earlier experiments that were not proposed, the newest first."""
        proposed = {past.id for past in request.history if past.lever == LEVER}
        found = {}
        for path in self.folder.glob(f"{request.task.name}-*.py"):
            number = path.stem.rpartition("-")[2]
            if number.isdecimal() and int(number) < request.experiment and int(number) not in proposed:
                found[int(number)] = path
        return [found[number] for number in sorted(found, reverse=True)]

    def _answer(self, text: str, request: ProposalRequest, say: Say) -> Proposal | None:
        said, source = split_header(text)
        if not _changed(text, request):
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
            lever=LEVER,
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


def _changed(text: str | None, request: ProposalRequest) -> bool:
    """Whether a copy holds something else than a candidate that was judged already."""
    if text is None:
        return False
    source = split_header(text)[1]
    judged = {past.source_sha for past in request.history}
    return source.strip() != request.start_source.strip() and text_sha(source) not in judged


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
