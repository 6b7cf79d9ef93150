"""A pane that scrolls over lines and draws only those in sight, however many there are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from kernel_lab.tui import bindings
from kernel_lab.tui.text import one_line
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual import events
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widget import Widget

Builder = Callable[[int], Sequence[Text]]
"""Lines for a width in cells. Texts hold no line break and come from cleaned strings."""


class Pane(ScrollView, can_focus=True):
    """Moving by keys and wheel; what the lines are is the subclass's matter."""

    BINDINGS = bindings.for_scope("pane")
    ALLOW_SELECT = False

    def action_act(self, action_id: str) -> None:
        """Called by the bindings of the scope `pane`."""
        getattr(self, f"move_{action_id}")()

    def move_up(self) -> None:
        self.scroll_to(y=self.scroll_offset.y - 1, animate=False)

    def move_down(self) -> None:
        self.scroll_to(y=self.scroll_offset.y + 1, animate=False)

    def move_page_up(self) -> None:
        self.scroll_to(y=self.scroll_offset.y - self._page(), animate=False)

    def move_page_down(self) -> None:
        self.scroll_to(y=self.scroll_offset.y + self._page(), animate=False)

    def move_top(self) -> None:
        self.scroll_to(y=0, animate=False)

    def move_bottom(self) -> None:
        self.scroll_to(y=self.max_scroll_y, animate=False)

    def move_left(self) -> None:
        self.scroll_to(x=self.scroll_offset.x - 8, animate=False)

    def move_right(self) -> None:
        self.scroll_to(x=self.scroll_offset.x + 8, animate=False)

    @property
    def inner_width(self) -> int:
        """Cells for a line, beside scrollbar and padding."""
        return self.scrollable_content_region.width

    def measure(self, size: Size) -> None:
        """Say how much there is to scroll over.

        Set around the reactive, which would lay out and draw the whole screen for every added line; a
        scroll bar that comes or goes still asks for a layout by itself.
        """
        if size != self.virtual_size:
            self.set_reactive(Widget.virtual_size, size)
            self._scroll_update(size)

    def _page(self) -> int:
        return max(1, self.size.height - 1)

    def plain(self) -> str:
        """What the pane shows, for the clipboard."""
        raise NotImplementedError


class Lines(Pane):
    """A pane of prepared lines. `show` redraws only from the first line that changed."""

    def __init__(self, *, id: str | None = None, classes: str | None = None, follow: bool = False) -> None:
        super().__init__(id=id, classes=classes)
        self._build: Builder = lambda _: ()
        self._lines: Sequence[Text] = ()
        self._strips: dict[int, Strip] = {}
        self._built_for = -1
        self._subject: object = None
        self._follow = follow

    def show(self, build: Builder, subject: object = None) -> None:
        """Show other lines. A change of `subject` (another experiment, say) scrolls back to the top."""
        self._build = build
        moved = subject != self._subject
        self._subject = subject
        at_end = self._follow and self.scroll_offset.y >= self.max_scroll_y
        self._rebuild()
        if moved:
            self.scroll_to(0, 0, animate=False)
        elif at_end and self.max_scroll_y > self.scroll_offset.y:
            self.scroll_to(y=self.max_scroll_y, animate=False)

    @property
    def lines(self) -> Sequence[Text]:
        return self._lines

    def plain(self) -> str:
        return "\n".join(line.plain.rstrip() for line in self._lines)

    def on_resize(self, _: events.Resize) -> None:
        if self.inner_width != self._built_for:
            self._rebuild()

    def _rebuild(self) -> None:
        width = self.inner_width
        if width <= 0:
            self._built_for = -1
            return
        old, self._lines = self._lines, self._built(width)
        first = 0
        if width == self._built_for:
            shared = min(len(old), len(self._lines))
            while first < shared and _same(old[first], self._lines[first]):
                first += 1
            if first == len(old) == len(self._lines):
                return
            self._strips = {y: strip for y, strip in self._strips.items() if y < first}
        else:
            self._strips.clear()
        self._built_for = width
        widest = max((line.cell_len for line in self._lines), default=0)
        self.measure(Size(widest if widest > width else width, len(self._lines)))
        self.refresh_lines(first, max(len(old), len(self._lines), self.size.height) - first)

    def _built(self, width: int) -> Sequence[Text]:
        try:
            return list(self._build(width))
        except Exception as error:  # noqa: BLE001  one pane must not end the cockpit
            return [Text(f"this pane cannot be drawn ({type(error).__name__})")]

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        background = self.rich_style
        index = y + self.scroll_offset.y
        if index >= len(self._lines):
            return Strip.blank(width, background)
        strip = self._strips.get(index)
        if strip is None:
            strip = self._strips[index] = strip_of(self._lines[index])
        left = self.scroll_offset.x
        return strip.crop_extend(left, left + width, background).apply_style(background)


def _same(one: Text, other: Text) -> bool:
    return one is other or (one == other and one.style == other.style)


def strip_of(text: Text) -> Strip:
    """One line of text as a strip. Spans of `rich.Text` hold ready styles, never names to look up."""
    plain = text.plain
    if not plain.isprintable():
        # Texts are cleaned where they are made; this is the last gate before the terminal.
        return strip_of(Text(one_line(plain), text.style))
    base = text.style if isinstance(text.style, Style) else Style.null()
    if not text.spans:
        return Strip([Segment(plain, base)], text.cell_len)
    edges = sorted({0, len(plain), *(span.start for span in text.spans), *(span.end for span in text.spans)})
    segments = []
    for start, end in pairwise(edges):
        if start >= len(plain):
            break
        style = base
        for span in text.spans:
            if span.start <= start and end <= span.end and isinstance(span.style, Style):
                style += span.style
        segments.append(Segment(plain[start:end], style))
    return Strip(segments, text.cell_len)
