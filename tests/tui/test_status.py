"""The status lines: everything that has to be said stands in 120 columns, also at its longest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cockpit_driver import Cockpit
from fake_lab import FakeLab
from kernel_lab.engine import events as e
from kernel_lab.engine.facts import Speed
from kernel_lab.tui import live_text, theme
from kernel_lab.tui.model import LabModel, Update


@pytest.fixture
def card_lab(tmp_path: Path) -> FakeLab:
    made = FakeLab(tmp_path / "h200-llama", kind="measured", budget=500, mode="wins")
    made.seeds()
    return made


def race(lab: FakeLab, number: int, **card: Any) -> None:
    facts = {"rounds": [{"round": 1, "clock_mhz": 1980, "power_w": 410.0}, {"round": 2, **card}]}
    lab.write(e.GateFinished(number, "speed", True, None, (), facts, 3.0))


def kept(lab: FakeLab) -> int:
    number = lab.begin("gqa_prefill")
    score, ci = {"fa2": 1.3102, "seed": 2.4817}, {"fa2": (1.2871, 1.3349), "seed": (2.4410, 2.5193)}
    lab.write(e.SpeedJudged(number, Speed("measured", score, ci, ())))
    lab.finish(number, "keep")
    return number


async def test_a_measured_lab_says_everything_in_120_columns(cockpit: Cockpit, card_lab: FakeLab) -> None:
    lab = card_lab
    number = kept(lab)
    running = lab.begin("gqa_prefill")
    race(lab, running, clock_mhz=1755, temperature_c=71, power_w=698.4, throttle=["power_cap"])
    lab.trials(running, 2)
    async with cockpit(lab.folder) as driver:
        await driver.until(lambda: "trials" in driver.text("#status"))
        first, second = driver.text("#status").splitlines()
        for words in (
            f"#{running} prefill trials",
            "mode wins",
            "1/500 tried",
            "rtx3060 1755 MHz 71 °C 698 W power cap",
            "judge: checked, measured",
        ):
            assert words in first
        assert f"prefill #{number} 2.48× seed [2.44, 2.52], 1.31× FA2 [1.29, 1.33]" in second
        assert "decode #1" in second
    lab.close()


def test_a_new_race_changes_what_is_said_of_the_card() -> None:
    model = LabModel()
    assert live_text.card_word(model).plain == ""
    assert not model.apply(Update()) and not model.card


async def test_a_static_lab_names_the_card_and_says_that_it_is_not_there(
    cockpit: Cockpit, lab: FakeLab
) -> None:
    async with cockpit(lab.folder) as driver:
        assert "rtx3060 static" in driver.text("#status")
        assert "judge: checked, estimated" in driver.text("#status")


async def test_the_status_says_what_the_judge_caught(cockpit: Cockpit, lab: FakeLab) -> None:
    lab.write(e.SelftestJudged("green", "caught 47/47, false alarms 0/9", (), (), False))
    async with cockpit(lab.folder) as driver:
        await driver.until(lambda: "judge caught 47/47" in driver.text("#status"))
        lab.write(e.SelftestJudged("red", "caught 46/47", ("memo",), (), False))
        await driver.until(lambda: "keeps provisional (judge red: memo)" in driver.text("#status"))


async def test_throttling_is_coloured_as_a_warning(cockpit: Cockpit, card_lab: FakeLab) -> None:
    race(card_lab, card_lab.begin(), clock_mhz=900, throttle=["thermal_slowdown"])
    async with cockpit(card_lab.folder) as driver:
        screen: Any = driver.screen
        word = live_text.card_word(screen.session.model)
        assert word.plain == "rtx3060 900 MHz thermal slowdown"
        assert word.spans[-1].style == theme.WARN
    card_lab.close()
