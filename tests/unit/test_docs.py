"""docs/commands.md says of every command and option what `--help` says, and of no others; docs/events.md
names every event."""

from __future__ import annotations

import argparse
import dataclasses
import re
from pathlib import Path

import pytest
from kernel_lab.engine import facts
from kernel_lab.engine.commands import VETO_CATEGORIES
from kernel_lab.engine.events import EVENT_TYPES
from kernel_lab.tui.cli_parser import build_parser

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
COMMON = {"--help", "--json"}
"""Options of every command, told once at the top of the page."""


def _commands() -> dict[str, argparse.ArgumentParser]:
    action = next(action for action in build_parser()._actions if action.dest == "command")
    return dict(action.choices or {})  # type: ignore[arg-type]


def _sections() -> dict[str, str]:
    parts = re.split(r"^### (\S+)$", PAGE, flags=re.MULTILINE)
    return {
        name: re.split(r"^## ", text, flags=re.MULTILINE)[0]
        for name, text in zip(parts[1::2], parts[2::2], strict=True)
    }


def _options(parser: argparse.ArgumentParser) -> set[str]:
    return {name for name in parser._option_string_actions if name.startswith("--")} - COMMON


def test_every_command_has_a_section_and_every_section_a_command() -> None:
    assert list(_sections()) == list(_commands())


@pytest.mark.parametrize("name", sorted(_commands()))
def test_the_section_tells_every_option_and_no_other(name: str) -> None:
    told = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", _sections()[name])) - COMMON
    others = {"--headless", "--detach"} if name == "run" else set()
    assert told - others == _options(_commands()[name]) - others
    assert _options(_commands()[name]) >= others


def test_every_option_has_a_help_line_and_every_command_a_sentence() -> None:
    for name, parser in _commands().items():
        assert parser.description, name
        for action in parser._actions:
            if action.option_strings:
                assert action.help, (name, action.option_strings)


@pytest.mark.parametrize(
    ("command", "option", "values"),
    [
        ("run", "--mode", ("ask", "wins", "auto")),
        ("diff", "--against", ("parent", "champion", "seed")),
        ("veto", "--category", VETO_CATEGORIES),
    ],
)
def test_closed_lists_are_told_whole(command: str, option: str, values: tuple[str, ...]) -> None:
    action = _commands()[command]._option_string_actions[option]
    assert tuple(action.choices or ()) == values
    written = "|".join(values)
    assert f"{option} {written}" in _sections()[command].replace("\\|", "|")


def test_the_defaults_on_the_page_are_those_of_the_program() -> None:
    from kernel_lab.tui import choices

    run = _sections()["run"]
    for default in (choices.DEFAULT_GPU, choices.DEFAULT_MODEL, ",".join(choices.DEFAULT_TASKS)):
        assert f"`{default}`" in run
    assert f"without a screen {choices.HEADLESS_BUDGET}" in run


def test_the_readme_names_no_command_that_is_not_there() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    code = re.findall(r"```.*?```|`[^`\n]+`", readme, flags=re.DOTALL)
    for name in re.findall(r"\bkernel-lab ([a-z]+)\b", "\n".join(code)):
        assert name in _commands(), f"README.md: kernel-lab {name}"


def test_the_page_of_events_tells_every_type_with_its_fields() -> None:
    page = (ROOT / "docs" / "events.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| (.+) \|$", page, flags=re.MULTILINE)
    told = {name: re.findall(r"`(\w+)`", listed) for name, listed, _ in rows}
    assert told == {
        name: [field.name for field in dataclasses.fields(cls)] for name, cls in EVENT_TYPES.items()
    }


def test_nested_values_of_events_are_told_with_their_fields() -> None:
    page = (ROOT / "docs" / "events.md").read_text(encoding="utf-8").replace("\n", " ")
    for cls in (facts.Reason, facts.Check, facts.Prediction, facts.Speed):
        listed = ", ".join(f'"{field.name}"' for field in dataclasses.fields(cls))
        assert f"`{{{listed}}}`" in page, cls.__name__
