"""NO_COLOR taken at its word: no colour leaves the program; what a background marked is shown in reverse."""

from __future__ import annotations

from functools import lru_cache

from kernel_lab.tui.widgets.table import SELECTED
from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.filter import LineFilter

BRIGHT = 0.3
"""Backgrounds from this brightness on mark something: a cursor, a selection, an alert."""


class Colourless(LineFilter):
    """Leaves bold, underline and reverse, and takes every colour away."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [
            Segment(text, style if style is None else colourless(style), control)
            for text, style, control in segments
        ]


@lru_cache(1_024)
def colourless(style: Style) -> Style:
    """The style without colours, in reverse where its background stood out."""
    marked = style.bgcolor is not None and (
        style.bgcolor == SELECTED.bgcolor or Color.from_rich_color(style.bgcolor).brightness >= BRIGHT
    )
    return Style(
        bold=style.bold,
        italic=style.italic,
        underline=style.underline,
        strike=style.strike,
        reverse=bool(style.reverse) or marked,
        meta=style.meta or None,
    )
