"""The diff pane: unified or side by side, coloured, bounded, with the sides' line numbers.

Signs tell what colour repeats.
"""

from __future__ import annotations

from collections.abc import Sequence

from kernel_lab.tui import theme
from kernel_lab.tui.diffs import Diff, DiffRow, paired
from kernel_lab.tui.text import pad
from kernel_lab.tui.widgets.pane import Lines
from rich.style import Style
from rich.text import Text

_STYLES: dict[str, Style] = {
    "add": theme.ADDED,
    "remove": theme.REMOVED,
    "same": theme.PLAIN,
    "hunk": theme.HUNK,
    "note": theme.DIM,
}
_SIGNS = {"add": "+", "remove": "-", "same": " "}
_SYNTAX: dict[str, Style] = {
    "keyword": theme.ACCENT,
    "string": theme.STRING,
    "number": theme.NUMBER,
    "comment": theme.COMMENT,
    "name": theme.BOLD,
}
SIDE_LEAST = 60
"""Cells of a pane from which on two sides have room."""


class DiffView(Lines):
    """Shows one diff. `title` is the pane's own heading, such as `#12 against #9 (parent)`."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self.diff: Diff | None = None
        self.side_by_side = False
        self._heading = ""
        self._shown: object = None

    def show_diff(self, diff: Diff | None, heading: str, subject: object = None) -> None:
        """Show a diff, or only the heading (a reason why there is none)."""
        self.diff, self._heading, self._shown = diff, heading, subject
        self._show()

    def turn(self) -> str:
        """Side by side in place of unified, or back; what it is now, or why the sides have no room."""
        self.side_by_side = not self.side_by_side
        self._show()
        if self.side_by_side and self.inner_width < SIDE_LEAST:
            return f"side by side from {SIDE_LEAST} columns on: give the diff more room (z)"
        return "the diff stands side by side" if self.side_by_side else "the diff is unified"

    def _show(self) -> None:
        diff, heading = self.diff, self._heading
        if self.side_by_side:
            self.show(lambda width: side_lines(diff, heading, width), (self._shown, "sides"))
        else:
            self.show(lambda width: diff_lines(diff, heading, width), self._shown)

    def plain(self) -> str:
        return self.diff.plain() if self.diff else super().plain()


def diff_lines(diff: Diff | None, heading: str, width: int) -> Sequence[Text]:
    """Heading, then every row of the diff; rows are not wrapped."""
    if diff is None or _nothing(diff):
        return _head(diff, heading)
    digits = _digits(diff)
    return [*_head(diff, heading), *(_row(row, digits, width) for row in diff.rows)]


def side_lines(diff: Diff | None, heading: str, width: int) -> Sequence[Text]:
    """Heading, then both sides in two columns, cut to them; unified where they have no room."""
    if diff is None or _nothing(diff) or width < SIDE_LEAST:
        return diff_lines(diff, heading, width)
    digits, side = _digits(diff), (width - 1) // 2
    lines = _head(diff, heading)
    for left, right in paired(diff):
        if left is not None and left.kind in ("hunk", "note"):
            lines.append(_row(left, digits, width))
            continue
        line = _side(left, left.old if left else None, digits, side)
        line.append("│", theme.DIM)
        lines.append(line.append_text(_side(right, right.new if right else None, digits, width - side - 1)))
    return lines


def _nothing(diff: Diff) -> bool:
    return diff.same and not any(row.kind == "same" for row in diff.rows)


def _digits(diff: Diff) -> int:
    widest = max((max(row.old or 0, row.new or 0) for row in diff.rows), default=0)
    return max(3, len(str(widest)))


def _head(diff: Diff | None, heading: str) -> list[Text]:
    if diff is None:
        return [Text.styled(heading, theme.DIM)]
    head = Text.styled(heading, theme.LABEL)
    if _nothing(diff):
        return [head, Text.styled("no difference", theme.DIM)]
    if not diff.same:
        head.append(f"  +{diff.added}", theme.GOOD)
        head.append(f" -{diff.removed}", theme.BAD)
    return [head]


def _row(row: DiffRow, digits: int, width: int) -> Text:
    if row.kind in ("hunk", "note"):
        return Text.styled(pad(row.text, width), _STYLES[row.kind])
    number = row.new if row.kind != "remove" else row.old
    line = Text.styled(f"{number:>{digits}} ", theme.DIM)
    body = f"{_SIGNS[row.kind]} {row.text}"
    fill = width - digits - 1
    line.append(pad(body, fill) if row.kind != "same" and len(body) < fill else body, _STYLES[row.kind])
    _colour(line, row, digits + 3, len(line.plain))
    return line


def _side(row: DiffRow | None, number: int | None, digits: int, width: int) -> Text:
    """One side of one line, exactly `width` cells."""
    if row is None:
        return Text(" " * width)
    line = Text.styled(f"{number or '':>{digits}} ", theme.DIM)
    body = pad(f"{_SIGNS[row.kind]} {row.text}", width - digits - 1)
    line.append(body, _STYLES[row.kind])
    _colour(line, row, digits + 3, len(line.plain))
    return line


def _colour(line: Text, row: DiffRow, offset: int, end: int) -> None:
    """Colour the words of a row that stands at `offset` of its line."""
    for first, last, kind in row.spans:
        if first + offset >= end:
            break
        line.stylize(_SYNTAX[kind], first + offset, min(end, last + offset))
