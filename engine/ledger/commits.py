"""Git commits as pure functions of the ledger: the same events give the same ids on every machine.

A commit's tree is `candidate.py` and `result.json`. Author, committer and time zone are fixed, the date is
that of the verdict. Texts of untrusted origin become single lines without control characters.
"""

from __future__ import annotations

import hashlib
import json
import unicodedata
from dataclasses import dataclass
from typing import Any

IDENTITY = "kernel-lab <kernel-lab@localhost>"
SUBJECT_CHARS = 120
TEXT_CHARS = 2000


@dataclass(frozen=True, slots=True)
class Candidate:
    """What one experiment's commit says."""

    experiment: int
    task: str
    parent: int | None
    proposer: str
    status: str
    description: str
    hypothesis: str
    why: str
    """First reason of the verdict, empty for a keep."""
    judged: float
    """Seconds since the epoch."""


def one_line(text: str, chars: int) -> str:
    """Text that can neither start a line, nor steer a terminal, nor reorder what stands beside it."""
    plain = "".join(" " if unicodedata.category(char)[0] in "CZ" else char for char in text[: 4 * chars])
    line = " ".join(plain.split())
    return line if len(line) <= chars else line[: chars - 1] + "…"


def result_json(result: dict[str, Any]) -> str:
    """Content of `result.json`."""
    return json.dumps(result, indent=2, sort_keys=True) + "\n"


def object_id(kind: str, data: bytes) -> str:
    """Git's name of an object."""
    return hashlib.sha1(f"{kind} {len(data)}\0".encode() + data, usedforsecurity=False).hexdigest()


def tree(source: bytes, result: str) -> bytes:
    """Git tree object with the two files."""
    files = (("candidate.py", source), ("result.json", result.encode()))
    return b"".join(
        f"100644 {name}\0".encode() + bytes.fromhex(object_id("blob", data)) for name, data in files
    )


def message(candidate: Candidate) -> str:
    lines = [
        one_line(f"#{candidate.experiment} {candidate.status}: {candidate.description}", SUBJECT_CHARS),
        "",
    ]
    parent = "none" if candidate.parent is None else f"#{candidate.parent}"
    for key, value in (
        ("Task", candidate.task),
        ("Parent", parent),
        ("Proposer", candidate.proposer),
        ("Verdict", candidate.status),
        ("Why", candidate.why),
        ("Hypothesis", candidate.hypothesis),
    ):
        if value:
            lines.append(f"{key}: {one_line(value, TEXT_CHARS)}")
    return "\n".join(lines) + "\n"


def commit_object(candidate: Candidate, source: bytes, result: str, parent_commit: str | None) -> str:
    """Text of the git commit object; `object_id("commit", text.encode())` is its id."""
    stamp = f"{IDENTITY} {int(candidate.judged)} +0000"
    lines = [f"tree {object_id('tree', tree(source, result))}"]
    if parent_commit is not None:
        lines.append(f"parent {parent_commit}")
    lines += [f"author {stamp}", f"committer {stamp}", "", message(candidate)]
    return "\n".join(lines)
