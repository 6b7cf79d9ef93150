"""A lab without a screen: lines or JSON until the engine stops, Ctrl+C, and ends of every kind."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from kernel_lab.engine import commands as c
from kernel_lab.engine import events as e
from kernel_lab.engine.errors import DiskFull, LabError
from kernel_lab.engine.lab import EngineLock, Lab, open_lab
from kernel_lab.tui import headless
from kernel_lab.tui.headless import follow
from kernel_lab.tui.narrator import Narrator

Play = Callable[[Callable[[Lab], None]], None]
LAST = 27
"""Position at which the recorded lab ends."""


@pytest.fixture
def play(recorded_lab: Path) -> Iterator[Play]:
    """Runs a function as the engine of the recorded lab, in a thread that owns its lock."""
    threads: list[threading.Thread] = []

    def start(acting: Callable[[Lab], None]) -> None:
        ready = threading.Event()

        def engine() -> None:
            with EngineLock(recorded_lab), closing(open_lab(recorded_lab)) as lab:
                ready.set()
                acting(lab)

        threads.append(threading.Thread(target=engine))
        threads[-1].start()
        assert ready.wait(10)

    yield start
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()


def _wait_for(lab: Lab, count: int) -> list[c.Command | None]:
    deadline = time.monotonic() + 10
    while len(lab.ledger.pending_commands()) < count and time.monotonic() < deadline:
        time.sleep(0.02)
    return [row.command for row in lab.ledger.pending_commands()]


def test_events_are_lines_of_json_until_the_engine_stops(
    play: Play, recorded_lab: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def engine(lab: Lab) -> None:
        time.sleep(0.3)
        lab.ledger.append([e.Notice("info", "a\nb"), e.EngineStopped("budget", "all done")])

    play(engine)
    assert follow(recorded_lab, LAST, as_json=True) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(line["seq"], line["type"]) for line in lines] == [(28, "notice"), (29, "engine_stopped")]
    assert lines[0]["text"] == "a\nb" and lines[1]["reason"] == "budget"
    assert isinstance(lines[0]["time"], float)


def test_an_error_of_the_engine_is_an_error_here(play: Play, recorded_lab: Path) -> None:
    play(lambda lab: lab.ledger.append([e.EngineStopped("error", "disk full: free some space")]) and None)
    with pytest.raises(LabError, match=r"disk full: free some space \(nothing is lost"):
        follow(recorded_lab, LAST, as_json=True)


def test_an_engine_that_vanishes_is_told_with_its_log(play: Play, recorded_lab: Path) -> None:
    play(lambda lab: time.sleep(0.3))
    with pytest.raises(LabError, match=r"ended without a word: see .*engine\.log"):
        follow(recorded_lab, LAST, as_json=False)


def test_ctrl_c_asks_to_stop_and_again_to_stop_now(
    play: Play, recorded_lab: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def engine(lab: Lab) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        assert _wait_for(lab, 1) == [c.Stop(now=False)]
        os.kill(os.getpid(), signal.SIGINT)
        assert _wait_for(lab, 2) == [c.Stop(now=False), c.Stop(now=True)]
        lab.ledger.append([e.EngineStopped("stop", "stopped by a person")])

    _later(play, engine)
    before = signal.getsignal(signal.SIGINT)
    assert follow(recorded_lab, LAST, as_json=False) == 0
    err = capsys.readouterr().err.splitlines()
    assert err[0].startswith("stopping after the running experiment") and err[1] == "stopping now"
    assert signal.getsignal(signal.SIGINT) is before


def test_sigterm_asks_to_stop_now(play: Play, recorded_lab: Path) -> None:
    def engine(lab: Lab) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        assert _wait_for(lab, 1) == [c.Stop(now=True)]
        lab.ledger.append([e.EngineStopped("stop", "stopped by a person")])

    _later(play, engine)
    assert follow(recorded_lab, LAST, as_json=True) == 0


def test_on_a_full_disk_sigterm_reaches_the_engine_as_a_signal(
    play: Play, recorded_lab: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[tuple[int, int]] = []

    def full(path: Path, command: c.Command, by: str) -> int:
        raise DiskFull("the disk is full: free some space")

    monkeypatch.setattr("kernel_lab.tui.headless.session.send", full)
    kill = os.kill

    def engine(lab: Lab) -> None:
        monkeypatch.setattr(
            "kernel_lab.tui.headless.os.kill", lambda pid, number: ended.append((pid, number))
        )
        kill(os.getpid(), signal.SIGTERM)
        deadline = time.monotonic() + 10
        while not ended and time.monotonic() < deadline:
            time.sleep(0.02)
        lab.ledger.append([e.EngineStopped("stop", "stopped by a person")])

    _later(play, engine)
    assert follow(recorded_lab, LAST, as_json=True) == 0
    assert ended == [(os.getpid(), signal.SIGTERM)]


def _later(play: Play, engine: Callable[[Lab], None]) -> None:
    """Begin once `follow` listens to signals."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where the tests run in the background

    def acting(lab: Lab) -> None:
        deadline = time.monotonic() + 10
        while _default_handlers() and time.monotonic() < deadline:
            time.sleep(0.02)
        engine(lab)

    play(acting)


def _default_handlers() -> bool:
    return signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_it_waits_until_the_engine_has_let_go_of_the_lab(play: Play, recorded_lab: Path) -> None:
    def engine(lab: Lab) -> None:
        lab.ledger.append([e.EngineStopped("stop", "stopped by a person")])
        time.sleep(0.5)

    play(engine)
    started = time.monotonic()
    assert follow(recorded_lab, LAST, as_json=True) == 0
    assert time.monotonic() - started > 0.4
    with EngineLock(recorded_lab):
        pass


def test_people_read_what_happened_in_order(recorded_lab: Path) -> None:
    narrator = Narrator()
    with closing(open_lab(recorded_lab, readonly=True)) as lab:
        told = [line for record in lab.ledger.records() for line in narrator.lines(record)]
    assert told[0] == "lab lab · rtx3060 (static: speeds are estimates) · llama-3.1-8b · gqa_decode"
    text = "\n".join(told)
    assert "#2 gqa_decode · from #1, by search" in told
    assert "#2   compiled: 1 kernel, up to 128 registers and 65,536 B of shared memory" in told
    assert "#2   1 trial: b1_long: BLOCK=128" in told
    assert "#2   correctness: 1 check passes" in told
    assert "#2 keep · ~1.310× champion · ~1.310× seed · ~0.920× FA2 (estimated)" in told
    assert "#3 incorrect · correctness values: odd-lengths: row 3" in told
    assert "needs you (keep): estimated 1.05 × the champion → kernel-lab approve 4" in text
    assert told[-1] == "engine stopped (stop): stopped by a person"
    assert "\x1b" not in text


def test_watching_a_lab_ends_with_its_engine(
    play: Play, recorded_lab: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def engine(lab: Lab) -> None:
        time.sleep(0.4)
        lab.ledger.append([e.Notice("info", "late")])

    play(engine)
    assert headless.watch(recorded_lab) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["seq"] for line in lines] == list(range(1, LAST + 2))
