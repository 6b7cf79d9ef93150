"""Which parts of a candidate's lines are keywords, strings, numbers and comments: spans, no colours.

The whole text is read at once, so that a string over many lines is one on each of them. Bounded: a text
that is too long for a kernel has no spans, and is shown plain.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

Kind = Literal["keyword", "string", "number", "comment", "name"]
Span = tuple[int, int, Kind]
"""First character, the one behind the last, and what they are."""

TEXT_LIMIT = 200_000
SPANS_OF_A_LINE = 200


def spans_of(lines: Sequence[str]) -> list[tuple[Span, ...]]:
    """Spans of each line of a Python text; lines hold no line break."""
    text = "\n".join(lines)
    if len(text) > TEXT_LIMIT:
        return [()] * len(lines)
    return list(_spans(text))


@lru_cache(maxsize=16)
def _spans(text: str) -> tuple[tuple[Span, ...], ...]:
    from pygments.lexers.python import PythonLexer

    lexer = PythonLexer(stripnl=False, ensurenl=False)
    result: list[tuple[Span, ...]] = []
    line: list[Span] = []
    column = 0
    for token, value in lexer.get_tokens(text):
        kind = _kind(str(token))
        for index, piece in enumerate(value.split("\n")):
            if index:
                result.append(tuple(line))
                line, column = [], 0
            end = column + len(piece)
            if kind is not None and piece and len(line) < SPANS_OF_A_LINE:
                if line and line[-1][1] == column and line[-1][2] == kind:
                    line[-1] = (line[-1][0], end, kind)
                else:
                    line.append((column, end, kind))
            column = end
    result.append(tuple(line))
    return tuple(result)


def _kind(token: str) -> Kind | None:
    for prefix, kind in _KINDS:
        if token.startswith(prefix):
            return kind
    return None


_KINDS: tuple[tuple[str, Kind], ...] = (
    ("Token.Keyword", "keyword"),
    ("Token.Operator.Word", "keyword"),
    ("Token.Literal.String", "string"),
    ("Token.Literal.Number", "number"),
    ("Token.Comment", "comment"),
    ("Token.Name.Function", "name"),
    ("Token.Name.Class", "name"),
    ("Token.Name.Decorator", "name"),
)
