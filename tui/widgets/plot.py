"""What draws with plotext: a pane that plots anew only for new numbers or a settled size, and its axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from kernel_lab.tui import theme
from kernel_lab.tui.widgets.pane import strip_of
from rich.style import Style
from rich.text import Text
from textual import events
from textual.strip import Strip
from textual.timer import Timer
from textual.widget import Widget

RESIZE_SETTLES_S = 0.15
RGB = tuple[int, int, int]


class Plotted(Widget, can_focus=True):
    """Keeps the lines that `draw` made until `wanted` changes."""

    ALLOW_SELECT = False

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._lines: list[Text] = []
        self._drawn: object = None
        self._settling: Timer | None = None
        self.logarithmic = False
        """Whether ratios, times and rates stand on a logarithmic axis."""
        self.builds = 0
        """How often plotext was asked: it is the dearest thing on the screen."""

    def wanted(self) -> object:
        """What is to be drawn: equal while nothing changed."""
        raise NotImplementedError

    def draw(self, width: int, height: int) -> list[Text]:
        """The lines for a size in cells."""
        raise NotImplementedError

    def turn_axis(self) -> str:
        """Logarithmic in place of linear, or back; what it is now."""
        self.logarithmic = not self.logarithmic
        self.redraw()
        return "the axis is logarithmic" if self.logarithmic else "the axis is linear"

    def on_resize(self, _: events.Resize) -> None:
        if self._settling is not None:
            self._settling.stop()
        self._settling = self.set_timer(RESIZE_SETTLES_S, self.redraw)

    def redraw(self) -> None:
        """Draw if something changed since the last time."""
        width, height = self.size
        if width <= 0 or height <= 0 or not self.is_attached:
            return
        wanted = (width, height, self.logarithmic, self.wanted())
        if wanted == self._drawn:
            return
        self._drawn = wanted
        self._lines = self.draw(width, height)
        self.refresh()

    def guarded(self, title: Text, plot: Callable[[], list[Text]]) -> list[Text]:
        """The title above the plot, or above why there is none: one pane must not end the cockpit."""
        self.builds += 1
        try:
            return [title, *plot()]
        except Exception as error:  # noqa: BLE001
            return [title, Text.styled(f"the chart cannot be drawn ({type(error).__name__})", theme.WARN)]

    def render_line(self, y: int) -> Strip:
        width, background = self.size.width, self.rich_style
        if y >= len(self._lines):
            return Strip.blank(width, background)
        return strip_of(self._lines[y]).adjust_cell_length(width, background).apply_style(background)


class Axes:
    """A plotext figure of so many cells whose y axis is linear or logarithmic."""

    def __init__(
        self, width: int, height: int, x: tuple[float, float], y: tuple[float, float], logarithmic: bool
    ) -> None:
        from textual_plotext import Plot

        self.low, self.high = max(y[0], 1e-6) if logarithmic else y[0], y[1]
        self.logarithmic, self.height = logarithmic, height
        self._figure: Any = Plot()
        self._figure.plotsize(width, height)
        self._figure._set_size(width, height)  # plotext keeps the size of the last clear otherwise
        self._figure.theme("clear")
        self._figure.frame(False)
        self._figure.xlim(*x)
        self._figure.ylim(self.at(self.low), self.at(self.high))

    def at(self, value: float) -> float:
        """Where a value stands, clipped to what is in sight."""
        value = min(self.high, max(self.low, value))
        return math.log(value) if self.logarithmic else value

    def line(self, value: float) -> None:
        """A level line over the whole width."""
        self._figure.hline(self.at(value), theme.LINE_RGB)

    def dots(self, points: Sequence[tuple[float, float]], marker: str, colour: RGB) -> None:
        if points:
            ys = [self.at(y) for _, y in points]
            self._figure.scatter([x for x, _ in points], ys, marker=marker, color=colour)

    def bar(self, x: float, interval: tuple[float, float], colour: RGB) -> None:
        """An interval as an upright line; one that is lower than a row of the plot is not seen."""
        low, high = self.at(interval[0]), self.at(interval[1])
        row = (self.at(self.high) - self.at(self.low)) / max(1, self.height - 2)
        count = int((high - low) / row)
        if count >= 1:
            ys = [low + (high - low) * step / count for step in range(count + 1)]
            self._figure.scatter([x] * len(ys), ys, marker="|", color=colour)

    def yticks(self, ticks: Sequence[float], names: Sequence[str]) -> None:
        self._figure.yticks([self.at(tick) for tick in ticks], list(names))

    def xticks(self, ticks: Sequence[float], names: Sequence[str]) -> None:
        self._figure.xticks(list(ticks), list(names))

    def lines(self) -> list[Text]:
        """The figure, ready to be drawn."""
        text = Text.from_ansi(self._figure.build())
        lines = text.split("\n", allow_blank=True)[: self.height]
        for line in lines:
            line.style = Style.null()
            line.rstrip()
        return list(lines)


def round_ticks(low: float, high: float, height: int, logarithmic: bool) -> list[float]:
    """A few round values between `low` and `high`."""
    wanted = max(2, min(6, height // 3))
    if not logarithmic:
        step = 10.0 ** math.floor(math.log10(max(high - low, 1e-9)) - 1)
        while True:
            for factor in (1, 2, 5):
                size = step * factor
                first = math.ceil(low / size)
                ticks = [round(size * k, 9) for k in range(first, int(high / size) + 1)]
                if len(ticks) <= wanted:
                    return ticks
            step *= 10
    decades = range(math.floor(math.log10(max(low, 1e-6))), math.ceil(math.log10(max(high, 1e-6))) + 1)
    for factors in ((1, 1.2, 1.5, 2, 3, 5, 7), (1, 2, 5), (1, 3), (1,)):
        ticks = [factor * 10.0**decade for decade in decades for factor in factors]
        ticks = [round(tick, 9) for tick in ticks if low <= tick <= high]
        if len(ticks) <= wanted:
            return ticks
    return ticks[:: max(1, len(ticks) // wanted)]
