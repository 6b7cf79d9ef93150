"""docs/agents.md says what the program does: settings and defaults, tools, models, addresses, prices."""

from __future__ import annotations

import re
import tomllib
from dataclasses import fields
from pathlib import Path

from kernel_lab.engine.lab import LabConfig
from kernel_lab.engine.proposers.agent.keys import HOSTS, OWN
from kernel_lab.engine.proposers.agent.make import DEFAULTS
from kernel_lab.engine.proposers.agent.prices import SHIPPED
from kernel_lab.engine.proposers.agent.settings import AgentSettings
from kernel_lab.engine.proposers.agent.tools import TOOLS
from kernel_lab.engine.proposers.base import AGENTS
from kernel_lab.tui.cli_parser import build_parser

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "agents.md").read_text(encoding="utf-8")


def test_every_setting_of_agents_is_told_and_no_other() -> None:
    told = set(re.findall(r"`(agent_[a-z_]+)`", PAGE))
    assert told == {field.name for field in fields(LabConfig) if field.name.startswith("agent_")}


def test_the_defaults_are_those_of_the_program() -> None:
    settings = AgentSettings()
    for name, value in (
        ("agent_turns", settings.turns),
        ("agent_seconds", settings.seconds),
        ("agent_context", settings.context_tokens),
        ("agent_ask_seconds", settings.ask_seconds),
    ):
        assert f"| `{name}` | | {value:g} |" in PAGE, name
    assert "up to six times" in PAGE and settings.retries == 6
    for model, url in DEFAULTS.values():
        assert f"`{model}`" in PAGE and f"`{url}`" in PAGE


def test_tools_proposers_variables_and_options_are_all_told() -> None:
    for tool in TOOLS:
        assert f"`{tool.name}`" in PAGE, tool.name
    for proposer in AGENTS:
        assert f"`{proposer}`" in PAGE, proposer
    for names in (*OWN.values(), *HOSTS.values()):
        assert all(f"`{name}`" in PAGE for name in names)
    action = next(action for action in build_parser()._actions if action.dest == "command")
    run = dict(action.choices or {})["run"]._option_string_actions  # type: ignore[arg-type]
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", PAGE)) <= run.keys()


def test_every_default_model_has_a_price() -> None:
    prices = tomllib.loads(SHIPPED.read_text(encoding="utf-8"))
    assert {model for model, _ in DEFAULTS.values()} <= prices.keys()
