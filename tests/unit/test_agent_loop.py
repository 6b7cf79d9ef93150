"""Agents in a whole lab on the fake device, against services that speak the real protocols."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from agent_lab import KEY, agent_config, agent_lab, research, submission, variant
from kernel_lab.engine.commands import Stop
from kernel_lab.engine.events import AgentSaid
from kernel_lab.engine.lab import open_lab
from kernel_lab.engine.proposers.agent.make import make_agent
from model_server import ModelServer, Turn

PROTOCOLS = ("anthropic", "openai")


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_an_agent_edits_tries_and_submits_and_its_win_is_kept(
    tmp_path: Path, monkeypatch: Any, protocol: Any
) -> None:
    steps = [
        Turn("I look first.", [("profile", {})], thinking="Masked blocks?"),
        Turn("", [("edit", {"old": '"SKIP": False', "new": '"SKIP": True'}), ("compile", {}), ("check", {})]),
        Turn("Good.", [submission()], cached=900, input=50, output=70, thought=20),
    ]
    async with ModelServer(protocol, steps) as server:
        lab, agent = agent_lab(tmp_path / "lab", agent_config(protocol, server.url, budget=1), monkeypatch)
        ended = await research(lab, agent)
    assert ended.reason == "budget"
    row = lab.ledger.experiments()[1]
    assert (row.status, row.proposer, row.lever) == ("keep", protocol, "skip"), row.reasons
    assert row.prediction is not None and row.prediction.gain_percent == 30.0
    assert lab.ledger.blob(row.source_sha or "").decode() == variant(SKIP=True)
    said = [r.event.text for r in lab.ledger.records() if isinstance(r.event, AgentSaid)]
    assert len(said) == 1
    assert "Masked blocks?" in said[0] and "→ compile: compiles" in said[0] and "→ check: passes" in said[0]
    spent = lab.ledger.spending()
    assert (spent.requests, spent.input_tokens, spent.cached_tokens) == (3, 2050, 900)
    assert (spent.output_tokens, spent.thinking_tokens, spent.unpriced) == (270, 20, 0)
    price = {"anthropic": (4.0, 0.20, 20.0), "openai": (2.0, 0.10, 10.0)}[protocol]
    assert spent.usd == pytest.approx((2050 * price[0] + 900 * price[1] + 270 * price[2]) / 1e6)
    auth = server.seen[0].headers
    assert KEY in (auth.get("x-api-key"), auth.get("authorization", "").removeprefix("Bearer "))


async def test_an_engine_that_stops_in_a_stream_asks_again_and_counts_both(
    tmp_path: Path, monkeypatch: Any
) -> None:
    slow = Turn("word " * 400, piece=10, delay_s=0.01, input=5_000)
    good = Turn("", [submission(source=variant(SKIP=True))], piece=4000, input=5_000, output=200)

    def script(number: int, body: dict[str, Any]) -> Turn:
        return slow if number == 0 else good

    async with ModelServer("anthropic", script) as server:
        config = agent_config("anthropic", server.url, budget=1)
        lab, agent = agent_lab(tmp_path / "lab", config, monkeypatch)
        running = asyncio.create_task(research(lab, agent))
        await server.streaming.wait()
        await asyncio.sleep(0.3)
        lab.ledger.send(Stop(now=True), "test")
        assert (await running).reason == "stop"
        assert [row.status for row in lab.ledger.experiments()] == ["seed"]
        first = lab.ledger.spending()
        assert (first.requests, first.incomplete, first.input_tokens) == (1, 1, 5_000)
        lab.close()

        lab = open_lab(lab.path)
        monkeypatch.setenv("PLANTED_KEY", KEY)
        assert (await research(lab, make_agent("anthropic", "", config, lab.path))).reason == "budget"
    assert [row.status for row in lab.ledger.experiments()] == ["seed", "keep"]
    total = lab.ledger.spending()
    assert (total.requests, total.incomplete, total.input_tokens) == (2, 1, 10_000)
    assert total.output_tokens == first.output_tokens + 200
    lab.close()


@pytest.mark.parametrize(
    ("settings", "probe", "requests"),
    [({"agent_turns": 2}, "turns", 2), ({"agent_seconds": 0.5}, "time", 1)],
)
async def test_a_proposal_without_end_meets_its_limits(
    tmp_path: Path, monkeypatch: Any, settings: dict[str, Any], probe: str, requests: int
) -> None:
    endless = Turn("Let me look once more. " * 20, [("profile", {})], delay_s=0.05 if requests == 1 else 0.0)
    async with ModelServer("openai", [endless]) as server:
        config = agent_config("openai", server.url, budget=1, **settings)
        lab, agent = agent_lab(tmp_path / "lab", config, monkeypatch)
        await research(lab, agent)
    row = lab.ledger.experiments()[1]
    assert (row.status, row.reasons[0].probe) == ("invalid", probe)
    assert len(server.seen) == requests
    if probe == "turns":
        assert "This is your last reply" in str(server.seen[1].body["messages"][-1]["content"])
