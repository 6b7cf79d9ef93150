"""The help: what the keys do here, from the registry, with the reason where one does nothing now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kernel_lab.tui import actions, theme
from kernel_lab.tui.actions import Action, Place, Scope
from kernel_lab.tui.text import wrap
from rich.text import Text

KEY_WIDTH = 9
NAME_WIDTH = 11


def help_lines(
    place: Place, replaying: bool, possible: Sequence[tuple[Action, str | None]], in_box: bool, width: int
) -> list[Text]:
    """Lines of the help for `width` cells; what has the focus comes first."""
    reasons = {action.id: why for action, why in possible}
    here = [action for action in actions.available(place, replaying) if action.scope != "everywhere"]
    lines: list[Text] = []
    if in_box:
        lines += _section(actions.SCOPE_TITLES["box"], actions.in_scopes(["box"]), {}, width)
    lines += _section(actions.SCOPE_TITLES[place], here, reasons, width)
    rest: list[Scope] = (
        ["pane", "everywhere", "always"] if in_box else ["pane", "box", "everywhere", "always"]
    )
    for scope in rest:
        lines += _section(actions.SCOPE_TITLES[scope], actions.in_scopes([scope]), {}, width)
    return lines


def _section(
    title: str, listed: Sequence[Action], reasons: Mapping[str, str | None], width: int
) -> list[Text]:
    lines = [Text.styled(title, theme.HEADING)]
    left = KEY_WIDTH + NAME_WIDTH
    for action in listed:
        why = reasons.get(action.id)
        keys = actions.keys_of(action)
        line = Text()
        if len(keys) >= KEY_WIDTH:
            lines.append(Text.styled(keys, theme.DIM if why else theme.KEY))
            keys = ""
        line.append(f"{keys:<{KEY_WIDTH}}", theme.DIM if why else theme.KEY)
        line.append(f"{action.label:<{NAME_WIDTH}}", theme.DIM if why else theme.BOLD)
        parts = wrap(action.help, max(16, width - left))
        line.append(parts[0], theme.DIM if why else theme.PLAIN)
        lines.append(line)
        lines += [Text.styled(" " * left + part, theme.DIM if why else theme.PLAIN) for part in parts[1:]]
        if why:
            told = wrap(f"not now: {why}", max(16, width - left))
            lines += [Text.styled(" " * left + part, theme.WARN) for part in told]
    lines.append(Text())
    return lines
