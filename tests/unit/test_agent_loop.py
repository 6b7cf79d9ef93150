"""Agents in a whole lab on the fake device, against services that speak the real protocols."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from agent_lab import KEY, agent_config, agent_lab, research, submission, variant
from kernel_lab.engine.events import AgentSaid
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
