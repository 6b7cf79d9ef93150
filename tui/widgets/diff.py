"""The diff pane: unified, coloured, bounded, with the side's line numbers. Signs tell what colour repeats."""

from __future__ import annotations

from collections.abc import Sequence

from kernel_lab.tui import theme
from kernel_lab.tui.diffs import Diff, DiffRow
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


class DiffView(Lines):
    """Shows one diff. `title` is the pane's own heading, such as `#12 against #9 (parent)`."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self.diff: Diff | None = None

    def show_diff(self, diff: Diff | None, heading: str, subject: object = None) -> None:
        """Show a diff, or only the heading (a reason why there is none)."""
        self.diff = diff
        self.show(lambda width: diff_lines(diff, heading, width), subject)

    def plain(self) -> str:
        return self.diff.plain() if self.diff else super().plain()


def diff_lines(diff: Diff | None, heading: str, width: int) -> Sequence[Text]:
    """Heading, then every row of the diff; rows are not wrapped."""
    if diff is None:
        return [Text.styled(heading, theme.DIM)]
    head = Text.styled(heading, theme.LABEL)
    if diff.same and not any(row.kind == "same" for row in diff.rows):
        return [head, Text.styled("no difference", theme.DIM)]
    if not diff.same:
        head.append(f"  +{diff.added}", theme.GOOD)
        head.append(f" -{diff.removed}", theme.BAD)
    widest = max((max(row.old or 0, row.new or 0) for row in diff.rows), default=0)
    digits = max(3, len(str(widest)))
    return [head, *(_row(row, digits, width) for row in diff.rows)]


def _row(row: DiffRow, digits: int, width: int) -> Text:
    if row.kind in ("hunk", "note"):
        return Text.styled(pad(row.text, width), _STYLES[row.kind])
    number = row.new if row.kind != "remove" else row.old
    line = Text.styled(f"{number:>{digits}} ", theme.DIM)
    body = f"{_SIGNS[row.kind]} {row.text}"
    fill = width - digits - 1
    line.append(pad(body, fill) if row.kind != "same" and len(body) < fill else body, _STYLES[row.kind])
    return line
