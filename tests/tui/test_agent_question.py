"""An agent's question in the cockpit: a line in the queue, and an answer from the idea box."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cockpit_driver import Cockpit
from fake_lab import FakeEngine, FakeLab
from kernel_lab.engine.commands import Answer, Command, Say
from kernel_lab.engine.events import AgentSaid, Asked, Spent
from kernel_lab.engine.lab import read_config
from kernel_lab.tui.detail import Detail
from kernel_lab.tui.experiment_text import story_lines
from kernel_lab.tui.screens.start import agent_forecast, make_lab, offers


async def test_a_question_is_answered_from_the_box_and_the_next_text_is_an_idea_again(
    cockpit: Cockpit, lab: FakeLab, engine: FakeEngine, sent: list[Command]
) -> None:
    lab.seeds()
    lab.write(Asked(3, 1, "Which tile, [b]64[/b] or 128?", 300.0))
    lab.write(Spent(3, "anthropic", "m", 9_000, 3_000, 0, 1_000, 400, 0.42))
    async with cockpit(lab.folder) as driver:
        await driver.until(lambda: "the agent asks" in driver.text("#queue"))
        assert "Which tile, [b]64[/b] or 128?" in driver.text("#queue")
        assert "0.42 USD" in driver.text("#status")
        await driver.press("i", "6", "4", "enter")
        await driver.told("question 1 is answered")
        await driver.until(lambda: "the agent asks" not in driver.text("#queue"))
        await driver.press("i", "x", "enter")
        await driver.until(lambda: len(sent) == 2)
    assert sent == [Answer(1, "64"), Say("x", "next", None)]


def test_a_key_is_offered_with_a_forecast_and_the_cap_is_the_labs(own_world: Path, monkeypatch: Any) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setattr("kernel_lab.engine.proposers.agent.keys._from_keyring", lambda provider: None)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-0123456789")
    offered = {offer.name: offer for offer in offers().proposers if offer.spends and offer.ready}
    assert list(offered) == ["anthropic", "anthropic+search"]
    line = agent_forecast("anthropic+search", 5.0, 12)
    assert line.startswith("claude-opus-5-5: about ") and "12 proposals" in line
    assert line.endswith("stops at 5 USD; sent to https://api.anthropic.com")
    path = make_lab("rtx3060", "llama-3.1-8b", "gqa_decode", offered["anthropic+search"], "wins", 12, 5.0)
    config = read_config(path)
    assert (config.proposer, config.usd) == ("anthropic+search", 5.0)
    assert "sk-ant" not in (path / "lab.toml").read_text()


def test_the_story_of_an_experiment_tells_what_the_agent_said_and_what_it_cost() -> None:
    detail = Detail(3)
    for event in (
        Spent(3, "anthropic", "m-1", 9_000, 3_000, 0, 1_000, 400, 0.42),
        AgentSaid(3, "I look at the mask.\n→ compile: compiles [bold]\n\x1b[31m"),
    ):
        detail.apply(0.0, event)
    told = "\n".join(line.plain for line in story_lines(detail, None, 80))
    assert "m-1: 12,000 tokens read, 1,000 written, 0.420 USD" in told
    assert "What the agent said\n  I look at the mask.\n  → compile: compiles [bold]" in told
    assert "\x1b" not in told
