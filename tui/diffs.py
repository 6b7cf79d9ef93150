"""Diffs as plain rows, unified or side by side; bounded, so that a hostile candidate makes nobody wait."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from functools import lru_cache
from itertools import zip_longest
from typing import Literal

from kernel_lab.tui.syntax import Span, spans_of
from kernel_lab.tui.text import lines_of

MAX_LINES = 6_000
"""Lines of either text that are compared: far above any kernel, far below what difflib chokes on."""

MAX_ROWS = 2_000
CONTEXT = 3

RowKind = Literal["add", "remove", "same", "hunk", "note"]


@dataclass(frozen=True, slots=True)
class DiffRow:
    """One line of a diff; line numbers count from 1 and are None where the side has no such line."""

    kind: RowKind
    text: str
    old: int | None = None
    new: int | None = None
    spans: tuple[Span, ...] = ()
    """What is what in `text`, for its colours."""


@dataclass(frozen=True, slots=True)
class Diff:
    rows: tuple[DiffRow, ...]
    added: int
    removed: int

    @property
    def same(self) -> bool:
        return not self.added and not self.removed

    def plain(self) -> str:
        """The diff as text, as `y` copies it."""
        sign = {"add": "+", "remove": "-", "same": " ", "hunk": "", "note": "# "}
        return "\n".join(sign[row.kind] + row.text for row in self.rows)


@lru_cache(maxsize=32)
def unified(old: str, new: str, context: int = CONTEXT) -> Diff:
    """How to get from `old` to `new`. Lines are cleaned for display before they are compared."""
    before, after = lines_of(old, MAX_LINES), lines_of(new, MAX_LINES)
    old_spans, new_spans = spans_of(before), spans_of(after)
    rows: list[DiffRow] = []
    added = removed = 0
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=len(before) + len(after) > 3_000)
    for group in matcher.get_grouped_opcodes(context):
        first, last = group[0], group[-1]
        hunk = f"@@ -{first[1] + 1},{last[2] - first[1]} +{first[3] + 1},{last[4] - first[3]} @@"
        rows.append(DiffRow("hunk", hunk))
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                pairs = zip(range(i1, i2), range(j1, j2), strict=True)
                rows += [DiffRow("same", before[i], i + 1, j + 1, new_spans[j]) for i, j in pairs]
                continue
            rows += [DiffRow("remove", before[i], i + 1, None, old_spans[i]) for i in range(i1, i2)]
            rows += [DiffRow("add", after[j], None, j + 1, new_spans[j]) for j in range(j1, j2)]
            removed += i2 - i1
            added += j2 - j1
    if len(rows) > MAX_ROWS:
        rows = [*rows[:MAX_ROWS], DiffRow("note", f"... {len(rows) - MAX_ROWS:,} more lines of the diff")]
    return Diff(tuple(rows), added, removed)


def whole(source: str) -> Diff:
    """A candidate that has nothing before it, every line as it stands."""
    lines = lines_of(source, MAX_ROWS)
    spans = spans_of(lines)
    rows = (DiffRow("same", line, None, n, spans[n - 1]) for n, line in enumerate(lines, 1))
    return Diff(tuple(rows), 0, 0)


def paired(diff: Diff) -> list[tuple[DiffRow | None, DiffRow | None]]:
    """Rows side by side: what was removed beside what took its place; None where a side has no line.

    A hunk's heading and a note stand on both sides.
    """
    result: list[tuple[DiffRow | None, DiffRow | None]] = []
    removed: list[DiffRow] = []
    added: list[DiffRow] = []

    def settle() -> None:
        result.extend(zip_longest(removed, added))
        removed.clear()
        added.clear()

    for row in diff.rows:
        if row.kind == "remove":
            if added:
                settle()
            removed.append(row)
        elif row.kind == "add":
            added.append(row)
        else:
            settle()
            result.append((row, row))
    settle()
    return result
