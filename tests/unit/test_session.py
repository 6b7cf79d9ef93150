"""Starting an engine, following it, sending commands: what a front end does."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest
from kernel_lab.engine import commands as c
from kernel_lab.engine import events as e
from kernel_lab.engine import session
from kernel_lab.engine.errors import LabBusy, LabError, LabFolderError, UsageError
from kernel_lab.engine.lab import LOG, Lab, LabConfig, create_lab
from kernel_lab.engine.session import Reader
from ledger_data import created, life, sources

STUB = """
import json, os, sys, time
from pathlib import Path
from kernel_lab.engine import events as e
from kernel_lab.engine.lab import EngineLock, open_lab
folder = Path(sys.argv[1])
with EngineLock(folder):
    lab = open_lab(folder)
    print("said by the engine")
    secrets = [name for name in sorted(os.environ) if "KEY" in name or name.startswith("GIT_")]
    stdin = os.readlink("/proc/self/fd/0")
    told = {"secrets": secrets, "session": os.getsid(0), "stdin": stdin, "path": sys.path[:2]}
    lab.ledger.append([e.EngineStarted("stub", told)])
    while True:
        for pending in lab.ledger.pending_commands():
            lab.ledger.append([], obeyed=[(pending.id, f"did {pending.type}")])
            if pending.type == "stop":
                sys.exit(0)
        time.sleep(0.02)
"""


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return create_lab(tmp_path / "lab", LabConfig(gpu="rtx3060"), [created()], blobs=sources(range(1, 9)))


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "ENGINE_COMMAND", (sys.executable, "-P", "-c", STUB))


def said_instead(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    monkeypatch.setattr(session, "ENGINE_COMMAND", (sys.executable, "-P", "-c", code))


def stop(folder: Path) -> None:
    command = session.send(folder, c.Stop(now=True), "test")
    assert session.wait_result(folder, command, 20) == "did stop"
    deadline = time.monotonic() + 20
    while session.engine_pid(folder) is not None and time.monotonic() < deadline:
        time.sleep(0.01)
    assert session.engine_pid(folder) is None


def test_an_engine_is_started_apart_and_obeys(lab: Lab, stub: None, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "AWS_SECRET_ACCESS_KEY", "GIT_DIR"):
        monkeypatch.setenv(name, "x")
    monkeypatch.setenv("KEYBOARD", "de")
    reader = Reader(lab.path)
    assert not reader.view().engine_alive
    pid = session.start_engine(lab.path)
    try:
        assert session.engine_pid(lab.path) == pid
        assert reader.view().engine_alive
        told = reader.view().environment
        assert told["secrets"] == ["KEYBOARD"]
        assert told["session"] == pid != os.getsid(0)
        assert told["stdin"] == "/dev/null"
        assert "" not in told["path"]
        with pytest.raises(LabBusy, match=f"run by process {pid}"):
            session.start_engine(lab.path)
        command = session.send(lab.path, c.Say("try exp2"), "ann")
        assert session.wait_result(lab.path, command, 20) == "did say"
    finally:
        stop(lab.path)
    assert b"said by the engine" in (lab.path / LOG).read_bytes()
    assert [record.type for record in reader.poll()] == ["lab_created", "engine_started"]


def test_an_engine_may_be_started_again(lab: Lab, stub: None) -> None:
    first = session.start_engine(lab.path)
    stop(lab.path)
    assert session.start_engine(lab.path) != first
    stop(lab.path)


def test_a_proposer_gets_the_keys_that_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "HF_TOKEN", "TOKENIZERS_PARALLELISM"):
        monkeypatch.setenv(name, "x")

    def kept(proposer: str, **settings: str) -> set[str]:
        config = LabConfig(gpu="rtx3060", proposer=proposer, **settings)  # type: ignore[arg-type]
        return {"ANTHROPIC_API_KEY", "OPENAI_API_KEY", "HF_TOKEN"} & session.engine_environment(config).keys()

    assert kept("search") == set()
    assert kept("anthropic") == kept("anthropic+search") == {"ANTHROPIC_API_KEY"}
    assert kept("openai") == {"OPENAI_API_KEY"}
    assert kept("openai", agent_url="http://localhost:11434/v1") == set()
    assert kept("openai", agent_url="https://models.example/v1", agent_key="HF_TOKEN") == {"HF_TOKEN"}
    assert kept("command:agent") == set()
    assert kept("command:agent", agent_env="HF_TOKEN") == {"HF_TOKEN"}
    assert "TOKENIZERS_PARALLELISM" in session.engine_environment(LabConfig(gpu="rtx3060"))


def test_an_engine_that_cannot_start_says_why(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    (lab.path / LOG).write_text("an older line\n")
    said_instead(monkeypatch, "import sys; sys.exit('first\\nkernel-lab: no GPU profile h300: choose one')")
    with pytest.raises(LabError) as told:
        session.start_engine(lab.path)
    assert str(told.value) == "no GPU profile h300: choose one"
    said_instead(monkeypatch, "import os; os._exit(7)")
    with pytest.raises(LabError, match="status 7"):
        session.start_engine(lab.path)


def test_an_engine_with_nothing_left_to_do_is_no_failure(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    said_instead(monkeypatch, "")
    assert session.start_engine(lab.path) > 0


def test_an_engine_that_hangs_at_the_start_is_ended(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    said_instead(monkeypatch, "import time; time.sleep(60)")
    with pytest.raises(LabError, match="did not start"):
        session.start_engine(lab.path, timeout_s=0.5)
    assert session._children[-1].poll() is not None


def test_a_folder_that_is_no_lab_starts_nothing(tmp_path: Path) -> None:
    with pytest.raises(LabFolderError):
        session.start_engine(tmp_path)
    with pytest.raises(LabFolderError):
        session.send(tmp_path, c.Pause(), "x")
    with pytest.raises(LabFolderError):
        Reader(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_reader_sees_every_event_once_in_its_order(lab: Lab) -> None:
    reader, late = Reader(lab.path), Reader(lab.path, after=None)
    assert [record.seq for record in reader.poll()] == [1]
    assert reader.poll() == [] == late.poll()
    happened = life(1, parent=None, status="seed")
    for event in happened:
        lab.ledger.append([event])
    assert [record.event for record in reader.poll(limit=3)] == happened[:3]
    assert [record.event for record in reader.poll()] == happened[3:]
    assert [record.event for record in late.poll()] == happened
    assert reader.poll() == []
    lab.ledger.set_now({"text": "typing"})
    assert reader.poll() == []
    assert reader.now() == {"text": "typing"}
    assert reader.experiment(1) == lab.ledger.experiment(1)
    assert reader.blob(reader.experiments()[0].source_sha or "") == sources([1])[0]


def test_a_command_without_an_engine_waits(lab: Lab) -> None:
    command = session.send(lab.path, c.Pause(), "ann")
    begin = time.monotonic()
    assert session.wait_result(lab.path, command, 0.2) is None
    assert 0.2 <= time.monotonic() - begin < 5
    lab.ledger.append([e.Paused("ann")], obeyed=[(command, "paused")])
    assert session.wait_result(lab.path, command, 0.2) == "paused"


def test_an_idle_reader_costs_less_than_half_a_percent_of_a_core(lab: Lab) -> None:
    reader = Reader(lab.path)
    reader.poll()
    rounds = 500
    begin = time.process_time()
    for _ in range(rounds):
        reader.poll()
        reader.now()
    spent = (time.process_time() - begin) / rounds
    assert spent * 10 < 0.005  # ten times a second


def test_an_engine_that_cannot_make_its_folders_says_so_in_one_line(
    lab: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    from kernel_lab.engine.__main__ import main

    (lab.path / "runs").write_text("in the way")
    assert main([str(lab.path)]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert said.startswith("kernel-lab: ") and "runs" in said and said.endswith("make room or permit it\n")
    assert session.engine_pid(lab.path) is None


@pytest.mark.parametrize("command", [c.Stop(), c.Stop(now=True), c.Kill()])
def test_an_end_is_never_left_for_the_next_engine(lab: Lab, command: c.Command) -> None:
    with pytest.raises(UsageError, match="nothing to end"):
        session.send(lab.path, command, "ann")
    assert lab.ledger.pending_commands() == []
