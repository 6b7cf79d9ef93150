"""The person's own settings of the cockpit: colours, keys and how it calls. Read from settings.toml.

A wrong value is told and its default is taken: no mistake in a file keeps anyone from their labs.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kernel_lab.tui import actions

THEMES = ("dark", "light", "ansi", "colour-blind", "colour-blind-light")
DESKTOPS = ("off", "osc9", "osc777", "notify-send")
SETTINGS_LIMIT_BYTES = 256_000

TEMPLATE = """\
# Settings of kernel-lab's screen. What is left out keeps its default.

# theme = "dark"          # dark, light, ansi (the terminal's own colours), colour-blind, colour-blind-light
# ascii = false           # true: draw with ASCII alone
# bell = true             # ring when something begins to wait for you
# title = true            # say in the terminal's title how many things wait
# desktop = "off"         # notify too: osc9 (iTerm2, kitty, WezTerm), osc777 (foot, urxvt), notify-send

# [keys]                  # action = "key" or several; docs/keys.md lists the actions and their keys
# approve = "a"
# down = ["down", "j", "ctrl+n"]
"""


@dataclass(frozen=True, slots=True)
class Settings:
    """What a person may choose. `keys`: action to the keys that start it in place of the usual ones."""

    theme: str = "dark"
    ascii: bool = False
    bell: bool = True
    title: bool = True
    desktop: str = "off"
    keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    """What was wrong in the file, one line each with what was done about it."""


def settings_path() -> Path:
    """Where the settings lie; the file need not exist."""
    from kernel_lab.engine import paths

    return paths.config_dir() / "settings.toml"


def read_settings(path: Path | None = None, environment: Mapping[str, str] | None = None) -> Settings:
    """The settings of this person. Never raises: what cannot be read is told in `problems`.

    Without `ascii` in the file, a locale that is not UTF-8 (`LANG=C`, say) asks for ASCII.
    """
    path = settings_path() if path is None else path
    plain = Settings(ascii=not _utf8(os.environ if environment is None else environment))
    try:
        with path.open("rb") as file:
            text = file.read(SETTINGS_LIMIT_BYTES).decode()
        found = tomllib.loads(text)
    except FileNotFoundError:
        return plain
    except (OSError, ValueError) as problem:
        why = getattr(problem, "strerror", None) or problem
        return Settings(ascii=plain.ascii, problems=(f"{path} cannot be read ({why}): mend it or remove it",))
    return _checked(found, path.name, plain)


def _checked(found: Mapping[str, Any], name: str, plain: Settings) -> Settings:
    problems: list[str] = []
    values: dict[str, Any] = {"ascii": plain.ascii}
    closed: dict[str, tuple[str, ...]] = {"theme": THEMES, "desktop": DESKTOPS}
    for key, value in found.items():
        if key in closed:
            if value in closed[key]:
                values[key] = value
            else:
                problems.append(f"{name}: {key} is {value!r}: choose one of {', '.join(closed[key])}")
        elif key in ("ascii", "bell", "title"):
            if isinstance(value, bool):
                values[key] = value
            else:
                problems.append(f"{name}: {key} is {value!r}: give true or false")
        elif key == "keys":
            keys, wrong = _keys(value, name)
            values["keys"] = keys
            problems += wrong
        else:
            problems.append(f"{name}: {key} is no setting: remove it")
    return Settings(**values, problems=tuple(problems))


def _keys(value: object, name: str) -> tuple[dict[str, tuple[str, ...]], list[str]]:
    """The remapped keys, without those that could not work."""
    if not isinstance(value, dict):
        return {}, [f"{name}: keys is {value!r}: give a table, [keys]"]
    problems: list[str] = []
    keys: dict[str, tuple[str, ...]] = {}
    for action, given in value.items():
        listed = [given] if isinstance(given, str) else given
        if action not in actions.BY_ID:
            problems.append(f"{name}: keys.{action} is no action: docs/keys.md lists them")
        elif not (
            isinstance(listed, list)
            and listed
            and all(isinstance(key, str) and 0 < len(key) <= 40 and key.isprintable() for key in listed)
        ):
            problems.append(f'{name}: keys.{action} is {given!r}: give a key, such as "x" or ["x", "f2"]')
        else:
            keys[action] = tuple(actions.key_of(key) for key in listed)
    # One mistake must not take a key away from another action: the remap that clashes is left out.
    while clash := actions.clash_of(keys):
        remapped, other, key = clash
        del keys[remapped]
        taken = f"{actions.key_name(key)} means {other} already"
        problems.append(f"{name}: keys.{remapped}: {taken}: give that another key too")
    return keys, problems


def _utf8(environment: Mapping[str, str]) -> bool:
    """Whether the locale's characters are UTF-8: what the first of these variables that is set says."""
    for name in ("LC_ALL", "LC_CTYPE", "LANG"):
        value = environment.get(name, "")
        if value:
            return "utf8" in value.lower().replace("-", "") or value.lower() not in ("c", "posix")
    return True
