"""The history: thousands of experiments in a chosen order, one plain sentence of why for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kernel_lab.tui import theme
from kernel_lab.tui.history import ORDERS, HistoryRow, Order, branch, cells, in_order, matches
from kernel_lab.tui.text import fit, pad
from kernel_lab.tui.widgets.table import Table
from rich.text import Text

_COLUMNS = (("#", 6, "right"), ("task", 8, "left"), ("status", 13, "left"), ("× seed", 7, "right"))
_WIDE_COLUMNS = (*_COLUMNS, ("× FA2", 7, "right"), ("tried", 5, "right"))
_WIDE_FROM = 96


class History(Table):
    """Experiments with a cursor. Without a person's doing the cursor stays on the first row."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._rows: dict[int, HistoryRow] = {}
        self._shown: list[tuple[int, int]] = []
        self._row_at: dict[int, int] = {}
        self.order: Order = "newest"
        self._query = ""
        self._chosen: int | None = None
        self._estimated = True

    # ---- what it shows

    def set_rows(self, rows: Mapping[int, HistoryRow]) -> None:
        """Show this history in place of any before."""
        self._rows = dict(rows)
        self._refilter()

    def say_kind(self, estimated: bool) -> None:
        """Whether the ratios were estimated: the heading says so."""
        if estimated != self._estimated:
            self._estimated = estimated
            self.refresh()

    def update_rows(self, rows: Sequence[HistoryRow]) -> None:
        """Take changed or new rows in; the cursor stays on its experiment."""
        moved = False
        for row in rows:
            known = self._rows.get(row.experiment)
            self._rows[row.experiment] = row
            moved |= known is None or matches(known, self._query) != matches(row, self._query)
            moved |= self.order == "fastest" and known is not None and known.score_seed != row.score_seed
        if moved:
            self._refilter()
            return
        for row in rows:
            line = self._row_of(row.experiment)
            if line is not None:
                self.refresh_line(line + 1)

    def filter(self, query: str) -> None:
        """Leave only the rows that hold every word of `query`."""
        if query != self._query:
            self._query = query
            self._refilter()

    @property
    def filtered_by(self) -> str:
        return self._query

    @property
    def shown(self) -> Sequence[int]:
        """Experiments that the filter leaves, oldest first."""
        return sorted(self._row_at)

    def turn_order(self) -> Order:
        """Newest first, then fastest first, then the tree of parents; the order that it is now."""
        self.order = ORDERS[(ORDERS.index(self.order) + 1) % len(ORDERS)]
        chosen = self.experiment
        self._refilter()
        if chosen is not None and self._chosen is not None:
            self.go_to(self._row_at.get(chosen, 0))
        return self.order

    @property
    def experiment(self) -> int | None:
        """The experiment under the cursor: that of the first row unless a person moved."""
        if self._chosen is not None and self._row_of(self._chosen) is not None:
            return self._chosen
        return self._shown[0][0] if self._shown else None

    def _refilter(self) -> None:
        rows = self._rows.values()
        left = [row for row in rows if matches(row, self._query)] if self._query else rows
        self._shown = in_order(left, self.order)
        self._row_at = {number: row for row, (number, _) in enumerate(self._shown)}
        self.rows_changed()

    def _row_of(self, experiment: int | None) -> int | None:
        return None if experiment is None else self._row_at.get(experiment)

    # ---- as a table

    def row_count(self) -> int:
        return len(self._shown)

    def cursor_row(self) -> int | None:
        return self._row_of(self.experiment)

    def set_cursor_row(self, row: int) -> None:
        self._chosen = None if row == 0 and self.order == "newest" else self._shown[row][0]

    def heading(self, width: int) -> str:
        heads = [
            head.rjust(size) if side == "right" else pad(head, size) for head, size, side in _columns(width)
        ]
        line = " ".join(heads)
        order = {"newest": "", "fastest": ", fastest first", "tree": ", as a tree"}[self.order]
        if not self._estimated:
            return f"{line} why{order}"
        said = f"{line} why (ratios are estimated){order}"
        return said if width >= len(said) else f"{line} why (estimated){order}"

    def empty_text(self) -> str:
        return f"nothing holds {self._query!r}" if self._query else "no experiment yet"

    def row_text(self, row: int, width: int) -> Text:
        number, depth = self._shown[row]
        return row_text(self._rows[number], width, branch(depth))

    def plain(self) -> str:
        lines = ["\t".join([head for head, _, _ in _WIDE_COLUMNS] + ["why"])]
        for experiment, depth in self._shown:
            row = self._rows[experiment]
            lines.append("\t".join([*(cell.strip() for cell in cells(row)), branch(depth) + row.why]))
        return "\n".join(lines)


def _columns(width: int) -> Sequence[tuple[str, int, str]]:
    return _WIDE_COLUMNS if width >= _WIDE_FROM else _COLUMNS


def row_text(row: HistoryRow, width: int, before: str = "") -> Text:
    """One experiment in one line; `before` stands in front of its sentence."""
    styles = (
        theme.BOLD if row.champion else theme.LABEL,
        theme.task_style(row.task),
        theme.status_style(row.status),
        theme.PLAIN,
        theme.PLAIN,
        theme.DIM,
    )
    line = Text()
    for (_, size, side), cell, style in zip(_columns(width), cells(row), styles, strict=False):
        line.append((cell.rjust(size) if side == "right" else pad(cell, size)) + " ", style)
    room = width - line.cell_len
    if room > 0:
        told = row.status in ("keep", "held", "running", "seed")
        line.append(before[:room], theme.LABEL)
        room = max(0, room - len(before))
        line.append(fit(row.why, room), theme.PLAIN if told else theme.DIM)
    return line
