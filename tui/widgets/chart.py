"""The chart: every task's score over the experiments, drawn anew only for a new result or a settled size."""

from __future__ import annotations

from collections.abc import Sequence

from kernel_lab.tui import fmt, theme
from kernel_lab.tui.series import Scored, Series, bounds, series
from kernel_lab.tui.widgets.bars import joined
from kernel_lab.tui.widgets.plot import Axes, Plotted, round_ticks
from rich.text import Text

BASELINE_NAMES = {"fa2": "FA2", "seed": "seed", "champion": "the champion before"}
_MARKERS = {"gqa_decode": "o", "gqa_prefill": "x"}


class Chart(Plotted):
    """Draws `Scored` points."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._rows: Sequence[Scored] = ()
        self._baseline = "fa2"

    def show(self, rows: Sequence[Scored], baseline: str) -> None:
        """Show these points; the same points again cost nothing."""
        self._rows, self._baseline = rows, baseline
        self.redraw()

    def wanted(self) -> object:
        return self._baseline, tuple(self._rows)

    def draw(self, width: int, height: int) -> list[Text]:
        name = BASELINE_NAMES.get(self._baseline, self._baseline)
        shown = series(self._rows, max(4, width - 8))
        estimated = any(one.estimated for one in shown)
        head = Text.styled(f"{'estimated ' if estimated else ''}× {name}", theme.LABEL)
        if not shown:
            return [head, Text.styled("no experiment is judged on speed yet", theme.DIM)]
        legend = [head]
        for one in shown:
            best = one.best[-1][1] if one.best else None
            words = f"{marker_of(one.task, one.estimated)} {fmt.task_word(one.task)} {fmt.ratio(best)}"
            legend.append(Text.styled(words, theme.task_style(one.task)))
        marks = [". not kept", "h held"]
        if any(p.interval for one in shown for p in one.points if p.kept or p.held):
            marks.append("| interval")
        legend += [Text.styled(words, theme.DIM) for words in marks]
        title = joined(legend, width)
        if height < 4 or width < 16:
            return [title]
        return self.guarded(title, lambda: plot(shown, width, height - 1, self.logarithmic))

    def plain(self) -> str:
        name = BASELINE_NAMES.get(self._baseline, self._baseline)
        rows = [f"experiment\ttask\tstatus\t× {name}\tlow\thigh\tkind"]
        for row in self._rows:
            if row.ratio is not None:
                kind = "estimated" if row.estimated else "measured"
                low, high = (f"{edge:.4f}" for edge in row.interval) if row.interval else ("", "")
                rows.append(
                    f"{row.experiment}\t{row.task}\t{row.status}\t{row.ratio:.4f}\t{low}\t{high}\t{kind}"
                )
        return "\n".join(rows)


def marker_of(task: str, estimated: bool) -> str:
    """`o` decode, `x` prefill, `+` others; capitals where the numbers were measured."""
    marker = _MARKERS.get(task, "+")
    return marker if estimated else marker.upper().replace("+", "#")


def plot(shown: Sequence[Series], width: int, height: int, logarithmic: bool = False) -> list[Text]:
    """The plot as lines: champions as a level line with intervals, all others as dots, the line at 1.0.

    Where a champion was estimated its line is broken and dim, its marker small: `o - - -` beside `O-----`.
    """
    first = min(one.points[0].experiment for one in shown)
    last = max(first + 1, *(one.points[-1].experiment for one in shown))
    low, high = bounds(shown)
    if logarithmic:
        low = max(low, min(point.ratio for one in shown for point in one.points) * 0.95, 0.01)
    axes = Axes(width, height, (first, last), (low, high), logarithmic)
    axes.line(1.0)
    for one in shown:
        colour = theme.task_rgb(one.task)
        dimmed = theme.dimmed(colour)
        others = [(p.experiment, p.ratio) for p in one.points if not p.kept and not p.held]
        axes.dots(others, ".", dimmed)
        level = _level(one, first, last, width)
        axes.dots(level[::3] if one.estimated else level, "-", dimmed if one.estimated else colour)
        for point in one.points:
            if point.interval is not None and (point.kept or point.held):
                axes.bar(point.experiment, point.interval, dimmed)
    for one in shown:
        colour = theme.task_rgb(one.task)
        axes.dots([(p.experiment, p.ratio) for p in one.points if p.held], "h", colour)
        for estimated in (True, False):
            kept = [(p.experiment, p.ratio) for p in one.points if p.kept and p.estimated is estimated]
            axes.dots(kept, marker_of(one.task, estimated), colour)
    ticks = sorted({*round_ticks(low, high, height, logarithmic), 1.0})
    axes.yticks(ticks, [f"{tick:.2f}" for tick in ticks])
    marks = _marks(first, last, width)
    axes.xticks(marks, [f"#{mark}" for mark in marks])
    return axes.lines()


def _level(one: Series, first: int, last: int, width: int) -> list[tuple[float, float]]:
    """The champion's ratio at every column from its first keep on."""
    points: list[tuple[float, float]] = []
    for index, (experiment, ratio) in enumerate(one.best):
        until = one.best[index + 1][0] if index + 1 < len(one.best) else last
        count = max(1, (until - experiment) * width // (last - first))
        points += [(experiment + (until - experiment) * step / count, ratio) for step in range(count + 1)]
    return points or [(one.points[0].experiment, one.points[0].ratio)]


def _marks(first: int, last: int, width: int) -> list[int]:
    """The first experiment and round numbers for the x axis, at most one for every ten columns."""
    for step in (1, 2, 5, 10, 20, 25, 50, 100, 200, 250, 500, 1_000, 2_000, 2_500, 5_000, 10_000):
        marks = [n for n in range(0, last + 1, step) if n == first or n - first > step / 2]
        if marks[:1] != [first]:
            marks.insert(0, first)
        if len(marks) <= max(2, width // 10):
            return marks
    return [first, last]
