"""A terminal of 80 columns: the strip of checks fits, and every region can be found."""

from __future__ import annotations

from typing import Any

import pytest
from cockpit_driver import Cockpit
from fake_lab import FakeLab
from kernel_lab.engine import events as e
from kernel_lab.tui.live_text import STRIP_GATES
from kernel_lab.tui.series import Scored, series
from kernel_lab.tui.widgets.bars import Gate, checks_strip
from kernel_lab.tui.widgets.chart import plot


def gates(**states: tuple[str, str, str]) -> list[Gate]:
    """Gates in their order; `name=(state, outcomes, word)`, all others not begun."""
    outcomes = {".": "pass", "F": "fail", "?": "unproven"}
    result: list[Gate] = []
    for name in STRIP_GATES:
        state, cells, word = states.get(name, ("", "", ""))
        result.append((name, state, [outcomes[cell] for cell in cells], word))
    return result


PASSED = ("pass", "", "")


@pytest.mark.parametrize(
    ("width", "shown"),
    [
        (
            120,
            "lint ok  screen ok  quick ok  trials 12  correctness ok  "
            "integrity ............  speed -  confirm -",
        ),
        (80, "lint..correct ok  probes ............  speed..confirm -"),
        (50, "lint..correct ok probes 6+...... speed..confirm -"),
    ],
)
def test_what_has_passed_and_what_has_not_begun_is_drawn_together_where_it_is_narrow(
    width: int, shown: str
) -> None:
    strip = checks_strip(
        gates(
            lint=PASSED,
            screen=PASSED,
            quick=PASSED,
            trials=("pass", "", "12"),
            correctness=PASSED,
            integrity=("running", "." * 12, ""),
        ),
        width,
    )
    assert strip.plain == shown


def test_a_failure_is_named_at_80_columns() -> None:
    strip = checks_strip(
        gates(
            lint=PASSED,
            screen=PASSED,
            quick=PASSED,
            trials=("pass", "", "12"),
            correctness=("fail", "." * 30 + "F", ""),
        ),
        80,
    )
    assert strip.cell_len <= 80
    assert strip.plain.endswith("F FAILED  probes..confirm -")


async def test_the_title_of_a_narrow_region_names_all_regions(cockpit: Cockpit, lab: FakeLab) -> None:
    async with cockpit(lab.folder, (80, 24)) as driver:
        title: Any = driver.screen.query_one("#proposal").border_title
        for words in ("1 proposal", "2 diff", "3 checks", "4 chart", "5 history"):
            assert words in str(title)
        await driver.press("5")
        await driver.until(lambda: driver.screen.query_one("#history-box").display)
    async with cockpit(lab.folder, (120, 30)) as driver:
        assert "5 history" not in str(driver.screen.query_one("#proposal").border_title)
        assert "3 checks" in str(driver.screen.query_one("#proposal").border_title)


def test_the_chart_begins_at_the_first_experiment() -> None:
    for last in (2, 12, 300):
        rows = [Scored(n, "gqa_decode", "discard", 0.9, True) for n in range(1, last + 1)]
        axis = plot(series(rows, 72), 80, 12, True)[-1].plain
        assert axis.split()[0] == "#1", axis
        assert "#0" not in axis.split()


async def test_a_candidate_that_waits_to_be_judged_is_in_the_queue(cockpit: Cockpit, lab: FakeLab) -> None:
    lab.write(e.Submitted(1, "gqa_decode", "0" * 64, "Pack the heads.", (), "person"))
    async with cockpit(lab.folder, (80, 24)) as driver:
        await driver.until(lambda: "your candidate waits to be judged (decode)" in driver.text("#queue"))
