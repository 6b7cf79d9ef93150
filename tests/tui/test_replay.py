"""Replay: the same screen over a recording, with the controls of a player and nothing that changes it."""

from __future__ import annotations

from typing import Any

from cockpit_driver import Cockpit
from fake_lab import FakeLab


async def test_a_recording_plays_to_its_end(cockpit: Cockpit, lab: FakeLab) -> None:
    lab.past(8)
    async with cockpit(lab.folder, replay=True) as driver:
        await driver.on("ReplayScreen")
        total = lab.ledger.last_seq()
        await driver.until(lambda: f"{total}/{total}" in driver.text("#status"))
        assert "replay halted" in driver.text("#status")
        assert len(driver.text("#history").splitlines()) == lab.last + 1


async def test_brackets_seek_experiment_by_experiment(cockpit: Cockpit, lab: FakeLab) -> None:
    lab.past(8)
    async with cockpit(lab.folder, replay=True) as driver:
        total = lab.ledger.last_seq()
        await driver.until(lambda: f"{total}/{total}" in driver.text("#status"))
        await driver.press("left_square_bracket")
        await driver.until(lambda: len(driver.text("#history").splitlines()) == lab.last)
        await driver.press("left_square_bracket")
        await driver.until(lambda: len(driver.text("#history").splitlines()) == lab.last - 1)
        assert f"#{lab.last - 2} " in driver.text("#proposal")
        await driver.press("right_square_bracket")
        await driver.until(lambda: len(driver.text("#history").splitlines()) == lab.last)
        await driver.press("number_sign", "3", "enter")
        await driver.until(lambda: len(driver.text("#history").splitlines()) == 4)
        await driver.press("F")
        await driver.until(lambda: f"{total}/{total}" in driver.text("#status"))


async def test_play_halt_and_speed(cockpit: Cockpit, lab: FakeLab) -> None:
    lab.past(8)
    async with cockpit(lab.folder, replay=True) as driver:
        screen: Any = driver.screen
        total = lab.ledger.last_seq()
        await driver.until(lambda: f"{total}/{total}" in driver.text("#status"))
        await driver.press("number_sign", "2", "enter")
        await driver.until(lambda: screen.session.model.position.seq < total)
        await driver.press("less_than_sign")
        await driver.until(lambda: screen.session.model.position.speed == 1024.0)
        for _ in range(12):
            await driver.press("less_than_sign")
            await driver.pilot.pause(0.12)
        await driver.until(lambda: screen.session.model.position.speed == 0.25)
        await driver.press("space")
        await driver.until(lambda: "replay playing" in driver.text("#status"))
        await driver.press("space")
        await driver.until(lambda: "replay halted" in driver.text("#status"))


async def test_nothing_can_be_changed_in_a_recording(
    cockpit: Cockpit, lab: FakeLab, sent: list[object]
) -> None:
    number = lab.begin()
    lab.ask(number)
    async with cockpit(lab.folder, replay=True) as driver:
        await driver.until(lambda: f"#{number}" in driver.text("#queue"))
        for key in ("a", "r", "e", "i", "K", "S", "m", "v"):
            await driver.press(key)
        await driver.told("this is a recording")
        assert driver.screen_name == "ReplayScreen"
        assert sent == []


async def test_a_number_that_is_none_is_answered_in_one_line(cockpit: Cockpit, lab: FakeLab) -> None:
    async with cockpit(lab.folder, replay=True) as driver:
        await driver.press("number_sign", *"abc", "enter")
        await driver.told("is no number")
        await driver.press("number_sign", *"999", "enter")
        await driver.told("no experiment #999")
