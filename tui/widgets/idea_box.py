"""Text boxes: the idea box at the foot of the screen, and the box that dialogs use.

Enter sends; shift+enter, alt+enter or ctrl+j begins a new line; a paste keeps all its lines.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from kernel_lab.tui import actions, theme
from kernel_lab.tui.widgets.bars import Bar
from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.message import Message
from textual.widgets import TextArea

IDEA_LIMIT = 20_000
"""Characters of one idea: the engine takes no more."""

SAID_KEPT = 50

IdeaScope = Literal["next", "always", "from"]
Scope = Literal["next", "always", "from", "answer"]
"""Whom a text is for: an idea for proposals, or the answer to an agent that waits."""


def pressed(key: str) -> str | None:
    """The action of the scope `box` that a key starts; recalling depends on where the cursor stands."""
    boxes = (action for action in actions.in_scopes(["box"]) if action.id != "box_history")
    return next((action.id for action in boxes if key in actions.keys_now(action)), None)


class TextBox(TextArea):
    """A plain text area that sends on Enter. Holds what a person types, and never markup."""

    takes_text = True

    class Sent(Message):
        def __init__(self, box: TextBox, text: str) -> None:
            super().__init__()
            self.box = box
            self.text = text

        @property
        def control(self) -> TextBox:
            return self.box

    class Left(Message):
        """The person wants out of the box; the text stays."""

    class ScopeAsked(Message):
        """The next one of whom it is for, or of what kind it is."""

    class Typed(Message):
        """A key went into the box: approvals wait a moment."""

    def __init__(self, *, id: str | None = None, placeholder: str = "", said: Sequence[str] = ()) -> None:
        super().__init__(id=id, soft_wrap=True, show_line_numbers=False, placeholder=placeholder)
        self.cursor_blink = False
        self.said: list[str] = list(said)
        self._recalled = 0

    def press(self, action_id: str) -> None:
        """Do an action of the scope `box`."""
        match action_id:
            case "box_send":
                self.post_message(self.Sent(self, self.text))
            case "box_newline":
                self.insert("\n")
            case "box_leave":
                self.post_message(self.Left())
            case "box_scope":
                self.post_message(self.ScopeAsked())
            case _:
                self._recall(1)

    async def _on_key(self, event: events.Key) -> None:
        self.post_message(self.Typed())
        handled = True
        match event.key:
            case key if (action_id := pressed(key)) is not None:
                self.press(action_id)
            case "up" if self.said and self.cursor_location[0] == 0:
                self._recall(1)
            case "down" if self._recalled and self.cursor_location[0] == self.document.line_count - 1:
                self._recall(-1)
            case _:
                handled = False
        if handled:
            event.stop()
            event.prevent_default()

    async def _on_paste(self, event: events.Paste) -> None:
        self.post_message(self.Typed())
        room = IDEA_LIMIT - len(self.text)
        if len(event.text) > room:
            event.prevent_default()
            self.insert(event.text[: max(0, room)])
            words = f"only {IDEA_LIMIT:,} characters fit: the rest was left out"
            self.notify(words, severity="warning", markup=False)

    def _recall(self, by: int) -> None:
        self._recalled = min(len(self.said), max(0, self._recalled + by))
        self.text = self.said[-self._recalled] if self._recalled else ""
        self.move_cursor(self.document.end)

    def clear_sent(self, text: str) -> None:
        """Empty the box and remember what was said."""
        self.said = [*self.said[-SAID_KEPT:], text]
        self._recalled = 0
        self.text = ""


class IdeaBox(Horizontal):
    """Whom it is for, and the box. One line until it has the focus, then as many as are written."""

    class Said(Message):
        def __init__(self, text: str, scope: IdeaScope, from_experiment: int | None) -> None:
            super().__init__()
            self.text = text
            self.scope: IdeaScope = scope
            self.from_experiment = from_experiment

    class Answered(Message):
        """A text that answers an agent's question."""

        def __init__(self, text: str, question: int) -> None:
            super().__init__()
            self.text = text
            self.question = question

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.scope: Scope = "next"
        self.from_experiment: int | None = None
        self._shown: int | None = None
        self._question: int | None = None

    def compose(self) -> ComposeResult:
        yield Bar(id="idea-scope")
        yield TextBox(id="idea-text", placeholder="i: say an idea. Enter sends, tab changes whom it is for")

    def on_mount(self) -> None:
        self._draw_scope()

    @property
    def box(self) -> TextBox:
        return self.query_one("#idea-text", TextBox)

    def offer(self, shown: int | None) -> None:
        """The experiment that `from #N` would start from."""
        if shown != self._shown:
            self._shown = shown
            if self.scope == "from" and not self.box.has_focus:
                self.scope = "next"
            self._draw_scope()

    def wonder(self, question: int | None) -> None:
        """The agent's question that waits for an answer: what is begun now is for it."""
        if question == self._question:
            return
        self._question = question
        if question is not None and not self.box.text:
            self.scope = "answer"
        elif question is None and self.scope == "answer":
            self.scope = "next"
        self._draw_scope()

    def begin(self, scope: IdeaScope | None = None) -> None:
        """Put the cursor into the box."""
        if scope == "from" and self._shown is not None:
            self.scope, self.from_experiment = "from", self._shown
            self._draw_scope()
        self.box.focus()

    def on_text_box_scope_asked(self, event: TextBox.ScopeAsked) -> None:
        event.stop()
        order: list[Scope] = ["next", "always"]
        if self._question is not None:
            order.insert(0, "answer")
        if self._shown is not None:
            order.append("from")
        self.scope = order[(order.index(self.scope) + 1) % len(order)] if self.scope in order else "next"
        self.from_experiment = self._shown if self.scope == "from" else None
        self._draw_scope()

    def on_text_box_sent(self, event: TextBox.Sent) -> None:
        event.stop()
        text = event.text.strip()
        if not text:
            self.notify("nothing is written yet: esc leaves the box", severity="warning", markup=False)
            return
        if self.scope != "answer":
            self.post_message(self.Said(text, self.scope, self.from_experiment))
        elif self._question is not None:
            self.post_message(self.Answered(text, self._question))
        self.box.clear_sent(text)

    def on_text_area_changed(self, event: TextArea.Changed) -> None:
        event.stop()
        self.set_class(bool(self.box.text), "-written")

    def on_click(self, event: events.Click) -> None:
        if event.widget is not None and event.widget.id == "idea-scope":
            self.post_message(TextBox.ScopeAsked())

    def _draw_scope(self) -> None:
        words = {"from": f"from #{self.from_experiment}", "answer": f"answer {self._question}"}
        word = words.get(self.scope, self.scope)
        self.query_one("#idea-scope", Bar).show([Text.styled(f" {word:<10}>", theme.ACCENT)])
