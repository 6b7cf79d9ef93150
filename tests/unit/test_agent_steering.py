"""What an agent hears while it works, what it asks, what its requests share, and what the loop costs."""

from __future__ import annotations

import asyncio
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from agent_lab import SMALL, agent_config, agent_lab, research, submission, variant
from fake_device import FakeDevice
from kernel_lab.engine import commands as c
from kernel_lab.engine.events import Answered, Asked, IdeaUsed
from model_server import ModelServer, Turn

PROTOCOLS = ("anthropic", "openai")


def messages(body: dict[str, Any]) -> str:
    return json.dumps(body["messages"], ensure_ascii=False)


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_an_idea_said_while_a_reply_streams_is_in_the_next_request_and_marked_as_used(
    tmp_path: Path, monkeypatch: Any, protocol: Any
) -> None:
    words = "try the “reversed” order — αβγ"
    steps = [
        Turn("thinking " * 60, [("profile", {})], piece=20, delay_s=0.01),
        Turn("", [submission(source=variant(SKIP=True))], piece=4000),
        Turn("", [submission(source=variant(EXP2=True))], piece=4000),
    ]
    async with ModelServer(protocol, steps) as server:
        lab, agent = agent_lab(tmp_path / "lab", agent_config(protocol, server.url, budget=2), monkeypatch)
        running = asyncio.create_task(research(lab, agent))
        await server.streaming.wait()
        lab.ledger.send(c.Say(words, "always"), "another terminal")
        await running
    assert words not in messages(server.seen[0].body)
    assert words in messages(server.seen[1].body)
    assert words in messages(server.seen[2].body)
    used = [(r.event.idea, r.event.experiment) for r in lab.ledger.records() if isinstance(r.event, IdeaUsed)]
    assert used == [(1, 2), (1, 3)]


async def test_the_reason_of_a_veto_is_in_the_next_request(tmp_path: Path, monkeypatch: Any) -> None:
    steps = [
        Turn("", [submission(source=variant(SKIP=True))], piece=4000),
        Turn("thinking " * 60, [("profile", {})], piece=20, delay_s=0.01),
        Turn("", [submission(source=variant(EXP2=True))], piece=4000),
    ]
    async with ModelServer("anthropic", steps) as server:
        lab, agent = agent_lab(tmp_path / "lab", agent_config("anthropic", server.url, budget=2), monkeypatch)
        running = asyncio.create_task(research(lab, agent))
        while len(server.seen) < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        lab.ledger.send(c.Veto(2, "it skips too much", "bug"), "another terminal")
        await running
    assert "#2 is vetoed: it skips too much" in messages(server.seen[2].body)


@pytest.mark.parametrize(
    ("answered", "told"), [(True, "The person answers: use 64"), (False, "decide yourself")]
)
async def test_a_question_waits_in_the_queue_until_it_is_answered_or_times_out(
    tmp_path: Path, monkeypatch: Any, answered: bool, told: str
) -> None:
    steps = [
        Turn("", [("ask_person", {"question": "Which tile?"})]),
        Turn("", [submission(source=variant(SKIP=True))], piece=4000),
    ]
    async with ModelServer("anthropic", steps) as server:
        config = agent_config("anthropic", server.url, budget=1, agent_ask_seconds=30.0 if answered else 0.05)
        lab, agent = agent_lab(tmp_path / "lab", config, monkeypatch)
        running = asyncio.create_task(research(lab, agent))
        if answered:
            while not lab.ledger.agent_questions():  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            [row] = lab.ledger.agent_questions()
            assert (row.id, row.experiment, row.text) == (1, 2, "Which tile?")
            wrong, right = (
                lab.ledger.send(c.Answer(7, "x"), "me"),
                lab.ledger.send(c.Answer(1, "use 64"), "me"),
            )
        await running
    assert told in messages(server.seen[1].body)
    assert lab.ledger.agent_questions() == []
    events = [r.event for r in lab.ledger.records() if isinstance(r.event, (Asked, Answered))]
    assert len(events) == 2
    if answered:
        assert events[1] == Answered(2, 1, "use 64", "me")
        assert "does not wait for an answer (waiting: 1)" in (lab.ledger.command_result(wrong) or "")
        assert lab.ledger.command_result(right) == "question 1 is answered"


async def test_two_requests_share_every_byte_up_to_what_changes(tmp_path: Path, monkeypatch: Any) -> None:
    def script(number: int, body: dict[str, Any]) -> Turn:
        values = [{"EXP2": True}, {"SKIP": True}, {"SKIP": True, "EXP2": True}][number]
        return Turn("", [submission(source=variant(**values))], piece=4000)

    for protocol in PROTOCOLS:
        async with ModelServer(protocol, script) as server:  # type: ignore[arg-type]
            lab, agent = agent_lab(tmp_path / protocol, agent_config(protocol, server.url), monkeypatch)
            await research(lab, agent)
        first, second, third = (stable(protocol, seen.body) for seen in server.seen)
        assert first == second == third
        assert len(first) > 8_000
        changing = [messages(seen.body) for seen in server.seen]
        assert len(set(changing)) == 3
        if protocol == "anthropic":
            assert server.seen[0].body["system"][-1]["cache_control"] == {"type": "ephemeral"}


def stable(protocol: str, body: dict[str, Any]) -> bytes:
    """What comes before anything that changes, in the order in which the service reads it."""
    if protocol == "anthropic":
        return json.dumps([body["tools"], body["system"]]).encode()
    return json.dumps([body["tools"], body["messages"][0]]).encode()


async def test_within_a_proposal_every_request_continues_the_one_before(
    tmp_path: Path, monkeypatch: Any
) -> None:
    steps = [
        Turn("First.", [("profile", {})], thinking="Hm."),
        Turn("Then.", [("show_draft", {}), ("read_experiment", {"number": 1})]),
        Turn("", [submission(source=variant(SKIP=True))], piece=4000),
    ]
    async with ModelServer("anthropic", steps) as server:
        lab, agent = agent_lab(tmp_path / "lab", agent_config("anthropic", server.url, budget=1), monkeypatch)
        await research(lab, agent)
    bodies = [_without_marks(seen.body["messages"]) for seen in server.seen]
    assert bodies[1][:1] == bodies[0]
    assert bodies[2][:3] == bodies[1]
    thinking = bodies[1][1]["content"][0]
    assert thinking == {"type": "thinking", "thinking": "Hm.", "signature": "c2lnbmF0dXJl"}
    assert server.seen[0].body["thinking"] == {"type": "adaptive", "display": "summarized"}
    marks = [json.dumps(seen.body).count("cache_control") for seen in server.seen]
    assert marks == [2, 2, 2]
    assert len(lab.ledger.experiments()) == 2


def _without_marks(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_marks(item) for item in value]
    if isinstance(value, dict):
        return {key: _without_marks(item) for key, item in value.items() if key != "cache_control"}
    return value


async def test_the_loop_itself_costs_less_than_100_ms_an_experiment(tmp_path: Path, monkeypatch: Any) -> None:
    """Processor time of everything but the client library, the service and the judge."""
    judged = asked = 0.0
    device = FakeDevice()

    def script(number: int, body: dict[str, Any]) -> Turn:
        values = {"num_warps": (1, 2, 8)[number % 3], "num_stages": (1, 3, 4)[number // 3 % 3]}
        block = (16, 32, 64)[number // 9 % 3]
        source = variant(base=SMALL, BLOCK_N=block, **values)
        return Turn("", [submission(source=source)], piece=4000)

    from kernel_lab.engine.judge.judge import Judge

    lint, parse = Judge.lint, Judge.parse

    def timed(function: Any) -> Any:
        def call(*arguments: Any) -> Any:
            nonlocal judged
            start = time.thread_time()
            try:
                return function(*arguments)
            finally:
                judged += time.thread_time() - start

        return call

    monkeypatch.setattr(Judge, "lint", timed(lint))
    monkeypatch.setattr(Judge, "parse", timed(parse))
    async with ModelServer("openai", script) as server:
        config = agent_config(
            "openai", server.url, budget=20, from_file=str(tmp_path / "small.py"), mode="auto"
        )
        lab, agent = agent_lab(tmp_path / "lab", config, monkeypatch)
        provider = agent.provider  # type: ignore[attr-defined]
        reply = provider.reply

        async def outside(*arguments: Any) -> Any:
            nonlocal asked
            start = time.thread_time()
            try:
                return await reply(*arguments)
            finally:
                asked += time.thread_time() - start

        provider.reply = outside
        start = time.thread_time()
        await research(lab, agent, device)
        whole = time.thread_time() - start
    own = (whole - judged - asked) / 20
    assert len(lab.ledger.experiments()) == 21
    assert own < 0.1, f"{own * 1e3:.0f} ms an experiment"
    if os.environ.get("SHOW_COST"):
        print(f"{own * 1e3:.1f} ms an experiment, {judged / 20 * 1e3:.1f} ms judge")
