"""Colours. Each repeats what a word or a marker already says, so that no pane needs them to be read."""

from __future__ import annotations

from rich.style import Style
from textual.theme import Theme

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


def task_rgb(task: str) -> tuple[int, int, int]:
    return {"gqa_decode": DECODE_RGB, "gqa_prefill": PREFILL_RGB}.get(task, OTHER_RGB)


def task_style(task: str) -> Style:
    red, green, blue = task_rgb(task)
    return Style(color=f"#{red:02x}{green:02x}{blue:02x}", bold=True)
