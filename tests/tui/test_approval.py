"""Nothing is approved by accident, and what is approved is the very text that was shown."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
from cockpit_driver import Cockpit
from fake_lab import FakeEngine, FakeLab, source
from kernel_lab.engine.commands import Approve, Command, Edit, Reject
from kernel_lab.tui.approval import ApprovalGuard


def asked(lab: FakeLab) -> int:
    number = lab.begin()
    lab.gates(number)
    lab.ask(number)
    return number


async def test_approve_carries_experiment_and_text_of_the_proposal_shown(
    cockpit: Cockpit, lab: FakeLab, engine: FakeEngine, sent: list[Command]
) -> None:
    number = asked(lab)
    async with cockpit(lab.folder) as driver:
        await driver.until(lambda: "may it be judged?" in driver.text("#proposal"))
        await driver.pilot.pause(0.6)
        await driver.press("a")
        await driver.told(f"#{number} is approved")
        assert sent == [Approve(number, lab.sha(number))]
        await driver.until(lambda: "nothing needs you" in driver.text("#queue"))


async def test_a_key_pressed_as_the_question_appears_is_not_taken(
    cockpit: Cockpit, lab: FakeLab, engine: FakeEngine, sent: list[Command]
) -> None:
    async with cockpit(lab.folder) as driver:
        await driver.pilot.pause(0.3)
        asked(lab)
        await driver.until(lambda: "may it be judged?" in driver.text("#proposal"))
        await driver.press("a")
        await driver.told("it appeared just now")
        assert sent == []


async def test_typing_never_approves(
    cockpit: Cockpit, lab: FakeLab, engine: FakeEngine, sent: list[Command]
) -> None:
    asked(lab)
    async with cockpit(lab.folder) as driver:
        await driver.pilot.pause(0.7)
        await driver.press("i", *"abracadabra", "escape")
        assert driver.screen.query_one("#idea-text").text == "abracadabra"  # type: ignore[attr-defined]
        await driver.press("a")
        await driver.told("you were typing")
        assert sent == []


async def test_an_approval_of_a_text_that_changed_is_refused(
    cockpit: Cockpit, lab: FakeLab, engine: FakeEngine, sent: list[Command]
) -> None:
    number = asked(lab)
    async with cockpit(lab.folder) as driver:
        await driver.pilot.pause(0.7)
        detail = driver.screen.detail  # type: ignore[attr-defined]
        detail.source_sha = "0" * 64
        await driver.press("a")
        await driver.told("changed while it was shown")
        assert sent == []
    assert lab.ledger.open_questions()[0].experiment == number


async def test_what_is_out_of_sight_is_shown_before_it_can_be_approved(
    cockpit: Cockpit, lab: FakeLab, engine: FakeEngine, sent: list[Command]
) -> None:
    number = asked(lab)
    async with cockpit(lab.folder, size=(80, 24)) as driver:
        await driver.press("5")
        await driver.pilot.pause(0.7)
        await driver.press("a")
        await driver.told("look at it, then answer")
        assert driver.screen.query_one("#proposal").display and sent == []
        await driver.pilot.pause(0.7)
        await driver.press("a")
        await driver.told("is approved")
        assert sent == [Approve(number, lab.sha(number))]


async def test_reject_asks_for_a_reason_and_sends_it(
    cockpit: Cockpit, lab: FakeLab, engine: FakeEngine, sent: list[Command]
) -> None:
    number = asked(lab)
    async with cockpit(lab.folder) as driver:
        await driver.pilot.pause(0.2)
        await driver.press("r")
        await driver.on("ReasonDialog")
        await driver.press("enter")
        assert sent == [] and driver.screen_name == "ReasonDialog"
        await driver.press(*"no", "space", *"gain", "ctrl+j", *"here", "enter")
        await driver.told(f"#{number} is rejected")
        assert sent == [Reject(number, "no gain\nhere", lab.sha(number))]


async def test_escape_from_the_reason_rejects_nothing(
    cockpit: Cockpit, lab: FakeLab, engine: FakeEngine, sent: list[Command]
) -> None:
    asked(lab)
    async with cockpit(lab.folder) as driver:
        await driver.press("r", *"abc", "escape")
        await driver.on("LiveScreen")
        assert sent == []


async def test_edit_sends_what_the_editor_left(
    cockpit: Cockpit, lab: FakeLab, engine: FakeEngine, sent: list[Command], monkeypatch: pytest.MonkeyPatch
) -> None:
    number = asked(lab)
    monkeypatch.setattr(
        "kernel_lab.tui.editor._run",
        lambda command, folder, env: (folder / f"candidate_{number}.py").write_text(source(99)),
    )
    monkeypatch.setenv("EDITOR", "true")
    async with cockpit(lab.folder) as driver:
        driver.app.suspend = nullcontext  # type: ignore[method-assign,assignment]
        await driver.press("e")
        await driver.told("goes on as edited")
        assert sent == [Edit(number, source(99))]


def test_guard_waits_after_appearance_and_after_typing() -> None:
    now = [0.0]
    guard = ApprovalGuard(clock=lambda: now[0])
    guard.in_sight("q1")
    assert guard.refuses("q1")
    now[0] = 0.51
    assert guard.refuses("q1") is None
    assert guard.refuses("q2"), "another question than the one in sight"
    guard.typed()
    now[0] = 1.5
    assert guard.refuses("q1")
    now[0] = 1.52
    assert guard.refuses("q1") is None
    guard.in_sight("q1")
    assert guard.refuses("q1") is None, "the same question again is no new one"
    guard.in_sight("q2")
    assert guard.refuses("q2")
