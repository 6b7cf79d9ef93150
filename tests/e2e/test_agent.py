"""An agent in a lab of the command line's own: real engine, host and client, a service on the loopback."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from agent_lab import KEY, submission, variant
from kernel_lab.engine.ledger.store import DATABASE, Ledger
from model_server import ModelServer, Turn

Cli = Callable[..., subprocess.CompletedProcess[str]]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

STEPS = [
    Turn(f"Is {KEY} your key?", [("compile", {}), ("check", {})], thinking="Let me see.", piece=9),
    Turn("", [submission(source=variant("gqa_decode", SPLIT_WAVES=1), lever="split")], piece=4000),
]


@pytest.fixture
def service() -> Iterator[ModelServer]:
    """The service in a thread of its own."""
    loop = asyncio.new_event_loop()
    server = ModelServer("anthropic", STEPS)
    ready, done = threading.Event(), asyncio.Event()

    async def serve() -> None:
        async with server:
            ready.set()
            await done.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    assert ready.wait(20)
    yield server
    loop.call_soon_threadsafe(done.set)
    thread.join(20)


def test_a_key_reaches_the_service_alone(
    cli: Cli, tmp_path: Path, service: ModelServer, monkeypatch: Any
) -> None:
    monkeypatch.setenv("PLANTED_KEY", KEY)
    lab = tmp_path / "lab"
    agent = "--proposer anthropic --agent-model claude-opus-5-5 --agent-key PLANTED_KEY --agent-url "
    agent += service.url
    words = f"run --headless --json --task gqa_decode --trials 1 --budget 1 {agent}".split()
    refused = cli(*words, "--lab", lab)
    assert refused.returncode == 2
    assert "would spend the key in PLANTED_KEY: give a cap" in refused.stderr
    assert not lab.exists()

    said, complained = tmp_path / "out", tmp_path / "err"
    holders: set[str] = set()
    with said.open("w") as stdout, complained.open("w") as stderr:
        done = subprocess.Popen(
            [sys.executable, "-P", "-m", "kernel_lab.tui.cli", *words, "--usd", "0.5", "--lab", str(lab)],
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
        )
        while done.poll() is None:
            holders |= with_key()
            time.sleep(0.2)
    out, err = said.read_text(), complained.read_text()
    assert done.returncode == 0, err
    assert "0.50 USD" not in err and "stops at 0.5 USD" in err
    events = [json.loads(line) for line in out.splitlines()]
    types = [event["type"] for event in events]
    assert types.count("spent") == 2 and "agent_said" in types
    headers = service.seen[0].headers
    assert KEY in (headers.get("x-api-key"), headers.get("authorization", "").removeprefix("Bearer "))
    with Ledger.recording(lab / DATABASE) as ledger:
        row = ledger.experiments()[1]
        assert row.proposer == "anthropic"
        assert row.status in ("keep", "held", "discard"), row.reasons
    assert not any("host.py" in command for command in holders), holders
    assert KEY not in out + err
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) > 5
    assert [str(path) for path in files if KEY.encode() in path.read_bytes()] == []
    shown = cli("results", "--lab", lab)
    assert "agents: 2 requests" in shown.stdout


def with_key() -> set[str]:
    """Command lines of the processes that have the key in their environment."""
    found = set()
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if KEY.encode() in (entry / "environ").read_bytes():
                found.add((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue
    return found
