"""Probes that people name with a veto: a piece of Python that describes the cheat, looked for in candidates.

A pattern is one expression or statement. `_` stands for any one expression, `...` among arguments, elements
or statements for any number of them; keyword arguments that are not named may be there too:

    torch.empty_like(_)        any call of it with one argument and any keywords
    _[:, -1]                   the last column of anything
    if _.shape[0] == _: ...    a branch for one size
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from kernel_lab.engine.candidate import parse_tree
from kernel_lab.engine.errors import CandidateInvalid, UsageError
from kernel_lab.engine.facts import Reason

MAX_CHARS = 500
_LEFT_OUT = frozenset({"ctx", "type_comment", "kind", "lineno", "col_offset", "end_lineno", "end_col_offset"})


@dataclass(frozen=True, slots=True)
class VetoProbe:
    """`experiment` is the one that was vetoed for it."""

    experiment: int
    pattern: str


def parse_pattern(text: str) -> ast.AST:
    """The pattern's tree. Raises UsageError for one that is none, or that fits everything."""
    if len(text) > MAX_CHARS:
        raise UsageError(f"a probe has at most {MAX_CHARS} characters: describe the cheat more shortly")
    try:
        body = ast.parse(text.strip()).body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        what = getattr(error, "msg", "") or "it cannot be read"
        raise UsageError(
            f"the probe is no Python ({what}): give one expression or statement, with _ for any part"
        ) from None
    if len(body) != 1:
        raise UsageError("a probe is one expression or statement: give one, with _ for any part")
    found: ast.AST = body[0].value if isinstance(body[0], ast.Expr) else body[0]
    if _is_any(found) or _is_rest(found):
        raise UsageError("the probe fits everything: name a part of the cheat, with _ for any other part")
    return found


def lines_of(pattern: str, source: str) -> list[int]:
    """Lines of a candidate that the pattern fits; none where the candidate cannot be parsed."""
    wanted = parse_pattern(pattern)
    try:
        tree = parse_tree(source)
        return sorted({getattr(node, "lineno", 1) for node in ast.walk(tree) if _fits(wanted, node)})
    except (CandidateInvalid, RecursionError):
        return []


def look(probes: Sequence[VetoProbe], source: str) -> tuple[Reason, ...]:
    """A reason for every probe that fits the candidate."""
    found = []
    for probe in probes:
        lines = lines_of(probe.pattern, source)
        if lines:
            what = f"line {lines[0]}: #{probe.experiment} was vetoed for this: {probe.pattern}"
            found.append(Reason("lint", "veto_probe", what))
    return tuple(found)


def _is_any(node: object) -> bool:
    return isinstance(node, ast.Name) and node.id == "_"


def _is_rest(node: object) -> bool:
    if isinstance(node, ast.Expr):
        node = node.value
    return isinstance(node, ast.Constant) and node.value is ...


def _fits(wanted: object, found: object) -> bool:
    if _is_any(wanted):
        return isinstance(found, ast.expr)
    if isinstance(wanted, ast.AST):
        if type(wanted) is not type(found):
            return False
        return all(
            _keywords(wanted.keywords, getattr(found, "keywords", []))
            if name == "keywords" and isinstance(wanted, ast.Call)
            else _fits(value, getattr(found, name, None))
            for name, value in ast.iter_fields(wanted)
            if name not in _LEFT_OUT
        )
    if isinstance(wanted, list):
        return isinstance(found, list) and _sequence(wanted, found)
    return type(wanted) is type(found) and wanted == found


def _sequence(wanted: list[object], found: list[object]) -> bool:
    """Whether the elements fit in order, `...` taking up any number of them."""
    reached = {0}
    for one in wanted:
        if _is_rest(one):
            reached = set(range(min(reached), len(found) + 1)) if reached else set()
        else:
            reached = {at + 1 for at in reached if at < len(found) and _fits(one, found[at])}
    return len(found) in reached


def _keywords(wanted: list[ast.keyword], found: list[ast.keyword]) -> bool:
    return all(
        any(one.arg == other.arg and _fits(one.value, other.value) for other in found) for one in wanted
    )
