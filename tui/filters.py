"""What every line goes through on its way to the terminal: no colours, another theme's, or ASCII alone."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from kernel_lab.tui import theme
from rich.cells import cell_len
from rich.color import Color as RichColor
from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.filter import LineFilter

BRIGHT = 0.3
"""Backgrounds from this brightness on mark something: a cursor, a selection, an alert."""

ASCII = {
    **dict.fromkeys("─━╌┄╴╶▁▂▔═", "-"),
    **dict.fromkeys("│┃▏▕║▎▌▐┆", "|"),
    **dict.fromkeys("┌┐└┘├┤┬┴┼╭╮╰╯┏┓┗┛", "+"),
    **dict.fromkeys("█▓▒▇▆▅▄▃▉▊▋", "#"),
    **dict.fromkeys("•·●○◉", "*"),
    "×": "x",
    "→": ">",
    "←": "<",
    "▼": "v",
    "▲": "^",
    "▶": ">",
    "…": ".",
    "✓": "+",
    "✗": "x",
    "░": ".",
    "µ": "u",
    "°": " ",
    "–": "-",
    "—": "-",
}
"""One cell for one cell: what is not here becomes `?`, as wide as it was."""


class Colourless(LineFilter):
    """NO_COLOR at its word: leaves bold, underline and reverse, and takes every colour away."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [
            Segment(text, style if style is None else colourless(style), control)
            for text, style, control in segments
        ]


@lru_cache(1_024)
def colourless(style: Style) -> Style:
    """The style without colours, in reverse where its background stood out."""
    marked = style.bgcolor is not None and (
        style.bgcolor == theme.SELECTED.bgcolor or Color.from_rich_color(style.bgcolor).brightness >= BRIGHT
    )
    return Style(
        bold=style.bold,
        italic=style.italic,
        underline=style.underline,
        strike=style.strike,
        reverse=bool(style.reverse) or marked,
        meta=style.meta or None,
    )


class Recoloured(LineFilter):
    """Puts another theme's colours in place of those that panes draw with."""

    def __init__(self, colours: Mapping[str, str]) -> None:
        super().__init__()
        self._colours = {old: RichColor.parse(new) for old, new in colours.items()}
        self._styles: dict[Style, Style] = {}

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [
            Segment(text, style if style is None else self._recoloured(style), control)
            for text, style, control in segments
        ]

    def _recoloured(self, style: Style) -> Style:
        known = self._styles.get(style)
        if known is None:
            if len(self._styles) > 4_096:
                self._styles.clear()
            front, back = self._of(style.color), self._of(style.bgcolor)
            known = style + Style(color=front, bgcolor=back) if front or back else style
            self._styles[style] = known
        return known

    def _of(self, colour: RichColor | None) -> RichColor | None:
        if colour is None or colour.triplet is None:
            return None
        return self._colours.get(colour.triplet.hex)


class AsciiOnly(LineFilter):
    """Draws with ASCII alone, cell for cell."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [
            segment if segment.text.isascii() else Segment(in_ascii(segment.text), segment.style)
            for segment in segments
        ]


@lru_cache(4_096)
def in_ascii(text: str) -> str:
    """`text` in ASCII, as many cells wide."""
    return "".join(
        character if character.isascii() else ASCII.get(character) or "?" * cell_len(character)
        for character in text
    )
