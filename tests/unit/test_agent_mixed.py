"""Search fills the card while an agent thinks; each gets its own credit."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from agent_lab import SMALL, agent_config, agent_lab, research, submission, variant
from kernel_lab.engine import commands as c
from model_server import Fault, ModelServer, Turn


@pytest.mark.parametrize("protocol", ["anthropic", "openai"])
async def test_search_works_while_the_agent_thinks_and_both_are_credited(
    tmp_path: Path, monkeypatch: Any, protocol: Any
) -> None:
    slow = Turn(
        "thinking " * 50,
        [submission(source=variant(base=SMALL, SKIP=True, EXP2=True, num_warps=8))],
        piece=10,
        delay_s=0.02,
    )
    async with ModelServer(protocol, [slow, slow]) as server:
        small = str(tmp_path / "small.py")
        config = agent_config(f"{protocol}+search", server.url, budget=25, from_file=small)
        lab, mixed = agent_lab(tmp_path / "lab", config, monkeypatch)
        assert mixed.name == f"{protocol}+search"
        running = asyncio.create_task(research(lab, mixed))
        while not any(row.proposer == protocol for row in lab.ledger.experiments()):
            assert not running.done()
            await asyncio.sleep(0.02)
        lab.ledger.send(c.Stop(now=True), "test")
        ended = await running
    assert ended.reason == "stop"
    rows = lab.ledger.experiments()[1:]
    first = next(row.id for row in rows if row.proposer == protocol)
    assert first > rows[0].id
    assert {row.proposer for row in rows if row.id < first} == {"search"}
    assert len(server.seen) <= 2


async def test_a_service_that_refuses_ends_the_run_with_its_line(tmp_path: Path, monkeypatch: Any) -> None:
    async with ModelServer("openai", [Fault(401, "invalid_api_key", "wrong key")]) as server:
        config = agent_config("openai+search", server.url, budget=25)
        lab, mixed = agent_lab(tmp_path / "lab", config, monkeypatch)
        ended = await research(lab, mixed)
    assert (ended.reason, "give a key that it takes" in ended.text) == ("error", True)


async def test_a_kill_while_only_the_agent_works_ends_its_proposal(tmp_path: Path, monkeypatch: Any) -> None:
    endless = Turn("word " * 2_000, piece=5, delay_s=0.02)
    async with ModelServer("openai", [endless]) as server:
        config = agent_config("openai+search", server.url, budget=1)
        lab, mixed = agent_lab(tmp_path / "lab", config, monkeypatch)
        mixed.search.propose = _nothing  # type: ignore[attr-defined]
        running = asyncio.create_task(research(lab, mixed))
        await server.streaming.wait()
        await asyncio.sleep(0.2)
        lab.ledger.send(c.Kill(), "test")
        ended = await asyncio.wait_for(running, 30)
    assert ended.reason == "budget"
    assert [row.status for row in lab.ledger.experiments()] == ["seed", "interrupted"]
    spent = lab.ledger.spending()
    assert (spent.requests, spent.incomplete) == (1, 1)
    assert spent.output_tokens > 0


async def _nothing(request: Any, say: Any) -> Any:
    from kernel_lab.engine.proposers.base import Exhausted

    return Exhausted("nothing new")


async def test_search_goes_on_while_a_service_is_out_of_reach(tmp_path: Path, monkeypatch: Any) -> None:
    def script(number: int, body: dict[str, Any]) -> Any:
        if number == 0:
            return Fault(503, message="down")
        return Turn("", [submission(source=variant(base=SMALL, SKIP=True, EXP2=True))], piece=4000)

    async with ModelServer("openai", script) as server:
        small = str(tmp_path / "small.py")
        config = agent_config("openai+search", server.url, budget=7, from_file=small)
        lab, mixed = agent_lab(tmp_path / "lab", config, monkeypatch, retries=0)
        await asyncio.wait_for(research(lab, mixed), 120)
    rows = lab.ledger.experiments()[1:]
    assert len(rows) == 7
    assert {row.proposer for row in rows[:5]} == {"search"}
    assert "openai" in {row.proposer for row in rows[5:]} or len(server.seen) == 2
