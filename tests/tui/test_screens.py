"""Every screen at three sizes, as text against files, and the same text in light and without colours.

After a change that is meant: `WRITE_SCREENS=1 pytest tests/tui/test_screens.py`, and look at the
difference before it is committed.
"""

from __future__ import annotations

import html
import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from cockpit_driver import Driver
from kernel_lab.tui import theme
from kernel_lab.tui.cockpit import LabApp
from kernel_lab.tui.settings import Settings
from kernel_lab.tui.sources import RECORDINGS, ReplaySource
from rich.style import Style

WRITE = os.environ.get("WRITE_SCREENS") == "1"
FILES = Path(__file__).with_name("screens")
SCREENSHOT = Path(__file__).parents[2] / "docs" / "screenshot.svg"
SIZES = ((80, 24), (120, 30), (200, 50))
PLACES = ("labs", "live", "experiment")
MODES = ("dark", "light", "no colour")


@asynccontextmanager
async def screen_of(place: str, size: tuple[int, int], theme_name: str) -> AsyncIterator[Driver]:
    recording = RECORDINGS / "rtx3060-decode.db"
    source = None if place == "labs" else ReplaySource(recording, speed=1_000_000.0)
    app = LabApp(source, settings=Settings(theme=theme_name))
    async with app.run_test(size=size) as pilot:
        driver = Driver(app, pilot)
        if place == "labs":
            await driver.until(lambda: driver.screen_name == "LabsScreen")
            await driver.until(lambda: "rtx3060-decode" in driver.text("#labs"))
            await driver.until(lambda: "Labs run here" in driver.text("#findings"))
        else:
            await driver.until(lambda: driver.screen_name == "ReplayScreen")
            await driver.until(lambda: "replay halted 480/480" in driver.text("#status"))
            await set_pace(driver)
        if place == "experiment":
            driver.screen.open_experiment(6)  # type: ignore[attr-defined]
            await driver.until(lambda: driver.screen_name == "ExperimentScreen")
            await driver.until(lambda: "#6 decode" in driver.text("#banner"))
            await driver.press("3")
            await driver.until(lambda: "Probes" in driver.text("#section"))
            await driver.until(lambda: "against #4" in str(driver.screen.query_one("#diff").lines))  # type: ignore[attr-defined]
        # What is drawn after a resize has settled, and toasts gone.
        await pilot.pause(0.3)
        app.clear_notifications()
        await pilot.pause(0.1)
        yield driver


async def set_pace(driver: Driver) -> None:
    """The speed that people see; the recording was played faster."""
    screen: Any = driver.screen
    screen.later(screen.session.replay(lambda reader: setattr(reader, "pace", 8.0)))
    await driver.until(lambda: " 8x" in driver.text("#status"))


def shown(driver: Driver) -> tuple[str, set[str]]:
    """The screen's text without its key bar, which follows the registry, and the names of all its colours."""
    lines, colours = [], set()
    for y in range(driver.app.size.height):
        line = ""
        for segment in driver.screen._compositor.render_strips()[y]:
            line += segment.text
            style = segment.style or Style.null()
            colours |= {part.name for part in (style.color, style.bgcolor) if part is not None}
        lines.append(line.rstrip())
    return "\n".join(lines[:-1]).rstrip() + "\n", colours


@pytest.fixture(autouse=True)
def stable(own_world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernel_lab.tui.screens.labs.missing_here", lambda: "")
    monkeypatch.delenv("NO_COLOR", raising=False)


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("place", PLACES)
async def test_the_screen_is_as_it_was_whatever_the_colours(
    place: str, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    texts: dict[str, str] = {}
    for mode in MODES:
        if mode == "no colour":
            monkeypatch.setenv("NO_COLOR", "1")
        async with screen_of(place, size, "light" if mode == "light" else "dark") as driver:
            texts[mode], colours = shown(driver)
        if mode == "no colour":
            assert not colours
        elif mode == "light":
            assert not colours & set(theme.recolouring(theme.LIGHT)), "a colour of the dark theme is left"
        else:
            assert theme.DARK.background in colours or theme.DARK.surface in colours
    assert texts["light"] == texts["dark"] and texts["no colour"] == texts["dark"]
    file = FILES / f"{place}-{size[0]}x{size[1]}.txt"
    if WRITE:
        file.parent.mkdir(exist_ok=True)
        file.write_text(texts["dark"], encoding="utf-8")
    assert texts["dark"] == file.read_text(encoding="utf-8")


async def test_the_screenshot_in_the_documentation_is_of_this_screen() -> None:
    async with screen_of("live", (120, 30), "dark") as driver:
        screen: Any = driver.screen
        screen.later(screen.session.replay(lambda reader: reader.seek(426), moved=True))
        await driver.until(lambda: "Verdict keep" in driver.text("#proposal"))
        await driver.pilot.pause(0.3)
        text, _ = shown(driver)
        if WRITE:
            SCREENSHOT.write_text(driver.app.export_screenshot(title="kernel-lab"), encoding="utf-8")
    svg = SCREENSHOT.read_text(encoding="utf-8")
    pieces = re.findall(r"<text[^>]*clip-path[^>]*>([^<]*)</text>", svg)
    assert "".join(html.unescape("".join(pieces)).split()).startswith("".join(text.split()))
