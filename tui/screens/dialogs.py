"""Small questions over a place: a choice, a reason, a line, a text to read. Escape answers nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kernel_lab.tui import actions, theme
from kernel_lab.tui.text import fit, one_line, wrapped
from kernel_lab.tui.widgets.bars import Bar, KeyBar
from kernel_lab.tui.widgets.idea_box import TextBox
from kernel_lab.tui.widgets.pane import Builder, Lines
from kernel_lab.tui.widgets.table import Table
from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.screen import ModalScreen

BOX_KEYS = ("box_send", "box_newline", "box_leave")


@dataclass(frozen=True, slots=True)
class Choice:
    """One answer: its key, what it is called, what comes of it."""

    key: str
    label: str
    help: str = ""


@dataclass(frozen=True, slots=True)
class Reason:
    """What a person gave as the reason, and of what kind it is (empty where no kinds were offered)."""

    text: str
    category: str


class ChoiceTable(Table):
    """The answers of a choice dialog."""

    def __init__(self, choices: Sequence[Choice], heading: str) -> None:
        super().__init__(id="choices")
        self.choices = choices
        self._heading = heading
        self._row = 0

    def row_count(self) -> int:
        return len(self.choices)

    def row_text(self, row: int, width: int) -> Text:
        choice = self.choices[row]
        line = Text.styled(f" {choice.key}  ", theme.KEY).append(choice.label, theme.BOLD)
        if choice.help:
            line.append(f"  {fit(choice.help, max(0, width - line.cell_len - 2))}", theme.LABEL)
        return line

    def heading(self, width: int) -> str:
        return self._heading

    def empty_text(self) -> str:
        return ""

    def cursor_row(self) -> int | None:
        return self._row

    def set_cursor_row(self, row: int) -> None:
        self._row = row


class ChoiceDialog(ModalScreen[str | None]):
    """Asks for one of a few answers: by its key, by the arrows and Enter, or by a click."""

    def __init__(self, title: str, choices: Sequence[Choice], text: str = "") -> None:
        super().__init__()
        self._title = title
        self._text = text
        self._choices = choices

    def compose(self) -> ComposeResult:
        with Vertical(id="dialog") as box:
            box.border_title = Text(fit(one_line(self._title), 70))
            if self._text:
                yield Lines(id="dialog-text")
            yield ChoiceTable(self._choices, "enter chooses, esc leaves it as it is")

    def on_mount(self) -> None:
        table = self.query_one(ChoiceTable)
        table.styles.height = len(self._choices) + 1
        table.rows_changed()
        table.focus()
        if self._text:
            lines = self.query_one("#dialog-text", Lines)
            lines.styles.height = min(8, len(wrapped(self._text, 60)))
            lines.can_focus = False
            lines.show(lambda width: [Text.styled(line) for line in wrapped(self._text, width)])

    def on_key(self, event: events.Key) -> None:
        if event.key == "escape":
            self.dismiss(None)
        elif event.key == "enter":
            self.dismiss(self._choices[self.query_one(ChoiceTable).cursor_row() or 0].key)
        elif event.character and any(choice.key == event.character for choice in self._choices):
            self.dismiss(event.character)
        else:
            return
        event.stop()

    def on_table_moved(self, event: Table.Moved) -> None:
        event.stop()

    def on_table_chosen(self, event: Table.Chosen) -> None:
        event.stop()
        self.dismiss(self._choices[self.query_one(ChoiceTable).cursor_row() or 0].key)


class ReasonDialog(ModalScreen[Reason | None]):
    """Asks why, in words that the next proposal reads. Tab changes the kind where kinds are offered."""

    def __init__(
        self,
        title: str,
        categories: Sequence[str] = (),
        *,
        typed: Callable[[], None],
        hint: str = "why? The next proposal reads it.",
        written: str = "",
    ) -> None:
        super().__init__()
        self._title = title
        self._hint = hint
        self._written = written
        self._categories = categories
        self._category = 0
        self._typed = typed

    def compose(self) -> ComposeResult:
        with Vertical(id="dialog") as box:
            box.border_title = Text(fit(one_line(self._title), 70))
            yield Bar(id="dialog-kind")
            yield TextBox(id="dialog-box", placeholder=self._hint)
            yield KeyBar(id="dialog-keys")

    def on_mount(self) -> None:
        self.query_one("#dialog-kind").display = bool(self._categories)
        shown = [(action, None) for action in actions.in_scopes(["box"]) if action.id in BOX_KEYS]
        self.query_one(KeyBar).show_actions(shown, actions.Situation())
        self._draw()
        box = self.query_one(TextBox)
        box.text = self._written
        box.move_cursor(box.document.end)
        box.focus()

    def _draw(self) -> None:
        line = Text.styled("tab: kind ", theme.LABEL)
        for index, category in enumerate(self._categories):
            chosen = index == self._category
            line.append(f" {category.replace('_', ' ')} ", theme.ALERT if chosen else theme.LABEL)
        self.query_one("#dialog-kind", Bar).show([line])

    def on_key_bar_pressed(self, event: KeyBar.Pressed) -> None:
        event.stop()
        self.query_one(TextBox).press(event.action_id)

    def on_text_box_scope_asked(self, event: TextBox.ScopeAsked) -> None:
        event.stop()
        if self._categories:
            self._category = (self._category + 1) % len(self._categories)
            self._draw()

    def on_click(self, event: events.Click) -> None:
        if event.widget is not None and event.widget.id == "dialog-kind":
            self.post_message(TextBox.ScopeAsked())

    def on_text_box_typed(self, event: TextBox.Typed) -> None:
        event.stop()
        self._typed()

    def on_text_box_left(self, event: TextBox.Left) -> None:
        event.stop()
        self.dismiss(None)

    def on_text_box_sent(self, event: TextBox.Sent) -> None:
        event.stop()
        text = event.text.strip()
        if not text:
            self.notify(
                "say why in a few words: the next proposal reads it", severity="warning", markup=False
            )
            return
        kind = self._categories[self._category] if self._categories else ""
        self.dismiss(Reason(text, kind))


class LineDialog(ModalScreen[str | None]):
    """Asks for one short line, such as an experiment's number."""

    def __init__(self, title: str, placeholder: str, *, typed: Callable[[], None]) -> None:
        super().__init__()
        self._title = title
        self._placeholder = placeholder
        self._typed = typed

    def compose(self) -> ComposeResult:
        with Vertical(id="dialog") as box:
            box.border_title = Text(fit(one_line(self._title), 70))
            yield TextBox(id="dialog-box", placeholder=self._placeholder)

    def on_mount(self) -> None:
        box = self.query_one(TextBox)
        box.styles.height = 1
        box.focus()

    def on_text_box_typed(self, event: TextBox.Typed) -> None:
        event.stop()
        self._typed()

    def on_text_box_left(self, event: TextBox.Left) -> None:
        event.stop()
        self.dismiss(None)

    def on_text_box_sent(self, event: TextBox.Sent) -> None:
        event.stop()
        self.dismiss(one_line(event.text, 200) or None)


class TextDialog(ModalScreen[None]):
    """Something to read, such as the help. Any of escape, q, enter or ? closes it."""

    def __init__(self, title: str, build: Builder) -> None:
        super().__init__()
        self._title = title
        self._build = build

    def compose(self) -> ComposeResult:
        with Vertical(id="reading") as box:
            box.border_title = Text(fit(one_line(self._title), 70))
            box.border_subtitle = "esc closes"
            yield Lines(id="dialog-text")

    def on_mount(self) -> None:
        lines = self.query_one(Lines)
        lines.show(self._build)
        lines.focus()

    def on_key(self, event: events.Key) -> None:
        if event.key in ("escape", "q", "enter", "question_mark", "f1"):
            event.stop()
            self.dismiss(None)
