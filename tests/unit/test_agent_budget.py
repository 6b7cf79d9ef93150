"""What agents may spend: caps, prices, forecasts, and that no key is spent unasked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from agent_lab import agent_config, agent_lab, research, submission, variant
from kernel_lab.engine.errors import UsageError
from kernel_lab.engine.events import Spent
from kernel_lab.engine.lab import LabConfig, open_lab
from kernel_lab.engine.ledger.views import Spending
from kernel_lab.engine.proposers.agent.budget import CapReached, Purse, forecast
from kernel_lab.engine.proposers.agent.make import check_agent, outlook
from kernel_lab.engine.proposers.agent.prices import Price, price_of
from kernel_lab.engine.proposers.agent.settings import AgentSettings
from kernel_lab.engine.proposers.agent.wire import Usage, Watch
from model_server import Fault, ModelServer, Turn

PRICE = Price(input=4.0, output=20.0, cached=0.2, cache_write=5.0)


def test_a_price_counts_each_kind_of_token() -> None:
    usage = Usage(input=1_000_000, cached=2_000_000, cache_write=100_000, output=50_000, thinking=40_000)
    assert PRICE.usd(usage) == pytest.approx(4.0 + 0.4 + 0.5 + 1.0)
    assert Price(1, 1, 1, 1, up_to=10).usd(Usage(input=11)) is None


def test_the_persons_own_prices_go_first_and_wrong_ones_are_told(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert price_of("claude-opus-5-5") == PRICE
    assert price_of("nobody-knows-1") is None
    own = tmp_path / "kernel-lab" / "prices.toml"
    own.parent.mkdir()
    own.write_text('["nobody-knows-1"]\ninput = 1\noutput = 2\ncached = 0\ncache_write = 0\n')
    assert price_of("nobody-knows-1") == Price(1, 2, 0, 0)
    assert price_of("claude-opus-5-5") == PRICE
    for text, words in (
        ('["m"]\ninput = -1', "is no price"),
        ('["m"]\ninput = 1', "has no output"),
        ('"m" = 3', "is no table"),
        ("[", "is not TOML"),
    ):
        own.write_text(text)
        with pytest.raises(UsageError, match=words):
            price_of("m")


def purse(spent: Spending | None = None, **settings: Any) -> Purse:
    return Purse(PRICE, AgentSettings(**settings), spent or Spending())


def test_the_room_for_a_reply_is_what_the_caps_leave() -> None:
    assert purse().before(10_000) == 32_000
    assert purse(tokens=20_000).before(10_000) == 10_000
    assert purse(Spending(input_tokens=5_000), tokens=20_000).before(10_000) == 5_000
    assert purse(usd=0.25).before(10_000) == 10_000  # (0.25 - 10,000 × 5e-6) / 20e-6
    assert purse(proposal_tokens=12_000).before(10_000) == 2_000
    with pytest.raises(CapReached, match="the cap of the lab is reached: 20,000 tokens") as caught:
        purse(tokens=20_000).before(19_500)
    assert caught.value.lab
    with pytest.raises(CapReached, match=r"of one proposal is reached: 0\.1 USD") as caught:
        purse(proposal_usd=0.1).before(20_000)
    assert not caught.value.lab


def test_a_reply_that_reaches_a_cap_is_cut_while_it_streams() -> None:
    budget = purse(tokens=1_500)
    watch = Watch(lambda piece: None, budget.during)
    watch.used(Usage(input=1_000))
    watch.text("x" * 1_996)
    with pytest.raises(CapReached):
        watch.text("x" * 4)  # 500 tokens at 4 characters


def test_the_forecast_is_what_proposals_used_or_a_guess_that_says_so() -> None:
    settings = AgentSettings(usd=5.0)
    guess = forecast("m", PRICE, settings, Spending(), 12)
    assert guess.usd == pytest.approx(0.024 + 0.012 + 0.12 + 0.28)
    assert guess.line.startswith(
        "m: about 104,000 tokens, 0.44 USD a proposal (a guess before the first); 12 "
    )
    assert guess.line.endswith("stops at 5 USD")
    spent = Spending(requests=9, input_tokens=30_000, output_tokens=3_000, usd=0.6, proposals=3)
    known = forecast("m", PRICE, settings, spent, 10)
    assert (known.tokens, known.usd) == (11_000, pytest.approx(0.2))
    assert "10 proposals: about 110,000 tokens, 2.00 USD" in known.line
    assert "price unknown" in forecast("m", None, AgentSettings(), Spending(), None).line


@pytest.mark.parametrize(
    ("proposer", "settings", "words"),
    [
        ("anthropic", {}, "would spend the key in ANTHROPIC_API_KEY: give a cap with --usd or --tokens"),
        ("anthropic+search", {}, "would spend the key"),
        ("openai", {"usd": 1.0}, "no key for openai: set OPENAI_API_KEY"),
        (
            "anthropic",
            {"usd": 1.0, "agent_model": "x-1"},
            "the price of x-1 is unknown: cap it with --tokens",
        ),
        ("anthropic", {"usd": 1.0, "agent_url": "https://u:p@h"}, "holds more than an address"),
        ("anthropic", {"usd": 1.0, "agent_url": "http://models.example"}, "unencrypted"),
        (
            "openai",
            {
                "tokens": 1,
                "agent_url": "https://h.example",
                "agent_key": "ANTHROPIC_API_KEY",
                "agent_model": "m",
            },
            "is another service's key",
        ),
        ("anthropic", {"tokens": 1, "agent_key": "sk-ant-0123"}, "name a variable, never a key itself"),
    ],
)
def test_a_key_is_not_spent_unasked(
    monkeypatch: Any, proposer: str, settings: dict[str, Any], words: str
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-0123456789")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setattr("kernel_lab.engine.proposers.agent.keys._from_keyring", lambda provider: None)
    with pytest.raises(UsageError, match=words):
        check_agent(proposer, LabConfig(gpu="rtx3060", **settings))


def test_a_cap_an_agreement_or_a_model_of_ones_own_is_enough(monkeypatch: Any) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-0123456789")
    check_agent("anthropic", LabConfig(gpu="rtx3060", usd=1.0))
    check_agent("anthropic", LabConfig(gpu="rtx3060", tokens=1000))
    check_agent("anthropic", LabConfig(gpu="rtx3060", agent_uncapped=True))
    local = LabConfig(gpu="rtx3060", agent_url="http://localhost:11434/v1", agent_model="qwen3-coder")
    check_agent("openai", local)
    told = outlook("openai", local)
    assert "0.00 USD a proposal" in told and told.endswith("sent to http://localhost:11434/v1")
    assert outlook("anthropic", LabConfig(gpu="rtx3060", usd=1.0)).endswith("https://api.anthropic.com")


@pytest.mark.parametrize("protocol", ["anthropic", "openai"])
async def test_a_cap_ends_the_run_in_the_middle_of_a_stream_and_holds_after_a_restart(
    tmp_path: Path, monkeypatch: Any, protocol: Any
) -> None:
    endless = Turn("word " * 4_000, piece=100, delay_s=0.0005)
    first = Turn("", [submission(source=variant(SKIP=True))], piece=4000, input=9_000, output=1_000)
    async with ModelServer(protocol, [first, endless]) as server:
        config = agent_config(protocol, server.url, budget=9, tokens=14_000, agent_context=2_000)
        lab, agent = agent_lab(tmp_path / "lab", config, monkeypatch)
        # The service reads fewer tokens than the estimate says, so that the stream is begun.
        monkeypatch.setattr("kernel_lab.engine.proposers.agent.dialogue.count_tokens", lambda text: 100)
        ended = await research(lab, agent)
        assert (ended.reason, len(server.seen)) == ("budget", 2)
        assert "14,000 tokens" in ended.text
        assert [row.status for row in lab.ledger.experiments()] == ["seed", "keep"]
        spent = lab.ledger.spending()
        assert 14_000 <= spent.tokens < 14_200
        assert (spent.requests, spent.incomplete) == (2, 1)
        assert (
            server.seen[1].body.get("max_tokens", server.seen[1].body.get("max_completion_tokens")) <= 3_900
        )
        lab.close()

        lab = open_lab(lab.path)
        monkeypatch.setenv("PLANTED_KEY", "sk-planted")
        again = await research(lab, agent)
        assert (again.reason, len(server.seen)) == ("budget", 2)
        lab.close()


async def test_a_proposal_that_reaches_its_own_cap_costs_that_experiment_alone(
    tmp_path: Path, monkeypatch: Any
) -> None:
    steps = [
        Turn("Hm.", [("profile", {})], input=20_000),
        Turn("", [submission(source=variant(SKIP=True))], piece=4000),
    ]
    async with ModelServer("anthropic", steps) as server:
        config = agent_config("anthropic", server.url, budget=2, agent_tokens=20_500)
        lab, agent = agent_lab(tmp_path / "lab", config, monkeypatch)
        await research(lab, agent)
    rows = lab.ledger.experiments()
    assert [row.status for row in rows] == ["seed", "invalid", "keep"]
    assert (rows[1].reasons[0].probe, rows[1].reasons[0].detail) == (
        "budget",
        "the cap of one proposal is reached: 20,500 tokens",
    )
    assert [event.experiment for event in _spent(lab)] == [2, 3]


def _spent(lab: Any) -> list[Spent]:
    return [record.event for record in lab.ledger.records() if isinstance(record.event, Spent)]


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (Fault(401, "authentication_error", "invalid x-api-key"), "give a key that it takes"),
        (Fault(404, "not_found_error", "model: nope"), "check model and address"),
        (
            Fault(529, "overloaded_error", headers={"retry-after-ms": "1"}),
            "start again when it can be reached",
        ),
    ],
)
@pytest.mark.parametrize("protocol", ["anthropic", "openai"])
async def test_a_service_that_refuses_ends_the_run_with_one_line_and_costs_no_experiment(
    tmp_path: Path, monkeypatch: Any, protocol: Any, fault: Fault, words: str
) -> None:
    async with ModelServer(protocol, [fault]) as server:
        lab, agent = agent_lab(tmp_path / "lab", agent_config(protocol, server.url), monkeypatch, retries=2)
        ended = await research(lab, agent)
    assert ended.reason == "error"
    assert ended.text.endswith(words) and "\n" not in ended.text
    assert fault.message in ended.text
    assert len(server.seen) == (3 if fault.status == 529 else 1)
    assert [row.status for row in lab.ledger.experiments()] == ["seed"]
    assert lab.ledger.spending().requests == 0


async def test_a_dialogue_that_outgrows_the_context_costs_its_experiment_alone(
    tmp_path: Path, monkeypatch: Any
) -> None:
    steps = [
        Fault(400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"),
        Turn("", [submission(source=variant(SKIP=True))], piece=4000),
    ]
    async with ModelServer("anthropic", steps) as server:
        lab, agent = agent_lab(tmp_path / "lab", agent_config("anthropic", server.url, budget=2), monkeypatch)
        await research(lab, agent)
    rows = lab.ledger.experiments()
    assert [(row.status, row.reasons[0].probe) for row in rows[1:2]] == [("invalid", "context")]
    assert rows[2].status == "keep"
