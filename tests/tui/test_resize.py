"""Any size, and any change of size, draws whole lines and crashes nothing."""

from __future__ import annotations

import pytest
from cockpit_driver import Cockpit, Driver
from fake_lab import FakeLab
from kernel_lab.tui.widgets.chart import Chart

SIZES = [(80, 24), (20, 5), (200, 50), (1, 1), (100, 10), (5, 40), (300, 3), (80, 24)]


def whole(driver: Driver) -> None:
    """Every line of the screen is exactly as wide as the terminal."""
    width, height = driver.app.size
    strips = driver.screen._compositor.render_strips()
    assert len(strips) == height
    for strip in strips:
        assert sum(segment.cell_length for segment in strip) == width


@pytest.mark.parametrize("keys", [("2",), ("4", "z"), ("i", "a", "b"), ("slash", "o")])
async def test_live(cockpit: Cockpit, lab: FakeLab, keys: tuple[str, ...]) -> None:
    lab.past(12)
    lab.ask(lab.begin())
    async with cockpit(lab.folder, size=(120, 30)) as driver:
        await driver.press(*keys)
        for size in SIZES:
            await driver.pilot.resize_terminal(*size)
            await driver.pilot.pause()
            whole(driver)
        assert "#" in driver.text("#status")


async def test_experiment_and_dialogs(cockpit: Cockpit, lab: FakeLab) -> None:
    lab.past(6)
    lab.ask(lab.begin())
    async with cockpit(lab.folder, size=(120, 30)) as driver:
        await driver.press("o")
        await driver.on("ExperimentScreen")
        for key in ("2", "question_mark"):
            await driver.press(key)
            for size in SIZES:
                await driver.pilot.resize_terminal(*size)
                await driver.pilot.pause()
                whole(driver)


async def test_labs_and_start(cockpit: Cockpit) -> None:
    async with cockpit(size=(120, 30)) as driver:
        for key in ("down", "n"):
            await driver.press(key)
            for size in SIZES:
                await driver.pilot.resize_terminal(*size)
                await driver.pilot.pause()
                whole(driver)


async def test_the_chart_waits_until_the_size_has_settled(
    cockpit: Cockpit, lab: FakeLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.past(12)
    async with cockpit(lab.folder, size=(120, 30)) as driver:
        chart = driver.screen.query_one(Chart)
        await driver.until(lambda: chart.builds)
        await driver.pilot.pause(0.4)
        builds = chart.builds
        monkeypatch.setattr("kernel_lab.tui.widgets.plot.RESIZE_SETTLES_S", 3.0)
        for width in range(118, 108, -2):
            await driver.pilot.resize_terminal(width, 30)
        assert chart.builds == builds
        await driver.until(lambda: chart.builds > builds)
        assert chart.builds == builds + 1
        assert chart._lines[3].cell_len <= chart.size.width
