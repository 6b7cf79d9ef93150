"""The chart: every task's score over the experiments, drawn anew only for a new result or a settled size."""

from __future__ import annotations

from collections.abc import Sequence

from kernel_lab.tui import fmt, theme
from kernel_lab.tui.series import Scored, Series, bounds, series
from kernel_lab.tui.widgets.bars import joined
from kernel_lab.tui.widgets.pane import strip_of
from rich.style import Style
from rich.text import Text
from textual import events
from textual.strip import Strip
from textual.timer import Timer
from textual.widget import Widget

RESIZE_SETTLES_S = 0.15
BASELINE_NAMES = {"fa2": "FA2", "seed": "seed", "champion": "the champion before"}
_MARKERS = {"gqa_decode": "o", "gqa_prefill": "x"}


class Chart(Widget, can_focus=True):
    """Draws `Scored` points with plotext into lines that are kept until something changes."""

    ALLOW_SELECT = False

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._rows: Sequence[Scored] = ()
        self._baseline = "fa2"
        self._lines: list[Text] = []
        self._drawn: object = None
        self._settling: Timer | None = None
        self.builds = 0
        """How often plotext was asked: it is the dearest thing on the screen."""

    def show(self, rows: Sequence[Scored], baseline: str) -> None:
        """Show these points; the same points again cost nothing."""
        self._rows, self._baseline = rows, baseline
        self._redraw()

    def on_resize(self, _: events.Resize) -> None:
        if self._settling is not None:
            self._settling.stop()
        self._settling = self.set_timer(RESIZE_SETTLES_S, self._redraw)

    def _redraw(self) -> None:
        width, height = self.size
        if width <= 0 or height <= 0 or not self.is_attached:
            return
        wanted = (width, height, self._baseline, tuple(self._rows))
        if wanted == self._drawn:
            return
        self._drawn = wanted
        self._lines = self._draw(width, height)
        self.refresh()

    def _draw(self, width: int, height: int) -> list[Text]:
        name = BASELINE_NAMES.get(self._baseline, self._baseline)
        shown = series(self._rows, max(4, width - 8))
        estimated = any(one.estimated for one in shown)
        head = Text.styled(f"{'estimated ' if estimated else ''}× {name}", theme.LABEL)
        if not shown:
            return [head, Text.styled("no experiment is judged on speed yet", theme.DIM)]
        legend = [head]
        for one in shown:
            best = one.best[-1][1] if one.best else None
            words = f"{marker_of(one.task, estimated)} {fmt.task_word(one.task)} {fmt.ratio(best)}"
            legend.append(Text.styled(words, theme.task_style(one.task)))
        legend += [Text.styled(words, theme.DIM) for words in (". not kept", "h held")]
        title = joined(legend, width)
        if height < 4 or width < 16:
            return [title]
        self.builds += 1
        try:
            return [title, *plot(shown, width, height - 1, estimated)]
        except Exception as error:  # noqa: BLE001  one pane must not end the cockpit
            return [title, Text.styled(f"the chart cannot be drawn ({type(error).__name__})", theme.WARN)]

    def render_line(self, y: int) -> Strip:
        width, background = self.size.width, self.rich_style
        if y >= len(self._lines):
            return Strip.blank(width, background)
        return strip_of(self._lines[y]).adjust_cell_length(width, background).apply_style(background)

    def plain(self) -> str:
        name = BASELINE_NAMES.get(self._baseline, self._baseline)
        rows = [f"experiment\ttask\tstatus\t× {name}\tkind"]
        for row in self._rows:
            if row.ratio is not None:
                kind = "estimated" if row.estimated else "measured"
                rows.append(f"{row.experiment}\t{row.task}\t{row.status}\t{row.ratio:.4f}\t{kind}")
        return "\n".join(rows)


def marker_of(task: str, estimated: bool) -> str:
    """`o` decode, `x` prefill, `+` others; capitals where the numbers were measured."""
    marker = _MARKERS.get(task, "+")
    return marker if estimated else marker.upper().replace("+", "#")


def plot(shown: Sequence[Series], width: int, height: int, estimated: bool) -> list[Text]:
    """The plot as lines: champions as a level line, all others as dots, and the line at 1.0."""
    from textual_plotext import Plot

    first = min(one.points[0].experiment for one in shown)
    last = max(first + 1, *(one.points[-1].experiment for one in shown))
    low, high = bounds(shown)
    figure = Plot()
    figure.plotsize(width, height)
    figure._set_size(width, height)  # plotext keeps the size of the last clear otherwise
    figure.theme("clear")
    figure.frame(False)
    figure.xlim(first, last)
    figure.ylim(low, high)
    figure.hline(1.0, theme.LINE_RGB)
    for one in shown:
        colour = theme.task_rgb(one.task)
        dimmed = theme.dimmed(colour)
        others = [point for point in one.points if not point.kept and not point.held]
        figure.scatter(
            [point.experiment for point in others],
            [min(high, max(low, point.ratio)) for point in others],
            marker=".",
            color=dimmed,
        )
        level = _level(one, first, last, width)
        figure.scatter(*zip(*level, strict=True), marker="-", color=dimmed if estimated else colour)
    for one in shown:
        for group, marker in (
            ([p for p in one.points if p.held], "h"),
            ([p for p in one.points if p.kept], marker_of(one.task, estimated)),
        ):
            if group:
                figure.scatter(
                    [point.experiment for point in group],
                    [min(high, max(low, point.ratio)) for point in group],
                    marker=marker,
                    color=theme.task_rgb(one.task),
                )
    ticks = _ticks(low, high, height)
    figure.yticks(ticks, [f"{tick:.2f}" for tick in ticks])
    marks = _marks(first, last, width)
    figure.xticks(marks, [f"#{mark}" for mark in marks])
    text = Text.from_ansi(figure.build())
    lines = text.split("\n", allow_blank=True)[:height]
    for line in lines:
        line.style = Style.null()
        line.rstrip()
    return list(lines)


def _level(one: Series, first: int, last: int, width: int) -> list[tuple[float, float]]:
    """The champion's ratio at every column from its first keep on."""
    points: list[tuple[float, float]] = []
    for index, (experiment, ratio) in enumerate(one.best):
        until = one.best[index + 1][0] if index + 1 < len(one.best) else last
        count = max(1, (until - experiment) * width // (last - first))
        points += [(experiment + (until - experiment) * step / count, ratio) for step in range(count + 1)]
    return points or [(one.points[0].experiment, one.points[0].ratio)]


def _ticks(low: float, high: float, height: int) -> list[float]:
    """A few round ratios in sight, 1.0 among them."""
    wanted = max(2, min(6, height // 3))
    for step in (0.02, 0.05, 0.1, 0.2, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 50.0):
        first = int(low / step) + 1
        ticks = [round(step * k, 4) for k in range(first, int(high / step) + 1)]
        if len(ticks) <= wanted:
            return sorted({*ticks, 1.0})
    return [1.0]


def _marks(first: int, last: int, width: int) -> list[int]:
    """The first experiment and round numbers for the x axis, at most one for every ten columns."""
    for step in (1, 2, 5, 10, 20, 25, 50, 100, 200, 250, 500, 1_000, 2_000, 2_500, 5_000, 10_000):
        marks = [n for n in range(0, last + 1, step) if n == first or n - first > step / 2]
        if marks[:1] != [first]:
            marks.insert(0, first)
        if len(marks) <= max(2, width // 10):
            return marks
    return [first, last]
