"""Colours. Each repeats what a word or a marker already says, so that no pane needs them to be read.

Panes draw in the dark theme's colours; `filters.Recoloured` turns them into another theme's on their way out.
"""

from __future__ import annotations

from dataclasses import replace

from rich.style import Style
from textual.theme import BUILTIN_THEMES, Theme

DARK = Theme(
    name="kernel-lab",
    primary="#6cb2ff",
    secondary="#8a97a8",
    accent="#f2a65a",
    warning="#e5b94e",
    error="#ff7b72",
    success="#63c68b",
    foreground="#d5dbe3",
    background="#0d1117",
    surface="#11161d",
    panel="#1a212b",
    dark=True,
    variables={
        "border": "#2b3542",
        "border-blurred": "#2b3542",
        "footer-background": "#11161d",
        "scrollbar": "#2b3542",
        "scrollbar-background": "#11161d",
        "scrollbar-corner-color": "#11161d",
        "input-selection-background": "#6cb2ff 35%",
    },
)


def _theme(name: str, *, dark: bool, **colours: str) -> Theme:
    border, selection = colours.pop("border"), colours.pop("selection")
    return Theme(
        name=name,
        dark=dark,
        **colours,  # type: ignore[arg-type]
        variables={
            "border": border,
            "border-blurred": border,
            "footer-background": colours["surface"],
            "scrollbar": border,
            "scrollbar-background": colours["surface"],
            "scrollbar-corner-color": colours["surface"],
            "input-selection-background": selection,
        },
    )


LIGHT = _theme(
    "kernel-lab-light",
    dark=False,
    primary="#0a58ca",
    secondary="#57606c",
    accent="#a2480a",
    warning="#7d5200",
    error="#c01f1a",
    success="#136f3a",
    foreground="#1c2128",
    background="#fdfdfb",
    surface="#f1f2f0",
    panel="#e4e6e4",
    border="#c3c8ce",
    selection="#0a58ca 25%",
)
ANSI = replace(
    BUILTIN_THEMES["ansi-dark"],
    name="kernel-lab-ansi",
    variables={
        **BUILTIN_THEMES["ansi-dark"].variables,
        "border": "ansi_bright_black",
        "border-blurred": "ansi_bright_black",
    },
)
COLOUR_BLIND = _theme(
    "kernel-lab-colour-blind",
    dark=True,
    primary="#c8d4e3",
    secondary="#8a98a9",
    accent="#e69f00",
    warning="#f0e442",
    error="#ff9447",
    success="#56b4e9",
    foreground="#d5dce4",
    background="#0d1118",
    surface="#11161e",
    panel="#1a212c",
    border="#2b3543",
    selection="#56b4e9 35%",
)
COLOUR_BLIND_LIGHT = _theme(
    "kernel-lab-colour-blind-light",
    dark=False,
    primary="#24405f",
    secondary="#57606d",
    accent="#8a5a00",
    warning="#6b5c00",
    error="#b04a00",
    success="#00619c",
    foreground="#1c2129",
    background="#fdfdfc",
    surface="#f1f2f1",
    panel="#e4e6e5",
    border="#c3c8cf",
    selection="#00619c 25%",
)
THEMES = {
    "dark": DARK,
    "light": LIGHT,
    "ansi": ANSI,
    "colour-blind": COLOUR_BLIND,
    "colour-blind-light": COLOUR_BLIND_LIGHT,
}
"""By the names that settings.toml has for them."""

_ROLES = (
    *("text", "dim", "label", "good", "bad", "warn", "accent"),
    *("added", "added_on", "removed", "removed_on", "hunk_on", "on_alert", "selected", "blurred"),
    *("decode", "decode_dim", "prefill", "prefill_dim", "other", "other_dim", "line"),
    *("string", "number", "comment"),
)


def _palette(colours: str) -> dict[str, str]:
    return dict(zip(_ROLES, colours.split(), strict=True))


_DARK_COLOURS = _palette(
    "#d5dbe3 #7d8896 #8a97a8 #63c68b #ff7b72 #e5b94e #6cb2ff "
    "#7ee2a8 #12261c #ff9d96 #2a1618 #131d2b #0d1117 #22344a #1a2431 "
    "#4fc3f7 #3b758f #f2a65a #8d6741 #ba94eb #715e89 #6e7a8a "
    "#a5d6a7 #d2a8ff #7d8899"
)
_PALETTES = {
    LIGHT.name: _palette(
        "#1c2128 #6a737d #57606c #136f3a #c01f1a #7d5200 #0a58ca "
        "#0b5a2c #dcf2e3 #9c1612 #fbe2e0 #e3ecf8 #fefefe #cfe0f7 #e3e8ee "
        "#00719c #7fb2c6 #a2480a #cfa384 #6f3fb0 #b39cd4 #9aa3ad "
        "#1b6e20 #7a1fa2 #6a737e"
    ),
    ANSI.name: _palette(
        "default bright_black white green red yellow blue "
        "green default red default default black bright_black black "
        "cyan cyan yellow yellow magenta magenta bright_black "
        "green magenta bright_black"
    ),
    COLOUR_BLIND.name: _palette(
        "#d5dce4 #7d8897 #8a98a9 #56b4e9 #ff9447 #f0e442 #c8d4e3 "
        "#8fccf2 #10243a #ffb98a #33200f #1a2330 #0d1116 #2b3a4d #1d2733 "
        "#56b4e8 #3c6f8d #e69f00 #8a6414 #cc79a7 #7d5068 #6e7a8b "
        "#b9cfe4 #e3b5cd #7d8898"
    ),
    COLOUR_BLIND_LIGHT.name: _palette(
        "#1c2129 #6a737c #57606d #00619c #b04a00 #6b5c00 #24405f "
        "#004f80 #dcebf7 #8a3a00 #fbe7d8 #e4e9f0 #fefefd #cfdcec #e3e8ef "
        "#00619d #80aecb #8a5a00 #c8ae80 #8f3f6b #c79fb4 #9aa3ae "
        "#1f4f73 #7c3a5e #6a737f"
    ),
}


def recolouring(theme: Theme) -> dict[str, str]:
    """What becomes of each colour of this module under a theme; empty where all stay as they are."""
    chosen = _PALETTES.get(theme.name)
    if chosen is None:
        if theme.name == DARK.name or (theme.dark and not theme.ansi):
            return {}
        chosen = _PALETTES[ANSI.name if theme.ansi else LIGHT.name]
    return {_DARK_COLOURS[role]: colour for role, colour in chosen.items()}


DECODE_RGB = (79, 195, 247)
PREFILL_RGB = (242, 166, 90)
OTHER_RGB = (186, 148, 235)
LINE_RGB = (110, 122, 138)

PLAIN = Style()
DIM = Style(color="#7d8896")
BOLD = Style(bold=True)
LABEL = Style(color="#8a97a8")
GOOD = Style(color="#63c68b")
BAD = Style(color="#ff7b72")
WARN = Style(color="#e5b94e")
ACCENT = Style(color="#6cb2ff")
HEADING = Style(color="#6cb2ff", bold=True)
ADDED = Style(color="#7ee2a8", bgcolor="#12261c")
REMOVED = Style(color="#ff9d96", bgcolor="#2a1618")
HUNK = Style(color="#6cb2ff", bgcolor="#131d2b")
KEY = Style(color="#6cb2ff", bold=True)
ALERT = Style(color="#0d1117", bgcolor="#e5b94e", bold=True)
STRING = Style(color="#a5d6a7")
NUMBER = Style(color="#d2a8ff")
COMMENT = Style(color="#7d8899", italic=True)
SELECTED = Style(bgcolor="#22344a")
SELECTED_BLURRED = Style(bgcolor="#1a2431")

STATUS_STYLES: dict[str, Style] = {
    "seed": ACCENT,
    "keep": Style(color="#63c68b", bold=True),
    "held": Style(color="#e5b94e", bold=True),
    "running": ACCENT,
    "discard": DIM,
    "rejected": DIM,
    "interrupted": DIM,
    "vetoed": WARN,
    "cheat": Style(color="#ff7b72", bold=True),
}
"""Verdicts that are not listed are failures of the candidate: red."""


def status_style(status: str) -> Style:
    return STATUS_STYLES.get(status, BAD)


def dimmed(rgb: tuple[int, int, int]) -> tuple[int, int, int]:
    """The weaker shade of a task's colour: for what was estimated, and for what was not kept."""
    red, green, blue = rgb
    return red // 2 + 20, green // 2 + 20, blue // 2 + 20


def task_rgb(task: str) -> tuple[int, int, int]:
    return {"gqa_decode": DECODE_RGB, "gqa_prefill": PREFILL_RGB}.get(task, OTHER_RGB)


def task_style(task: str) -> Style:
    red, green, blue = task_rgb(task)
    return Style(color=f"#{red:02x}{green:02x}{blue:02x}", bold=True)
