"""Who could propose here: states without spending anything, and servers of this machine alone."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from cockpit_driver import Cockpit
from kernel_lab.engine.lab_config import read_config
from kernel_lab.tui import proposers
from kernel_lab.tui.proposers import ProposerOffer, first_model, local_servers, proposer_offers


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch, own_world: Path, tmp_path: Path) -> None:
    """No key, no program, no editor, no server."""
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY", "VISUAL", "EDITOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr("kernel_lab.engine.proposers.agent.keys._from_keyring", lambda provider: None)
    monkeypatch.setattr(proposers, "first_model", lambda url: None)


def named(offers: list[ProposerOffer]) -> dict[str, ProposerOffer]:
    return {offer.name: offer for offer in offers}


def test_a_bare_machine_says_what_to_set_and_search_comes_first() -> None:
    offers = proposer_offers()
    assert offers[0].name == "search" and offers[0].ready
    found = named(offers)
    assert not found["anthropic"].ready and found["anthropic"].state == "set ANTHROPIC_API_KEY to use it"
    assert not found["manual"].ready and "EDITOR" in found["manual"].state
    assert [offer.ready for offer in offers] == sorted((offer.ready for offer in offers), reverse=True)


def test_a_key_is_told_by_its_name_never_by_a_part_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret-value")
    found = named(proposer_offers())
    assert found["openai"].ready and found["openai"].spends and "OPENAI_API_KEY" in found["openai"].state
    assert found["openai+search"].ready
    assert not any("very-secret" in offer.line for offer in proposer_offers())


def test_programs_on_the_path_are_offered_with_a_command(tmp_path: Path) -> None:
    program = tmp_path / "bin" / "claude"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    offer = next(offer for offer in proposer_offers() if offer.label == "claude")
    assert offer.name.startswith("command:claude -p") and offer.ready and not offer.spends


@pytest.fixture
def server() -> Iterator[tuple[str, dict[str, object]]]:
    """A server of this machine, and what it answers to `/v1/models`."""
    answer: dict[str, object] = {"data": [{"id": "qwen3-coder"}, {"id": "other"}]}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps(answer).encode() if answer else b"<html>"
            self.send_response(200 if self.path == "/v1/models" else 404)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as serving:
        thread = threading.Thread(target=serving.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{serving.server_address[1]}/v1", answer
        serving.shutdown()
        thread.join(5)


def test_a_local_server_is_asked_for_its_models(server: tuple[str, dict[str, object]]) -> None:
    url, answer = server
    assert first_model(url) == "qwen3-coder"
    for broken in (
        {"data": []},
        {"data": [{"id": "evil\x1b[31m"}]},
        {"data": [{"id": 3}]},
        {"data": None},
        {},
    ):
        answer.clear()
        answer.update(broken)
        assert first_model(url) is None, broken
    assert first_model("http://127.0.0.1:9/v1") is None


def test_only_servers_that_answer_are_offered_with_address_and_model() -> None:
    offers = local_servers(lambda url: "llama-3.3-70b" if "11434" in url else None)
    assert [(offer.label, offer.model, offer.url) for offer in offers] == [
        ("Ollama", "llama-3.3-70b", "http://127.0.0.1:11434/v1")
    ]
    assert not offers[0].spends


async def test_a_lab_for_a_local_server_is_set_up_with_its_address(
    cockpit: Cockpit, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[Path] = []
    monkeypatch.setattr("kernel_lab.tui.machine.require_compiler", lambda: None)
    monkeypatch.setattr("kernel_lab.tui.machine.gpus", list)
    monkeypatch.setattr("kernel_lab.engine.session.start_engine", lambda path: started.append(path))
    monkeypatch.setattr(proposers, "first_model", lambda url: "[b]m[/b]" if "11434" in url else None)
    async with cockpit(size=(80, 24)) as driver:
        await driver.press("n")
        await driver.on("StartScreen")
        await driver.until(lambda: driver.screen.query("#start-go"))
        screen = driver.screen
        chosen = next(
            str(index)
            for index, offer in enumerate(screen._found.proposers)  # type: ignore[attr-defined]
            if offer.label == "Ollama"
        )
        screen.query_one("#start-proposer").value = chosen  # type: ignore[attr-defined]
        await driver.until(lambda: "[b]m[/b]" in str(screen.query_one("#start-why").content))  # type: ignore[attr-defined]
        assert screen.query_one("#start-usd").disabled
        await driver.press("enter")
        await driver.on("LiveScreen")
        await driver.until(lambda: started)
    config = read_config(started[0])
    assert (config.proposer, config.agent_url, config.agent_model, config.usd) == (
        "openai",
        "http://127.0.0.1:11434/v1",
        "[b]m[/b]",
        None,
    )


async def test_a_proposer_without_its_key_says_so_and_makes_no_lab(
    cockpit: Cockpit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kernel_lab.tui.machine.require_compiler", lambda: None)
    monkeypatch.setattr("kernel_lab.tui.machine.gpus", list)
    async with cockpit() as driver:
        await driver.press("n")
        await driver.on("StartScreen")
        await driver.until(lambda: driver.screen.query("#start-go"))
        screen = driver.screen
        offers = screen._found.proposers  # type: ignore[attr-defined]
        index = next(n for n, offer in enumerate(offers) if offer.name == "anthropic")
        screen.query_one("#start-proposer").value = str(index)  # type: ignore[attr-defined]
        await driver.until(lambda: "ANTHROPIC_API_KEY" in str(screen.query_one("#start-why").content))  # type: ignore[attr-defined]
        await driver.press("enter")
        await driver.until(lambda: "no key for anthropic" in str(screen.query_one("#start-why").content))  # type: ignore[attr-defined]
        assert driver.screen_name == "StartScreen"
