"""Candidates dropped into a folder as `*.py` files, taken in the order of their names.

Beside `NAME.py`, `NAME.toml` (description, hypothesis, lever, gain_percent, bottleneck, trials) or `NAME.md`
(first line, rest) may say what is tried and why; else the file's docstring does. A file that is no candidate
costs an experiment with a plain reason, never the run. A file that is changed later is a new proposal.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path

from kernel_lab.engine.candidate import read_candidate_file, text_sha
from kernel_lab.engine.errors import CandidateInvalid, ProposerError, UsageError
from kernel_lab.engine.facts import Reason
from kernel_lab.engine.proposers.base import Answer, Elsewhere, Proposal, ProposalRequest, Refusal, Say
from kernel_lab.engine.proposers.people import (
    Words,
    entries_of,
    one_line,
    read_candidate,
    words_from_docstring,
    words_from_text,
    words_from_toml,
)

POLL_S = 0.5
SETTLED_S = 1.0
"""A file that changed less than this ago may still be written to."""


class Folder:
    """Watches one folder. `record` is a file of the lab that remembers what was taken for which experiment.

    `entries` are the lab's tasks with their entry functions. A file for another task than the one asked for
    is answered with that task's name, so that files of all tasks are taken in the order of their names.

    A file counts as taken once a later experiment is asked for, so that an engine killed in between takes it
    again, and only then.
    """

    name = "folder"

    def __init__(self, folder: Path, record: Path, entries: Mapping[str, str], *, given: bool) -> None:
        if given and not folder.is_dir():
            raise UsageError(f"{folder} is no folder; create it or use --proposer folder for the lab's inbox")
        self.folder = folder
        self.record = record
        self.entries = dict(entries)
        self.given = given

    async def propose(self, request: ProposalRequest, say: Say) -> Answer:
        """The next file that was not taken yet, or the task that it is for; waits for one."""
        said = ""
        while True:
            waiting = self._waiting(request)
            if waiting is not None:
                path, key, task = waiting
                if task != request.task.name:
                    return Elsewhere(task)
                self._take(key, request.experiment)
                say(f"Taking {one_line(path.name, 80)}.\n")
                return self._read(path, request)
            entries = " or ".join(f"`{entry}`" for entry in self.entries.values())
            text = f"Waiting for a file with {entries}: put NAME.py into {self.folder}\n"
            if text != said:
                say(text)
                said = text
            await asyncio.sleep(POLL_S)

    def _waiting(self, request: ProposalRequest) -> tuple[Path, str, str] | None:
        """The first file in the order of names that is whole and new, with its key and its task."""
        taken = self._taken()
        for path in self._files():
            try:
                status = path.lstat()
            except OSError:
                continue
            if 0 <= time.time() - status.st_mtime < SETTLED_S:
                continue
            try:
                source = read_candidate_file(path)
            except UsageError:
                key, task = f"{path}|{status.st_mtime_ns}|{status.st_size}", request.task.name
            else:
                key, task = f"{path}|{text_sha(source)}", self._task_of(source, request)
            if taken.get(key, request.experiment) == request.experiment:
                return path, key, task
        return None

    def _task_of(self, source: str, request: ProposalRequest) -> str:
        """The lab's task that a file has the entry function of; the one asked for where that is not plain."""
        found = entries_of(source)
        if request.task.entry in found:
            return request.task.name
        return next((task for task, entry in self.entries.items() if entry in found), request.task.name)

    def _files(self) -> list[Path]:
        try:
            if not self.given:
                self.folder.mkdir(exist_ok=True)
            with os.scandir(self.folder) as found:
                names = [item.name for item in found if item.name.endswith(".py") and not item.is_dir()]
        except OSError as error:
            why = (error.strerror or "unknown").lower()
            raise ProposerError(f"{self.folder} cannot be read ({why}); make it readable") from None
        return [self.folder / name for name in sorted(names) if not name.startswith(".")]

    def _read(self, path: Path, request: ProposalRequest) -> Answer:
        try:
            source = read_candidate_file(path)
            words = self._words(path, source)
            _, space = read_candidate(source, request)
        except (UsageError, CandidateInvalid) as error:
            text = f"{one_line(path.name, 80)}: {error}"
            return Refusal(Reason("scope", "folder", text))
        return Proposal(
            source=source,
            description=words.description or f"Try {one_line(path.name, 80)}.",
            hypothesis=words.hypothesis,
            prediction=words.prediction,
            lever=words.lever or f"file:{one_line(path.stem, 40)}",
            trial_space=space if words.trials else {},
        )

    def _words(self, path: Path, source: str) -> Words:
        toml, text = path.with_suffix(".toml"), path.with_suffix(".md")
        if os.path.lexists(toml):
            return words_from_toml(toml)
        if os.path.lexists(text):
            return words_from_text(read_candidate_file(text))
        return words_from_docstring(source)

    # ---- what was taken

    def _taken(self) -> dict[str, int]:
        """File and content to the experiment that they were taken for."""
        try:
            content = json.loads(self.record.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        if not isinstance(content, dict):
            return {}
        return {str(key): value for key, value in content.items() if isinstance(value, int)}

    def _take(self, key: str, experiment: int) -> None:
        taken = {**self._taken(), key: experiment}
        fresh = self.record.with_name(self.record.name + ".new")
        try:
            self.record.parent.mkdir(exist_ok=True)
            fresh.write_text(json.dumps(taken, indent=0), encoding="utf-8")
            fresh.replace(self.record)
        except OSError as error:
            why = (error.strerror or "unknown").lower()
            raise ProposerError(f"{self.record} cannot be written ({why}); make room or permit it") from None
