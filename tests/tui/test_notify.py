"""How a waiting question calls: bell, title, desktop; once for each, and never with a model's words."""

from __future__ import annotations

import stat
import time
from pathlib import Path

import pytest
from cockpit_driver import Cockpit
from fake_lab import FakeEngine, FakeLab
from kernel_lab.tui.notify import BELL, RESTORE_TITLE, SAVE_TITLE, Caller
from kernel_lab.tui.settings import Settings


def caller(written: list[str], environment: dict[str, str] | None = None, **settings: object) -> Caller:
    return Caller(Settings(**settings), written.append, environment or {})  # type: ignore[arg-type]


def test_what_begins_to_wait_rings_once_and_the_title_counts() -> None:
    written: list[str] = []
    one = caller(written)
    one.waits("lab", [(1, "hold", "a")])
    assert written == [SAVE_TITLE, "\x1b]2;(1 waiting) lab - kernel-lab\x07"], (
        "what waited before does not ring"
    )
    written.clear()
    one.waits("lab", [(1, "hold", "a")])
    assert written == []
    one.waits("lab", [(1, "hold", "a"), (2, "proposal", "b")])
    assert written == ["\x1b]2;(2 waiting) lab - kernel-lab\x07", BELL]
    written.clear()
    one.waits("lab", [(1, "hold", "a"), (2, "proposal", "changed")])
    assert written == [BELL], "another text is another question"
    written.clear()
    one.waits("lab", [])
    one.leave()
    assert written == ["\x1b]2;lab - kernel-lab\x07", RESTORE_TITLE]


def test_bell_and_title_can_be_switched_off() -> None:
    written: list[str] = []
    one = caller(written, bell=False, title=False)
    one.waits("lab", [])
    one.waits("lab", [(1, "hold", "a")])
    one.leave()
    assert written == []


@pytest.mark.parametrize(
    ("desktop", "expected"),
    [
        ("osc9", "\x1b]9;a, b: 1 waits for you\x07"),
        ("osc777", "\x1b]777;notify;kernel-lab;a, b: 1 waits for you\x07"),
    ],
)
def test_the_terminal_is_asked_for_a_notification(desktop: str, expected: str) -> None:
    written: list[str] = []
    one = caller(written, bell=False, title=False, desktop=desktop)
    one.waits("a; b", [])
    one.waits("a; b", [(1, "hold", "a")])
    assert written == [expected]
    inside: list[str] = []
    two = caller(inside, {"TMUX": "1"}, bell=False, title=False, desktop=desktop)
    two.waits("a; b", [])
    two.waits("a; b", [(1, "hold", "a")])
    assert inside[0].startswith("\x1bPtmux;\x1b\x1b]")


def test_a_lab_name_cannot_smuggle_a_sequence() -> None:
    written: list[str] = []
    one = caller(written, desktop="osc9")
    one.waits("evil\x07\x1b]0;owned\x07", [])
    one.waits("evil\x07\x1b]0;owned\x07", [(1, "hold", "a")])
    for sequence in written:
        if sequence.startswith("\x1b]"):
            assert sequence.count("\x1b") == 1 and sequence.count("\x07") == 1


def test_notify_send_gets_the_words_as_one_argument(tmp_path: Path) -> None:
    program = tmp_path / "notify-send"
    program.write_text(
        f'#!/bin/sh\nprintf "%s|" "$@" > {tmp_path}/heard.new\nmv {tmp_path}/heard.new {tmp_path}/heard\n'
    )
    program.chmod(program.stat().st_mode | stat.S_IEXEC)
    one = caller([], {"PATH": f"{tmp_path}:/usr/bin:/bin"}, bell=False, title=False, desktop="notify-send")
    one.waits("$(touch owned)", [])
    one.waits("$(touch owned)", [(1, "hold", "a")])
    deadline = time.monotonic() + 20
    while not (tmp_path / "heard").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    heard = (tmp_path / "heard").read_text()
    assert heard == "--app-name=kernel-lab|--|kernel-lab|$(touch owned): 1 waits for you|"


async def test_a_new_question_rings_whatever_screen_is_on_top(
    cockpit: Cockpit, lab: FakeLab, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[str] = []
    monkeypatch.setattr("kernel_lab.tui.cockpit.LabApp.to_terminal", lambda _, text: written.append(text))
    async with cockpit(lab.folder) as driver:
        await driver.until(lambda: any("lab - kernel-lab" in text for text in written))
        assert BELL not in written
        await driver.press("enter")
        await driver.on("ExperimentScreen")
        number = lab.begin()
        lab.ask(number)
        await driver.until(lambda: BELL in written)
        assert "\x1b]2;(1 waiting) lab - kernel-lab\x07" in written
    assert written[-1] == RESTORE_TITLE
