"""Textual bindings made from the registry of actions: the only place where keys become bindings."""

from __future__ import annotations

from kernel_lab.tui import actions
from kernel_lab.tui.actions import Place, Scope
from textual.binding import Binding, BindingType


def for_place(place: Place, replaying: bool = False) -> list[BindingType]:
    """Bindings of a screen; every one calls `action_act` with the id of its action."""
    return [binding(action) for action in actions.available(place, replaying)]


def for_scope(scope: Scope) -> list[BindingType]:
    """Bindings of one scope; every one calls `action_act` with the id of its action."""
    return [binding(action) for action in actions.in_scopes([scope])]


def binding(action: actions.Action) -> Binding:
    """The Textual binding of one action."""
    # Leaving must work from dialogs and text boxes too, where letters are text.
    priority = action.scope == "always"
    return Binding(
        ",".join(action.keys),
        f"act('{action.id}')",
        action.label,
        id=action.id,
        show=False,
        priority=priority,
    )
