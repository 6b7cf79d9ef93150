"""What proposals by people have in common: their words, and the tunables that trials settle for them."""

from __future__ import annotations

import ast
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernel_lab.engine.candidate import Candidate, Value, parse, read_candidate_file
from kernel_lab.engine.errors import UsageError
from kernel_lab.engine.facts import Prediction
from kernel_lab.engine.proposers.base import ProposalRequest
from kernel_lab.engine.proposers.levers import is_tunable
from kernel_lab.engine.tasks import workload_matrix

MAX_WORDS = 2_000
MAX_LINE = 300


@dataclass(frozen=True, slots=True)
class Words:
    """What a person says about a candidate."""

    description: str = ""
    hypothesis: str = ""
    lever: str = ""
    gain_percent: float | None = None
    bottleneck: str | None = None
    trials: bool = True
    """Whether trials may settle its tunables."""

    @property
    def prediction(self) -> Prediction:
        return Prediction(self.gain_percent, self.bottleneck)


def one_line(text: str, limit: int = MAX_LINE) -> str:
    """Printable text on one line."""
    line = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def words_from_text(text: str) -> Words:
    """First line the description, the rest the hypothesis."""
    first, _, rest = text.strip().partition("\n")
    return Words(one_line(first.lstrip("# ")), one_line(rest, MAX_WORDS))


def words_from_docstring(source: str) -> Words:
    """The module's docstring, read as `words_from_text` does."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return Words()
    return words_from_text(ast.get_docstring(tree) or "")


def words_from_toml(path: Path) -> Words:
    """A sidecar `NAME.toml`. Raises UsageError if a key is unknown or of the wrong kind."""
    kinds: dict[str, tuple[type, ...]] = {
        "description": (str,), "hypothesis": (str,), "lever": (str,), "gain_percent": (int, float),
        "bottleneck": (str,), "trials": (bool,),
    }  # fmt: skip
    try:
        table: dict[str, Any] = tomllib.loads(read_candidate_file(path))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise UsageError(f"{path.name}: {one_line(str(error))}; mend the file") from None
    for key, value in table.items():
        if key not in kinds:
            raise UsageError(f'{path.name}: unknown key "{one_line(key, 40)}"; use {", ".join(kinds)}')
        if type(value) not in kinds[key]:
            names = " or ".join(kind.__name__ for kind in kinds[key])
            raise UsageError(f'{path.name}: "{key}" is no {names}; mend the file')
    texts = {key: one_line(value, MAX_WORDS) for key, value in table.items() if isinstance(value, str)}
    return Words(**{**table, **texts})


def trial_space(candidate: Candidate, request: ProposalRequest) -> dict[str, dict[str, list[Value]]]:
    """Every numeric tunable for every timed bucket, so that no idea is lost to a bad tile."""
    tunables = {name: list(values) for name, values in candidate.space.items() if is_tunable(values)}
    if not tunables or request.trials < 1:
        return {}
    workloads, _ = workload_matrix(request.task, request.model, request.gpu)
    return {bucket: dict(tunables) for bucket in dict.fromkeys(workload["bucket"] for workload in workloads)}


def read_candidate(
    source: str, request: ProposalRequest
) -> tuple[Candidate, dict[str, dict[str, list[Value]]]]:
    """The candidate and what trials settle: nothing if the same code was judged before.

    Raises CandidateInvalid.
    """
    candidate = parse(source, request.task.entry)
    repeated = any(past.canonical_sha == candidate.canonical_sha for past in request.history)
    return candidate, {} if repeated else trial_space(candidate, request)


def entries_of(source: str) -> set[str]:
    """Names of the functions at module level; none of a text that is no Python."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set()
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
