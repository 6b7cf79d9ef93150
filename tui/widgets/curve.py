"""The curve pane of an experiment: its speed over context length or batch, with each baseline."""

from __future__ import annotations

import math

from kernel_lab.tui import theme
from kernel_lab.tui.curve import AXES, CANDIDATE, UNITS, Axis, Curve, Unit, short_number
from kernel_lab.tui.live_text import fmt_baseline
from kernel_lab.tui.text import one_line
from kernel_lab.tui.widgets.bars import joined
from kernel_lab.tui.widgets.plot import RGB, Axes, Plotted, round_ticks
from rich.style import Style
from rich.text import Text

_COLOURS: tuple[RGB, ...] = (theme.DECODE_RGB, theme.PREFILL_RGB, theme.OTHER_RGB, theme.LINE_RGB)
_MARKERS = {CANDIDATE: "c", "fa2": "f", "seed": "s", "champion": "p"}
_AXIS_WORDS: dict[Axis, str] = {"context": "context length (keys)", "batch": "batch (sequences)"}


class CurveView(Plotted):
    """Plots `Curve`s; which axis and unit is the person's choice."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self.axis: Axis = "context"
        self.unit: Unit = "ratio"
        self._curves: tuple[Curve, ...] = ()
        self._estimated = True
        self._rate_unit = ""

    def show(self, curves: tuple[Curve, ...], *, estimated: bool, rate: str) -> None:
        """Show these; they are for the axis and unit chosen now."""
        self._curves, self._estimated, self._rate_unit = curves, estimated, rate
        self.redraw()

    def turn_unit(self) -> Unit:
        self.unit = UNITS[(UNITS.index(self.unit) + 1) % len(UNITS)]
        return self.unit

    def turn_over(self) -> Axis:
        self.axis = AXES[(AXES.index(self.axis) + 1) % len(AXES)]
        return self.axis

    def wanted(self) -> object:
        return self._curves, self._estimated, self.axis, self.unit

    @property
    def _unit_word(self) -> str:
        return {"ratio": "× each baseline", "time": "us", "rate": self._rate_unit or "rate"}[self.unit]

    def draw(self, width: int, height: int) -> list[Text]:
        kind = "estimated " if self._estimated else ""
        head = Text.styled(f"{kind}{self._unit_word} over {_AXIS_WORDS[self.axis]}", theme.LABEL)
        if not self._curves:
            return [head, Text.styled("not judged on speed, or by no shape of this axis", theme.DIM)]
        legend = [head]
        for index, curve in enumerate(self._curves):
            red, green, blue = _COLOURS[min(index, len(_COLOURS) - 1)]
            style = Style(color=f"#{red:02x}{green:02x}{blue:02x}", bold=True)
            legend.append(Text.styled(f"{marker_of(curve.name)} {_name(curve.name)}", style))
        if any(point.interval for curve in self._curves for point in curve.points):
            legend.append(Text.styled("| interval", theme.DIM))
        title = joined(legend, width)
        if height < 6 or width < 24:
            return [title]
        return self.guarded(title, lambda: self._plot(width, height - 1))

    def _plot(self, width: int, height: int) -> list[Text]:
        points = [point for curve in self._curves for point in curve.points]
        edges = [edge for point in points for edge in (point.interval or (point.y, point.y))]
        low, high = min(edges), max(edges)
        if self.unit == "ratio":
            low, high = min(low, 1.0), max(high, 1.0)
        air = max((high - low) * 0.06, high * 0.01)
        low, high = (low * 0.9, high * 1.1) if self.logarithmic else (max(0.0, low - air), high + air)
        # Lengths and batches double from one to the next: their axis is always logarithmic.
        places = sorted({point.x for point in points})
        first, last = math.log2(places[0]), math.log2(places[-1])
        axes = Axes(width, height, (first - 0.5, last + 0.5), (low, high), self.logarithmic)
        if self.unit == "ratio":
            axes.line(1.0)
        for index, curve in enumerate(self._curves):
            colour = _COLOURS[min(index, len(_COLOURS) - 1)]
            for point in curve.points:
                if point.interval is not None:
                    axes.bar(math.log2(point.x), point.interval, theme.dimmed(colour))
            axes.dots([(math.log2(p.x), p.y) for p in curve.points], marker_of(curve.name), colour)
        ticks = round_ticks(low, high, height, self.logarithmic)
        if self.unit == "ratio":
            ticks = sorted({*ticks, 1.0})
        axes.yticks(ticks, [f"{tick:.2f}" if self.unit == "ratio" else f"{tick:.4g}" for tick in ticks])
        axes.xticks([math.log2(place) for place in places], [short_number(place) for place in places])
        return axes.lines()

    def plain(self) -> str:
        lines = [f"workload\t{self.axis}\tof\t{self._unit_word}\tkind"]
        kind = "estimated" if self._estimated else "measured"
        for curve in self._curves:
            for point in curve.points:
                lines.append(
                    f"{one_line(point.workload, 60)}\t{point.x:g}\t{_name(curve.name)}\t{point.y:.5g}\t{kind}"
                )
        return "\n".join(lines)


def marker_of(name: str) -> str:
    """The letter that stands for the candidate or a baseline."""
    return _MARKERS.get(name) or next((part for part in name if part.isalnum() and part.isascii()), "+")


def _name(name: str) -> str:
    return name if name == CANDIDATE else fmt_baseline(name)
