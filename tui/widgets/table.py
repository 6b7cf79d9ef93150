"""A list with a cursor under a heading that stays: only the rows in sight are asked for and drawn."""

from __future__ import annotations

from kernel_lab.tui import theme
from kernel_lab.tui.text import pad
from kernel_lab.tui.widgets.pane import Pane, strip_of
from rich.segment import Segment
from rich.text import Text
from textual import events
from textual.geometry import Size
from textual.message import Message
from textual.strip import Strip


class Table(Pane):
    """Rows count from 0 at the top; what they are is the subclass's matter."""

    class Chosen(Message):
        """A second click on the row under the cursor: the person wants to see it."""

        def __init__(self, table: Table) -> None:
            super().__init__()
            self.table = table

        @property
        def control(self) -> Table:
            return self.table

    class Moved(Message):
        """The cursor stands on another row."""

        def __init__(self, table: Table) -> None:
            super().__init__()
            self.table = table

        @property
        def control(self) -> Table:
            return self.table

    def row_count(self) -> int:
        raise NotImplementedError

    def row_text(self, row: int, width: int) -> Text:
        """One row, cut to `width` cells or longer: it is cut here."""
        raise NotImplementedError

    def heading(self, width: int) -> str:
        raise NotImplementedError

    def empty_text(self) -> str:
        raise NotImplementedError

    def cursor_row(self) -> int | None:
        raise NotImplementedError

    def set_cursor_row(self, row: int) -> None:
        raise NotImplementedError

    # ---- moving

    def rows_changed(self) -> None:
        """The number of rows may have changed: measure and draw anew."""
        self.measure(Size(0, self.row_count() + 1))
        self.refresh()

    def go_to(self, row: int) -> None:
        """Put the cursor on a row and bring it into sight."""
        before = self.cursor_row()
        self.set_cursor_row(row)
        top, height = self.scroll_offset.y, max(1, self.size.height - 1)
        if row < top:
            self.scroll_to(y=row, animate=False)
        elif row >= top + height:
            self.scroll_to(y=row - height + 1, animate=False)
        if before != row:
            for changed in (before, row):
                if changed is not None:
                    self.refresh_line(changed + 1)
            self.post_message(self.Moved(self))

    def _move_by(self, rows: int) -> None:
        if self.row_count():
            here = self.cursor_row() or 0
            self.go_to(min(self.row_count() - 1, max(0, here + rows)))

    def move_up(self) -> None:
        self._move_by(-1)

    def move_down(self) -> None:
        self._move_by(1)

    def move_page_up(self) -> None:
        self._move_by(-self._page())

    def move_page_down(self) -> None:
        self._move_by(self._page())

    def move_top(self) -> None:
        self._move_by(-self.row_count())

    def move_bottom(self) -> None:
        self._move_by(self.row_count())

    def on_click(self, event: events.Click) -> None:
        row = event.y - 1 + self.scroll_offset.y
        if event.y < 1 or row >= self.row_count():
            return
        again = row == self.cursor_row() and event.chain >= 2
        self.go_to(row)
        if again:
            self.post_message(self.Chosen(self))

    def on_focus(self) -> None:
        self._refresh_cursor()

    def on_blur(self) -> None:
        self._refresh_cursor()

    def _refresh_cursor(self) -> None:
        row = self.cursor_row()
        if row is not None:
            self.refresh_line(row + 1)

    # ---- drawing

    def render_line(self, y: int) -> Strip:
        width, background = self.size.width, self.rich_style
        if y == 0:
            heading = pad(self.heading(self.inner_width), width)
            return Strip([Segment(heading, background + theme.LABEL)], width)
        row = y - 1 + self.scroll_offset.y
        if row >= self.row_count():
            if row == 0:
                return Strip([Segment(pad(self.empty_text(), width), background + theme.DIM)], width)
            return Strip.blank(width, background)
        if row == self.cursor_row():
            background += theme.SELECTED if self.has_focus else theme.SELECTED_BLURRED
        strip = strip_of(self.row_text(row, self.inner_width))
        return strip.crop_extend(0, width, background).apply_style(background)
