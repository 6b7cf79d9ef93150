"""What the places share: keys become actions of the registry, and actions that cannot be done say why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Literal, cast

from kernel_lab.tui import actions
from kernel_lab.tui.actions import Action, Place, Situation
from kernel_lab.tui.text import one_line
from kernel_lab.tui.widgets.bars import KeyBar
from kernel_lab.tui.widgets.idea_box import TextBox
from textual import events
from textual.screen import Screen, ScreenResultType
from textual.widget import Widget
from textual.worker import Worker, WorkerState

if TYPE_CHECKING:
    from kernel_lab.tui.cockpit import LabApp

Severity = Literal["information", "warning", "error"]
TOAST_LIMIT = 400


class TellsFailures(Screen[ScreenResultType]):
    """A screen whose background work may fail in ways nobody foresaw: the person is told, and it stays."""

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        error = event.worker.error
        if event.state == WorkerState.ERROR and error is not None:
            words = one_line(f"unexpected {type(error).__name__}: {error}", TOAST_LIMIT)
            self.app.notify(words, severity="error", markup=False, timeout=8.0)


class PlaceScreen(TellsFailures[None]):
    """One of the three places."""

    place: ClassVar[Place]
    replaying: ClassVar[bool] = False

    @property
    def lab_app(self) -> LabApp:
        return cast("LabApp", self.app)

    def situation(self) -> Situation:
        """What actions have to know now."""
        raise NotImplementedError

    @property
    def stands(self) -> bool:
        """Whether its panes are there: while a screen is taken down, they go before it does."""
        return bool(self.query(KeyBar))

    @property
    def in_text_box(self) -> bool:
        """Whether letters are text now. Asked by a mark, so that a place without boxes need not load one."""
        return bool(getattr(self.focused, "takes_text", False))

    # ---- actions

    def action_act(self, action_id: str) -> None:
        """Called by every binding."""
        self.perform(action_id)

    def perform(self, action_id: str) -> None:
        """Do an action, or say why it cannot be done now."""
        action = actions.BY_ID[action_id]
        why = action.enabled(self.situation())
        if why is not None:
            self.tell(f"{actions.key_name(actions.keys_now(action)[0])} {action.label}: {why}", "warning")
            return
        handler = getattr(self, f"do_{action_id}", None) or getattr(self.lab_app, f"do_{action_id}")
        handler()

    def possible(self) -> Sequence[tuple[Action, str | None]]:
        """The actions of this place with the reasons why they cannot be done now."""
        situation = self.situation()
        listed = actions.available(self.place, self.replaying)
        if self.in_text_box:
            listed = actions.in_scopes(["box"])
        return [(action, action.enabled(situation)) for action in listed]

    def refresh_keys(self) -> None:
        """Bring the key bar up to date."""
        for bar in self.query(KeyBar):
            bar.show_actions(self.possible(), self.situation())

    def on_key_bar_pressed(self, event: KeyBar.Pressed) -> None:
        event.stop()
        if self.in_text_box:
            cast("TextBox", self.focused).press(event.action_id)
        else:
            self.perform(event.action_id)

    def on_descendant_focus(self, _: events.DescendantFocus) -> None:
        self.refresh_keys()

    def on_descendant_blur(self, _: events.DescendantBlur) -> None:
        self.refresh_keys()

    # ---- telling

    def tell(self, text: str, severity: Severity = "information") -> None:
        """One toast. The text may come from anywhere."""
        self.app.notify(one_line(text, TOAST_LIMIT), severity=severity, markup=False, timeout=4.0)

    def copied_widget(self) -> Widget | None:
        """The pane that `y` copies."""
        return self.focused
