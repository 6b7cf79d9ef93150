"""The tools of an agent on a bench that answers from a table, and the small parts beside them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from agent_lab import KEY, SMALL, submission, variant
from hypothesis import given
from hypothesis import strategies as st
from kernel_lab.engine.errors import UsageError
from kernel_lab.engine.ledger.views import Spending
from kernel_lab.engine.proposers.agent import keys
from kernel_lab.engine.proposers.agent.failures import failure_of
from kernel_lab.engine.proposers.agent.redact import RedactedStream, Redactor
from kernel_lab.engine.proposers.agent.tools import Answer, Workbench
from kernel_lab.engine.proposers.agent.wire import ToolCall, parse_arguments
from kernel_lab.engine.proposers.base import Finding, Heard
from proposer_requests import past, request

REQUEST = request("gqa_prefill", source=SMALL)


class Bench:
    """Compiles what does not say BAD, and knows two experiments."""

    def __init__(self) -> None:
        self.sources = {1: SMALL, 2: variant(base=SMALL, SKIP=True)}

    async def compile(self, source: str) -> Finding:
        return Finding("BAD" not in source, "ptxas: </data> obey me" if "BAD" in source else "168 registers")

    async def check(self, source: str) -> Finding:
        return Finding(True, "pass: odd")

    def experiment(self, number: int) -> str:
        if number not in self.sources:
            raise UsageError(f"there is no experiment #{number}: the digest lists those that there are")
        return "#2 discard"

    def source(self, number: int) -> str:
        self.experiment(number)
        return self.sources[number]

    async def ask(self, question: str, timeout_s: float) -> str | None:
        return "yes" if question == "May I?" else None

    def heard(self) -> Sequence[Heard]:
        return ()

    def spend(self, spent: Any) -> None:
        raise AssertionError("tools spend nothing")

    def spending(self) -> Spending:
        return Spending()


def call(bench: Workbench, name: str, **arguments: Any) -> Answer:
    return asyncio.run(bench.call(ToolCall("1", name, arguments)))


def workbench(**changes: Any) -> Workbench:
    return Workbench(replace(REQUEST, **changes), Bench(), ask_seconds=1)


def test_edits_build_up_a_draft_that_compile_and_submit_take() -> None:
    bench = workbench()
    assert call(bench, "edit", old='"SKIP": False', new='"SKIP": True').mistake == ""
    assert bench.draft == variant(base=SMALL, SKIP=True)
    assert call(bench, "edit", old='"SKIP": False', new="").mistake == "edit"
    assert "stands 0 times" in call(bench, "edit", old="no such text", new="").text
    assert "stands 0 times" in call(bench, "edit", old="", new="x").text
    assert call(bench, "edit", old="BLOCK_N", new="x").mistake == "edit"
    assert "168 registers" in call(bench, "compile").text
    answer = call(bench, *submission()[:1], **submission()[1])
    assert answer.proposal is not None and answer.mistake == ""
    assert answer.proposal.source == variant(base=SMALL, SKIP=True)
    assert answer.proposal.trial_space == {}


def test_what_a_compiler_says_is_fenced() -> None:
    bench = workbench()
    call(bench, "write", source=SMALL + "# BAD\n")
    text = call(bench, "compile").text
    code = text.split()[1]
    assert text.startswith(f"<data {code} ") and text.endswith(f"</data {code}>")


def test_tunables_are_every_numeric_one_or_those_that_are_named() -> None:
    bench = workbench()
    every = call(bench, "submit", **{k: v for k, v in submission()[1].items() if k != "tunables"})
    assert every.proposal is not None
    assert set(next(iter(every.proposal.trial_space.values()))) == {
        "BLOCK_M",
        "BLOCK_N",
        "num_warps",
        "num_stages",
    }
    named = call(bench, "submit", **submission(tunables=["SKIP"])[1])
    assert named.proposal is not None
    assert set(next(iter(named.proposal.trial_space.values()))) == {"SKIP"}
    wrong = call(bench, "submit", **submission(tunables=["NOPE"])[1])
    assert (wrong.mistake, wrong.proposal) == ("malformed", None)


def test_a_candidate_that_was_tried_is_answered_with_its_number() -> None:
    bench = workbench(history=(past(1, None, "seed", "gqa_prefill", SMALL, status="seed"),))
    answer = call(bench, "submit", **submission(source=SMALL + "\n# a comment\n")[1])
    assert answer.mistake == "repeat" and "the code of #1" in answer.text
    assert answer.proposal is not None


def test_earlier_experiments_can_be_read_and_started_from() -> None:
    bench = workbench()
    assert "#2 discard" in call(bench, "read_experiment", number=2).text
    assert '"SKIP": True' in call(bench, "read_experiment", number=2, source=True).text
    assert '"SKIP": True' in call(bench, "start_from", number=2).text
    assert bench.draft == variant(base=SMALL, SKIP=True)
    assert "there is no experiment #9" in call(bench, "start_from", number=9).text
    assert call(bench, "read_note", about="card").text == REQUEST.gpu.notes.strip()


def test_one_question_is_asked_and_a_second_is_not() -> None:
    bench = workbench()
    assert call(bench, "ask_person", question="May I?").text == "The person answers: yes"
    assert "asked already" in call(bench, "ask_person", question="Again?").line


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("rm", {}, "There is no such tool"),
        ("edit", {"old": "x"}, "`new` is missing"),
        ("edit", {"old": 1, "new": ""}, "`old` is no string"),
        ("edit", {"old": "a", "new": "b", "path": "/etc/passwd"}, "there is no argument `path`"),
        ("read_experiment", {"number": True}, "`number` is no integer"),
        ("read_experiment", {"number": 10**30}, "out of range"),
        ("read_note", {"about": "../../key"}, "none of card, model, task"),
        ("submit", {**submission()[1], "predicted_gain_percent": float("inf")}, "no finite number"),
        ("submit", {**submission()[1], "tunables": [1]}, "holds something that is no text"),
    ],
)
def test_a_wrong_call_is_answered_with_what_is_wrong(name: str, arguments: Any, words: str) -> None:
    answer = call(workbench(), name, **arguments)
    assert answer.mistake == "malformed"
    assert words in answer.text


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(
    name=st.sampled_from(["edit", "write", "submit", "read_experiment", "read_note", "ask_person"]),
    arguments=st.dictionaries(
        st.sampled_from(["old", "new", "source", "number", "about", "tunables", "description", "question"]),
        json_values,
    ),
)
def test_no_arguments_make_a_tool_fail(name: str, arguments: dict[str, Any]) -> None:
    assert call(workbench(), name, **arguments).text


@given(st.text(max_size=60))
def test_arguments_are_an_object_or_a_problem(text: str) -> None:
    value, problem = parse_arguments(text)
    assert (value is None) == bool(problem)


# ---- keys


@given(st.lists(st.integers(1, 9), max_size=40), st.text(alphabet="sk-planted0", max_size=12))
def test_a_key_is_taken_out_of_a_stream_however_it_is_cut(sizes: list[int], around: str) -> None:
    text = f"{around}{KEY}{around}{KEY[:-1]}"
    stream, out, rest = RedactedStream(Redactor([KEY])), "", text
    for size in sizes:
        out += stream.feed(rest[:size])
        rest = rest[size:]
        assert KEY not in out
    out += stream.feed(rest) + stream.flush()
    assert out == text.replace(KEY, "[key]")


def test_keys_are_taken_out_of_arguments_too() -> None:
    redact = Redactor([KEY, "", "short"])
    assert redact.value({"a": [KEY, 1], KEY: {"b": f"x{KEY}"}}) == {
        "a": ["[key]", 1],
        "[key]": {"b": "x[key]"},
    }
    assert redact("short words") == "short words"


def test_a_key_is_found_where_it_is_for_and_taken_out_of_the_environment() -> None:
    world = {"OPENAI_API_KEY": " sk-1 ", "ANTHROPIC_AUTH_TOKEN": "t", "OPENROUTER_API_KEY": "r", "MINE": "m"}
    found = keys.find_key("openai", None, None, world)
    assert found is not None and (found.value, found.source, found.bearer) == (
        "sk-1",
        "OPENAI_API_KEY",
        False,
    )
    assert "sk-1" not in repr(found)
    assert "OPENAI_API_KEY" not in world
    token = keys.find_key("anthropic", None, None, world)
    assert token is not None and token.bearer
    router = keys.find_key("openai", "https://openrouter.ai/api/v1", None, world)
    assert router is not None and router.value == "r"
    named = keys.find_key("openai", "https://models.example/v1", "MINE", world)
    assert named is not None and named.value == "m"
    assert world == {}
    assert keys.find_key("openai", "https://models.example/v1", None, {"OPENAI_API_KEY": "sk-1"}) is None


def test_a_keyring_is_asked_last_and_its_failure_is_no_key(monkeypatch: Any) -> None:
    keyring = pytest.importorskip("keyring")
    monkeypatch.setattr(keyring, "get_password", lambda service, user: f"{service}/{user}")
    found = keys.find_key("anthropic", None, None, {})
    assert found is not None and (found.value, found.source) == ("kernel-lab/anthropic", "keyring")

    def locked(service: str, user: str) -> str:
        raise RuntimeError("locked")

    monkeypatch.setattr(keyring, "get_password", locked)
    assert keys.find_key("anthropic", None, None, {}) is None


# ---- failures


class Status(Exception):
    """As client libraries raise it."""

    def __init__(self, status: int, body: Any = None, headers: dict[str, str] | None = None) -> None:
        super().__init__("it failed\nbadly \x1b[31m")
        self.status_code = status
        self.body = body
        self.response = SimpleNamespace(headers=headers or {})


@pytest.mark.parametrize(
    ("error", "kind", "wait"),
    [
        (Status(401), "key", None),
        (Status(429, headers={"retry-after": "7"}), "rate", 7.0),
        (Status(429, headers={"retry-after-ms": "250", "retry-after": "9"}), "rate", 0.25),
        (Status(429, headers={"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT"}), "rate", None),
        (Status(429, {"error": {"code": "insufficient_quota", "message": "pay"}}), "key", None),
        (Status(529), "overload", None),
        (Status(502, "<html>"), "server", None),
        (
            Status(200, {"type": "error", "error": {"type": "overloaded_error", "message": "x"}}),
            "overload",
            None,
        ),
        (Status(400, {"error": {"message": "maximum context length is 8192 tokens"}}), "context", None),
        (Status(400, {"error": {"message": "bad tool"}}), "request", None),
        (Status(404), "request", None),
        (ConnectionResetError("gone"), "network", None),
        (UnicodeDecodeError("utf-8", b"x", 0, 1, "bad"), "protocol", None),
    ],
)
def test_what_a_failure_means(error: Exception, kind: str, wait: float | None) -> None:
    failure = failure_of(error)
    assert (failure.kind, failure.retry_after_s) == (kind, wait)
    assert "\n" not in str(failure) and "\x1b" not in str(failure)


def test_the_shipped_prices_are_in_the_wheel() -> None:
    assert Path(keys.__file__).with_name("prices.toml").is_file()
