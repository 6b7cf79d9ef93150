"""What the command line prints: tables, JSON and single lines, with nothing in them that a terminal obeys.

Text from models, compilers and kernels passes through `clean` before a person sees it. JSON goes out
escaped, with numbers that JSON has no word for (NaN, infinities) as null.
"""

from __future__ import annotations

import dataclasses
import json
import math
import shutil
import sys
import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_UNSAFE_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})
_ELLIPSIS = "…"


def clean(text: str, *, keep_lines: bool = False) -> str:
    """`text` without control, format and private characters; one line unless `keep_lines`.

    Escape sequences lose their escape character and stay visible as what they are: text.
    """
    if keep_lines:
        return "\n".join(clean(line.replace("\t", "    ")) for line in text.split("\n"))
    spaced = "".join(" " if char.isspace() else char for char in text)
    return "".join(char for char in spaced if unicodedata.category(char) not in _UNSAFE_CATEGORIES)


PERSON = "person"
"""The human in front of the lab, as the ledger names them; texts say "you"."""


def who(name: str) -> str:
    """A proposer's or decider's name as texts have it."""
    return "you" if name == PERSON else name


def shorten(text: str, width: int) -> str:
    """`text` in at most `width` characters, with an ellipsis where it was cut."""
    return text if len(text) <= width else text[: max(0, width - 1)] + _ELLIPSIS


def plain(value: Any) -> Any:
    """`value` as JSON knows it: dataclasses become objects, tuples lists, paths strings, NaN null."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item) for item in value]
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def print_json(value: Any) -> None:
    """One JSON object for a whole answer, indented for people who look at it."""
    print(json.dumps(plain(value), indent=2, allow_nan=False))


def print_json_line(value: Any) -> None:
    """One JSON object on one line, flushed: the reader follows."""
    print(json.dumps(plain(value), allow_nan=False, separators=(", ", ": ")), flush=True)


def note(line: str) -> None:
    """One line beside the answer: standard output stays clean for what was asked."""
    print(clean(line), file=sys.stderr, flush=True)


def terminal_width() -> int | None:
    """Columns of the terminal on standard output; None where lines go to a file or a pipe."""
    return shutil.get_terminal_size((100, 30)).columns if sys.stdout.isatty() else None


def table(headers: Sequence[str], rows: Sequence[Sequence[Any]], *, right: Sequence[int] = ()) -> str:
    """Rows under headers in aligned columns; columns in `right` are numbers. The last column is cut at
    the terminal's edge, and whole where the output is no terminal. Cells are cleaned here."""
    cells = [[clean("" if cell is None else str(cell)) for cell in row] for row in rows]
    widths = [max([len(head)] + [len(row[i]) for row in cells]) for i, head in enumerate(headers)]
    edge = terminal_width()

    def line(row: Sequence[str]) -> str:
        parts = [
            cell.rjust(width) if i in right else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        text = "  ".join(parts).rstrip()
        return text if edge is None else shorten(text, edge)

    return "\n".join([line(headers), *(line(row) for row in cells)])


def tsv(headers: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Tab-separated lines; a cell holds no tab, line break or control character."""
    lines = ["\t".join(headers)]
    lines += ["\t".join(clean("" if cell is None else str(cell)) for cell in row) for row in rows]
    return "\n".join(lines)


def ratio(value: float | None, kind: str | None = None) -> str:
    """A ratio such as `1.31×`, with `~` before an estimate; a dash where there is none."""
    if value is None or not math.isfinite(value):
        return "–"
    return f"{'~' if kind == 'estimated' else ''}{value:.3f}×"
