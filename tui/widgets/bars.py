"""One-line widgets: the status lines, the strip of checks, the queue of what needs a person, the key bar.

Each keeps the lines it drew last and redraws only when they differ.
"""

from __future__ import annotations

from collections.abc import Sequence

from kernel_lab.tui import theme
from kernel_lab.tui.actions import Action, Situation, key_name, keys_now
from kernel_lab.tui.text import fit
from kernel_lab.tui.widgets.pane import strip_of
from rich.text import Text
from textual import events
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget


class Bar(Widget):
    """A few lines of fixed height. `show` costs nothing if they say what they said before."""

    ALLOW_SELECT = False

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._lines: list[Text] = []

    def show(self, lines: Sequence[Text]) -> None:
        """Show these lines; more than fit are cut."""
        new = list(lines)
        same = [one.plain for one in new] == [one.plain for one in self._lines]
        if same and all(
            a.spans == b.spans and a.style == b.style for a, b in zip(new, self._lines, strict=True)
        ):
            return
        self._lines = new
        self.refresh()

    def render_line(self, y: int) -> Strip:
        width, background = self.size.width, self.rich_style
        if y >= len(self._lines):
            return Strip.blank(width, background)
        return strip_of(self._lines[y]).adjust_cell_length(width, background).apply_style(background)

    def plain(self) -> str:
        return "\n".join(line.plain.rstrip() for line in self._lines)


def joined(parts: Sequence[Text], width: int, gap: str = "  ") -> Text:
    """Parts in one line, as many from the front as fit; the first is cut if it alone is too long."""
    line = Text()
    for part in parts:
        if not part.plain:
            continue
        room = width - line.cell_len - (len(gap) if line.plain else 0)
        if part.cell_len > room:
            if not line.plain:
                line.append(fit(part.plain, width), part.style)
            continue
        if line.plain:
            line.append(gap)
        line.append_text(part)
    return line


class KeyBar(Bar):
    """The keys that do something now, most important first; a click does the same."""

    class Pressed(Message):
        def __init__(self, action_id: str) -> None:
            super().__init__()
            self.action_id = action_id

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._spans: list[tuple[int, int, str]] = []
        self._wanted: tuple[tuple[str, str, str, bool], ...] = ()

    def show_actions(self, actions: Sequence[tuple[Action, str | None]], now: Situation) -> None:
        """Actions with the reason why they cannot be done now; those that can come first."""
        ranked = sorted(actions, key=lambda pair: (pair[1] is not None, -pair[0].bar))
        self._wanted = tuple(
            (action.id, key_name(keys_now(action)[0]), action.name(now), why is None)
            for action, why in ranked
            if action.bar
        )
        self._draw()

    def on_resize(self, _: events.Resize) -> None:
        self._draw()

    def _draw(self) -> None:
        line, spans = Text(), []
        for action_id, key, label, possible in self._wanted:
            if not possible:
                continue
            start = line.cell_len + (2 if line.plain else 0)
            end = start + len(key) + 1 + len(label)
            if end > self.size.width:
                break
            if line.plain:
                line.append("  ")
            line.append(key, theme.KEY).append(f" {label}", theme.LABEL)
            spans.append((start, end, action_id))
        self._spans = spans
        self.show([line])

    def on_click(self, event: events.Click) -> None:
        for start, end, action_id in self._spans:
            if start <= event.x < end:
                self.post_message(self.Pressed(action_id))


class Tabs(Bar):
    """Numbered names in one line, one of them chosen; a click chooses another."""

    class Chosen(Message):
        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._spans: list[tuple[int, int, str]] = []

    def show_tabs(self, names: Sequence[str], chosen: str, width: int) -> None:
        """`1 diff  2 speed …` with the chosen one marked."""
        line = Text()
        self._spans = []
        for number, name in enumerate(names, 1):
            start = line.cell_len
            line.append(f" {number} {name} ", theme.ALERT if name == chosen else theme.LABEL)
            self._spans.append((start, line.cell_len, name))
        line.truncate(width)
        self.show([line])

    def on_click(self, event: events.Click) -> None:
        for start, end, name in self._spans:
            if start <= event.x < end:
                self.post_message(self.Chosen(name))


class Queue(Bar, can_focus=False):
    """What needs a person, one line each; a click shows it."""

    class Looked(Message):
        def __init__(self, experiment: int | None) -> None:
            super().__init__()
            self.experiment = experiment

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._experiments: list[int | None] = []

    def show_queue(self, lines: Sequence[tuple[int | None, Text]]) -> None:
        """Lines with the experiment that each is about."""
        self._experiments = [experiment for experiment, _ in lines]
        height = max(1, len(lines))
        if self.styles.height is None or self.styles.height.value != height:
            self.styles.height = height
        self.show([line for _, line in lines])

    def on_click(self, event: events.Click) -> None:
        if event.y < len(self._experiments):
            self.post_message(self.Looked(self._experiments[event.y]))


_CELL = {"pass": (".", theme.GOOD), "fail": ("F", theme.BAD), "unproven": ("?", theme.WARN)}
_GATE_STYLES = {"pass": theme.GOOD, "fail": theme.BAD, "running": theme.ACCENT}
_GATE_WORDS = {"pass": "ok", "fail": "FAILED", "running": "now", "": "-"}
_SHORT_GATES = {"correctness": "correct", "integrity": "probes"}

Gate = tuple[str, str, Sequence[str], str]
"""Name, state (`pass`, `fail`, `running` or empty), outcomes of its checks, a word in place of the usual."""


def checks_strip(gates: Sequence[Gate], width: int) -> Text:
    """Gates in one line, in the longest form that fits: `lint ok  quick ok  correctness ....F..  speed -`.

    `.` passed, `F` failed, `?` could not be proven here. Gates that passed show no single checks.
    """
    merged = _merged(gates)
    forms = (
        ("  ", False, 40, gates),
        ("  ", True, 24, gates),
        (" ", True, 12, gates),
        (" ", True, 6, gates),
        ("  ", True, 24, merged),
        (" ", True, 6, merged),
    )
    line = Text()
    for gap, short, cells, shown in forms:
        line = Text(gap).join(_gate(gate, short, cells) for gate in shown)
        if line.cell_len <= width:
            return line
    line.truncate(width)
    return line


def _merged(gates: Sequence[Gate]) -> list[Gate]:
    """The gates that passed at the front as one, and those not begun at the end as one: `lint..trials ok`."""
    states = [state for _, state, _, _ in gates]
    front = next((i for i, state in enumerate(states) if state != "pass"), len(states))
    back = next((i for i, state in enumerate(reversed(states)) if state), len(states))
    middle = list(gates[front : len(gates) - back])
    return [*_run(gates[:front]), *middle, *_run(gates[len(gates) - back :])]


def _run(gates: Sequence[Gate]) -> list[Gate]:
    if len(gates) < 2:
        return list(gates)
    names = [_SHORT_GATES.get(name, name) for name, _, _, _ in (gates[0], gates[-1])]
    return [("..".join(names), gates[0][1], (), "")]


def _gate(gate: Gate, short: bool, cells: int) -> Text:
    name, state, outcomes, word = gate
    style = _GATE_STYLES.get(state, theme.DIM)
    part = Text.styled(f"{_SHORT_GATES.get(name, name) if short else name} ", style)
    if state == "pass" or not outcomes:
        return part.append(word or _GATE_WORDS[state], style)
    shown = outcomes[-cells:]
    if len(shown) < len(outcomes):
        part.append(f"{len(outcomes) - len(shown)}+", theme.DIM)
    for outcome in shown:
        cell, cell_style = _CELL.get(outcome, ("?", theme.WARN))
        part.append(cell, cell_style)
    return part.append(" FAILED", style) if state == "fail" else part
