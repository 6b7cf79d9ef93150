"""The cockpit in a real terminal: it opens, answers, leaves, and leaves the terminal as it was."""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pexpect
import psutil
import pytest
from fake_lab import FakeEngine, FakeLab

WAIT_S = 60
Spawn = Callable[..., "pexpect.spawn[str]"]


@pytest.fixture
def terminal(own_world: Path) -> Iterator[Spawn]:
    """Starts `kernel-lab` in a terminal of 120 × 30."""
    children: list[pexpect.spawn[str]] = []

    def spawn(*arguments: str | Path, **environment: str) -> pexpect.spawn[str]:
        settings = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor", **environment}
        child = pexpect.spawn(
            sys.executable,
            ["-P", "-m", "kernel_lab.tui.cli", *map(str, arguments)],
            env=settings,  # type: ignore[arg-type]
            dimensions=(30, 120),
            encoding="utf-8",
            timeout=WAIT_S,
        )
        child.logfile_read = Log()
        children.append(child)
        return child

    yield spawn
    for child in children:
        child.close(force=True)


class Log:
    """Everything that the program wrote to the terminal."""

    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> None:
        self.text += text

    def flush(self) -> None:
        pass


def written(child: Any) -> str:
    return str(child.logfile_read.text)


def asked(lab: FakeLab) -> int:
    lab.past(4)
    number = lab.begin()
    lab.gates(number)
    lab.ask(number)
    return number


def test_approve_and_leave(terminal: Spawn, lab: FakeLab, engine: FakeEngine) -> None:
    number = asked(lab)
    child = terminal("open", lab.folder)
    child.expect("may it be judged")
    time.sleep(1.5)
    child.send("a")
    child.expect(f"#{number} is approved")
    child.send("q")
    child.expect(r"the engine goes on: `kernel-lab open")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0
    text = written(child)
    # Alternate screen left, cursor shown, mouse reports and bracketed paste off.
    for restored in ("\x1b[?1049l", "\x1b[?25h", "\x1b[?1003l", "\x1b[?2004l"):
        assert text.rindex(restored) > text.rindex("may it be judged")
    assert "Traceback" not in text


def test_two_ctrl_c_leave_and_the_engine_goes_on(terminal: Spawn, lab: FakeLab, engine: FakeEngine) -> None:
    child = terminal("open", lab.folder)
    child.expect("nothing needs you")
    child.sendcontrol("c")
    child.expect("ctrl.c again leaves")
    child.sendcontrol("c")
    child.expect("the engine goes on")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0
    assert lab.ledger.pending_commands() == []


def test_no_color_means_none_and_children_keep_it(
    terminal: Spawn, lab: FakeLab, engine: FakeEngine, tmp_path: Path
) -> None:
    asked(lab)
    editor = tmp_path / "editor"
    editor.write_text(f'#!/bin/sh\necho "NO_COLOR=$NO_COLOR" > {tmp_path}/seen\n')
    editor.chmod(0o755)
    child = terminal("open", lab.folder, NO_COLOR="1", EDITOR=str(editor))
    child.expect("may it be judged")
    child.send("e")
    child.expect("nothing was changed")
    child.send("q")
    child.expect(pexpect.EOF)
    text = written(child)
    codes = {code for sequence in re.findall(r"\x1b\[([\d;]*)m", text) for code in sequence.split(";")}
    assert codes <= {"", "0", "1", "3", "4", "7", "9"}, codes
    assert (tmp_path / "seen").read_text() == "NO_COLOR=1\n"


def test_waiting_for_a_person_costs_next_to_nothing(
    terminal: Spawn, lab: FakeLab, engine: FakeEngine
) -> None:
    number = asked(lab)
    lab.ledger.set_now({"experiment": number, "phase": "approval"})
    child = terminal("open", lab.folder)
    child.expect("may it be judged")
    reading = threading.Thread(target=lambda: child.expect(pexpect.EOF), daemon=True)
    reading.start()
    time.sleep(4)
    process, before = psutil.Process(child.pid), len(written(child))
    begin, cpu = time.monotonic(), sum(process.cpu_times()[:2])
    time.sleep(6)
    used = (sum(process.cpu_times()[:2]) - cpu) / (time.monotonic() - begin)
    assert len(written(child)) == before, "something was drawn while nothing changed"
    assert used < 0.01, f"{used:.1%} of a core"
    child.send("q")
    reading.join(WAIT_S)


def test_the_first_frame_comes_soon(terminal: Spawn, lab: FakeLab, tmp_path: Path) -> None:
    lab.past(10)
    # As installed: with compiled modules. A busy machine stretches the clock and, less, the work.
    environment = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(tmp_path / "pyc")}
    textual_alone, seconds = [], []
    for _ in range(3):
        begin = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            [sys.executable, "-c", "import textual.app"], check=True, env={**os.environ, **environment}
        )
        end = resource.getrusage(resource.RUSAGE_CHILDREN)
        textual_alone.append(end.ru_utime + end.ru_stime - begin.ru_utime - begin.ru_stime)
        clock = time.monotonic()
        child = terminal("open", lab.folder, **environment)
        child.expect("opening")
        work = sum(psutil.Process(child.pid).cpu_times()[:2])
        seconds.append(min(time.monotonic() - clock, work))
        child.expect("nothing needs you|engine is not running")
        child.send("q")
        child.expect(pexpect.EOF)
    assert min(seconds) < max(0.8, 2.2 * min(textual_alone)), (seconds, textual_alone)


def test_a_terminal_that_goes_away_leaves_no_process(
    terminal: Spawn, lab: FakeLab, engine: FakeEngine
) -> None:
    child = terminal("open", lab.folder)
    child.expect("nothing needs you")
    process = psutil.Process(child.pid)
    child.close(force=False)
    process.wait(15)
    assert lab.ledger.view().engine_alive


def test_streaming_text_costs_less_than_a_tenth_of_a_core(
    terminal: Spawn, lab: FakeLab, engine: FakeEngine
) -> None:
    lab.past(20)
    child = terminal("open", lab.folder)
    child.expect("nothing needs you")
    reading = threading.Thread(target=lambda: child.expect(pexpect.EOF), daemon=True)
    reading.start()
    time.sleep(3)
    now = {"experiment": lab.last + 1, "task": "gqa_decode", "phase": "propose"}
    process = psutil.Process(child.pid)
    begin, cpu = time.monotonic(), sum(process.cpu_times()[:2])
    tokens = 0
    while time.monotonic() - begin < 8:
        tokens += 10  # 100 tokens/s, in ten writes a second
        lab.ledger.set_now({**now, "text": "token " * tokens})
        time.sleep(0.1)
    used = (sum(process.cpu_times()[:2]) - cpu) / (time.monotonic() - begin)
    assert "token token" in written(child)
    assert used < 0.10, f"{used:.1%} of a core"
    child.send("q")
    reading.join(WAIT_S)


def test_a_day_at_the_lab_from_approval_to_report(
    terminal: Spawn, lab: FakeLab, engine: FakeEngine, tmp_path: Path
) -> None:
    number = asked(lab)
    child = terminal("open", lab.folder)
    child.expect("may it be judged")
    time.sleep(1.5)
    child.send("a")
    child.expect(f"#{number} is approved")
    child.send("i")
    child.send("use exp2\r")
    child.expect("What should become of the idea")
    child.send("k")
    child.expect("kept: the first agent")
    child.send("q")
    child.expect(pexpect.EOF)
    lab.judge(number, "gqa_decode", 1.2)
    lab.finish(number, "keep")
    again = terminal("open", lab.folder)
    again.expect("since you were here: 1 tried, 1 kept")
    again.send("v")
    again.expect("Why veto")
    time.sleep(0.5)
    again.send("it smells\r")
    again.expect("vetoed")
    again.send("q")
    again.expect("the engine goes on")
    again.expect(pexpect.EOF)
    again.close()
    assert again.exitstatus == 0
    row = lab.ledger.experiment(number)
    assert row is not None and row.status == "vetoed"
    page = tmp_path / "lab.html"
    made = terminal("report", "--lab", lab.folder, "-o", page)
    made.expect("open it in a browser")
    made.expect(pexpect.EOF)
    assert "it smells" in page.read_text()
