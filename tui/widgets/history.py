"""The history: thousands of experiments, newest first, of which only the rows in sight are ever drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kernel_lab.tui import theme
from kernel_lab.tui.history import HistoryRow, cells, matches
from kernel_lab.tui.text import pad
from kernel_lab.tui.widgets.pane import Pane
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Size
from textual.message import Message
from textual.strip import Strip

_HEADS = ("   #", "task", "status", "× seed", "× FA2", "tried", "why")
_WIDTHS = (6, 8, 13, 7, 7, 5)
_GAP = 1
_SELECTED = Style(bgcolor="#22344a")
_SELECTED_BLURRED = Style(bgcolor="#1a2431")


class History(Pane):
    """A table with a cursor over experiments. Line 0 is the heading and stays while the rest scrolls."""

    class Chosen(Message):
        """Enter or a click on the row that is chosen already: the person wants to see this experiment."""

        def __init__(self, experiment: int) -> None:
            super().__init__()
            self.experiment = experiment

    class Moved(Message):
        """The cursor stands on another experiment."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._rows: dict[int, HistoryRow] = {}
        self._shown: list[int] = []
        self._query = ""
        self._cursor: int | None = None
        self.estimated = True

    # ---- what it shows

    def set_rows(self, rows: Mapping[int, HistoryRow]) -> None:
        """Show this history in place of any before."""
        self._rows = dict(rows)
        self._refilter()

    def update_rows(self, rows: Sequence[HistoryRow]) -> None:
        """Take changed or new rows in; the cursor stays on its experiment."""
        fresh = False
        for row in rows:
            known = self._rows.get(row.experiment)
            self._rows[row.experiment] = row
            fresh |= known is None or matches(known, self._query) != matches(row, self._query)
        if fresh:
            self._refilter()
            return
        for row in rows:
            self._refresh_row(row.experiment)

    def filter(self, query: str) -> None:
        """Leave only the rows that hold every word of `query`."""
        if query != self._query:
            self._query = query
            self._refilter()

    @property
    def query(self) -> str:  # type: ignore[override]
        return self._query

    @property
    def shown(self) -> Sequence[int]:
        """Experiments in sight of the filter, oldest first."""
        return self._shown

    @property
    def cursor(self) -> int | None:
        """The experiment chosen; the newest unless a person moved."""
        if self._cursor is not None:
            return self._cursor
        return self._shown[-1] if self._shown else None

    def _refilter(self) -> None:
        self._shown = sorted(n for n, row in self._rows.items() if matches(row, self._query))
        if self._cursor is not None and self._cursor not in self._rows:
            self._cursor = None
        size = Size(0, len(self._shown) + 1)
        if size != self.virtual_size:
            self.virtual_size = size
        self.refresh()

    # ---- moving

    def move_to(self, experiment: int) -> None:
        """Put the cursor on an experiment and bring it into sight."""
        before, self._cursor = self.cursor, experiment
        if self._shown and experiment == self._shown[-1]:
            self._cursor = None
        line = self._line_of(experiment)
        if line is not None:
            top, height = self.scroll_offset.y, self.size.height - 1
            if line < top:
                self.scroll_to(y=line, animate=False)
            elif line >= top + height:
                self.scroll_to(y=line - height + 1, animate=False)
        if before != experiment:
            self.refresh()
            self.post_message(self.Moved())

    def _move_by(self, lines: int) -> None:
        if not self._shown:
            return
        here = self._line_of(self.cursor)
        line = min(len(self._shown) - 1, max(0, (0 if here is None else here) + lines))
        self.move_to(self._shown[-1 - line])

    def _line_of(self, experiment: int | None) -> int | None:
        """Line below the heading, the newest being 0."""
        if experiment is None:
            return None
        low, high = 0, len(self._shown)
        while low < high:
            middle = (low + high) // 2
            if self._shown[middle] < experiment:
                low = middle + 1
            else:
                high = middle
        if low == len(self._shown) or self._shown[low] != experiment:
            return None
        return len(self._shown) - 1 - low

    def move_up(self) -> None:
        self._move_by(-1)

    def move_down(self) -> None:
        self._move_by(1)

    def move_page_up(self) -> None:
        self._move_by(-self._page())

    def move_page_down(self) -> None:
        self._move_by(self._page())

    def move_top(self) -> None:
        self._move_by(-len(self._shown))

    def move_bottom(self) -> None:
        self._move_by(len(self._shown))

    def on_click(self, event: events.Click) -> None:
        line = event.y - 1 + self.scroll_offset.y
        if event.y < 1 or line >= len(self._shown):
            return
        experiment = self._shown[-1 - line]
        if experiment == self.cursor and event.chain >= 2:
            self.post_message(self.Chosen(experiment))
        self.move_to(experiment)

    # ---- drawing

    def _refresh_row(self, experiment: int) -> None:
        line = self._line_of(experiment)
        if line is not None:
            self.refresh_line(line + 1)

    def render_line(self, y: int) -> Strip:
        width, background = self.size.width, self.rich_style
        if y == 0:
            heads = [pad(head, size) for head, size in zip(_HEADS, _WIDTHS, strict=False)]
            line = (" " * _GAP).join([*heads, "why"])
            return Strip([Segment(pad(line, width), background + theme.LABEL)], width)
        index = y - 1 + self.scroll_offset.y
        if index >= len(self._shown):
            if index == 0:
                words = f"nothing holds {self._query!r}" if self._query else "no experiment yet"
                return Strip([Segment(pad(words, width), background + theme.DIM)], width)
            return Strip.blank(width, background)
        row = self._rows[self._shown[-1 - index]]
        if row.experiment == self.cursor:
            background += _SELECTED if self.has_focus else _SELECTED_BLURRED
        return _row_strip(row, width, background)

    def plain(self) -> str:
        lines = ["\t".join(head.strip() for head in _HEADS)]
        for experiment in reversed(self._shown):
            row = self._rows[experiment]
            lines.append("\t".join([*(cell.strip() for cell in cells(row)), row.why]))
        return "\n".join(lines)


def _row_strip(row: HistoryRow, width: int, background: Style) -> Strip:
    status = theme.status_style(row.status)
    styles = (
        theme.BOLD if row.champion else theme.LABEL,
        theme.task_style(row.task),
        status,
        theme.PLAIN,
        theme.PLAIN,
        theme.DIM,
    )
    segments: list[Segment] = []
    used = 0
    for column, (cell, size, style) in enumerate(zip(cells(row), _WIDTHS, styles, strict=True)):
        shown = pad(cell.rjust(size) if column in (0, 3, 4, 5) else cell, size) + " " * _GAP
        segments.append(Segment(shown, background + style))
        used += size + _GAP
    if used < width:
        words = theme.PLAIN if row.status in ("keep", "held", "running", "seed") else theme.DIM
        segments.append(Segment(pad(row.why, width - used), background + words))
        used = width
    return Strip(segments, used).crop(0, width)
