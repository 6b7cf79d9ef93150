"""The chart's marks, and the curve of one experiment over context length or batch."""

from __future__ import annotations

from typing import Any

import pytest
from cockpit_driver import Cockpit
from fake_lab import FakeLab
from kernel_lab.engine import events as e
from kernel_lab.engine.facts import Speed, WorkloadTime
from kernel_lab.tui.curve import curves, rate_unit, short_number
from kernel_lab.tui.series import Scored, series
from kernel_lab.tui.widgets.chart import plot
from kernel_lab.tui.widgets.curve import CurveView
from kernel_lab.tui.widgets.plot import round_ticks


def workload(name: str, time_us: float, fa2: float, ci: tuple[float, float] | None = None) -> WorkloadTime:
    return WorkloadTime(
        name,
        "b",
        0.5,
        time_us,
        2.0,
        "TB/s",
        50.0,
        "dram",
        {"fa2": fa2, "seed": 2 * fa2},
        {"fa2": ci} if ci else {},
    )


SPEED = Speed(
    "measured",
    {"fa2": 1.2},
    {"fa2": (1.1, 1.3)},
    (
        workload("b1-s32k", 400.0, 0.8),
        workload("b1-s1k", 10.0, 1.5, (1.2, 1.8)),
        workload("b8-s8k", 100.0, 1.1),
    ),
)
MATRIX: list[dict[str, Any]] = [
    {"id": "b1-s1k", "Sk": 1024, "B": 1},
    {"id": "b1-s32k", "Sk": 32768, "B": 1},
    {"id": "b8-s8k", "Sk": 8192, "B": 8},
]


def test_ratios_are_those_of_the_workloads_by_context_with_their_intervals() -> None:
    fa2, seed = curves(SPEED, MATRIX, "context", "ratio")
    assert (fa2.name, seed.name) == ("fa2", "seed")
    assert [(p.x, p.y, p.interval) for p in fa2.points] == [
        (1024, 1.5, (1.2, 1.8)),
        (8192, 1.1, None),
        (32768, 0.8, None),
    ]


def test_times_and_rates_of_baselines_follow_from_the_ratios() -> None:
    candidate, fa2, _ = curves(SPEED, MATRIX, "batch", "time")
    assert [(p.x, p.y) for p in candidate.points] == [(1, 10.0), (1, 400.0), (8, 100.0)]
    assert [p.y for p in fa2.points] == pytest.approx([15.0, 320.0, 110.0])
    candidate, fa2, _ = curves(SPEED, MATRIX, "batch", "rate")
    assert [p.y for p in fa2.points] == pytest.approx([2 / 1.5, 2 / 0.8, 2 / 1.1])
    assert rate_unit(SPEED) == "TB/s"


def test_workloads_that_the_matrix_does_not_name_are_left_out() -> None:
    hostile = [{"id": "b1-s1k", "Sk": "many"}, {"id": "b1-s32k", "Sk": -1}, {"id": "b8-s8k", "Sk": True}, {}]
    assert curves(SPEED, hostile, "context", "ratio") == ()
    assert [short_number(n) for n in (1, 100, 1024, 8192, 131072, 1048576)] == [
        "1",
        "100",
        "1k",
        "8k",
        "128k",
        "1M",
    ]


@pytest.mark.parametrize("logarithmic", [False, True])
def test_ticks_are_round_few_and_in_sight(logarithmic: bool) -> None:
    for low, high in ((0.5, 1.5), (0.9, 1.1), (0.01, 40.0), (120.0, 90_000.0), (1.0, 1.000001)):
        ticks = round_ticks(low, high, 12, logarithmic)
        assert len(ticks) <= 6 and all(low <= tick <= high for tick in ticks) and ticks == sorted(ticks)


def drawn(*rows: Scored, logarithmic: bool = False) -> str:
    return "\n".join(line.plain for line in plot(series(rows, 60), 60, 14, logarithmic))


def test_a_kept_measurement_has_its_interval_and_an_estimate_looks_unlike_it() -> None:
    measured = drawn(
        Scored(1, "gqa_decode", "seed", 0.6, False, (0.59, 0.61)),
        Scored(8, "gqa_decode", "keep", 1.5, False, (1.1, 1.9)),
    )
    assert measured.count("O") == 2 and "|" in measured and "----" in measured
    estimated = drawn(Scored(1, "gqa_decode", "seed", 0.6, True), Scored(8, "gqa_decode", "keep", 1.5, True))
    assert estimated.count("o") == 2 and "O" not in estimated and "|" not in estimated
    assert "----" not in estimated and "-  -" in estimated


def test_a_hold_is_marked_and_what_was_not_kept_is_a_dot() -> None:
    shown = drawn(
        Scored(1, "gqa_decode", "seed", 0.6, True),
        Scored(3, "gqa_decode", "held", 1.4, True),
        Scored(5, "gqa_decode", "discard", 0.7, True),
    )
    assert shown.count("h") == 1 and "." in shown


def test_a_logarithmic_axis_puts_a_half_as_far_from_one_as_a_double() -> None:
    shown = drawn(
        Scored(1, "gqa_decode", "seed", 0.25, True),
        Scored(4, "gqa_decode", "keep", 1.0, True),
        Scored(8, "gqa_decode", "keep", 4.0, True),
        logarithmic=True,
    ).split("\n")
    rows = [index for index, line in enumerate(shown) if "o" in line]
    assert len(rows) == 3 and abs((rows[1] - rows[0]) - (rows[2] - rows[1])) <= 1


async def test_the_curve_of_an_experiment_turns_unit_axis_and_scale(cockpit: Cockpit, lab: FakeLab) -> None:
    names = ("decode-b1-s8k", "decode-b1-s32k")
    matrix = [{"id": name, "Sk": size, "B": 1} for name, size in zip(names, (8192, 32768), strict=True)]
    config = {"gpu": "rtx3060"}
    lab.write(e.LabCreated("lab", "static", "rtx3060", "m", ("gqa_decode",), config, {"gqa_decode": matrix}))
    number = lab.begin("gqa_decode")
    lab.judge(number, "gqa_decode", 1.2)
    lab.finish(number, "keep")
    async with cockpit(lab.folder) as driver:
        await driver.press("enter")
        await driver.on("ExperimentScreen")
        await driver.press("7")
        pane = driver.screen.query_one(CurveView)
        await driver.until(lambda: len(pane._lines) > 5)
        assert pane._lines[0].plain.startswith("estimated × each baseline over context length (keys)")
        assert "8k" in "".join(line.plain for line in pane._lines)
        await driver.press("u")
        await driver.until(lambda: "estimated us over" in pane._lines[0].plain)
        assert "c candidate" in pane._lines[0].plain
        await driver.press("w")
        await driver.until(lambda: "over batch" in pane._lines[0].plain)
        await driver.press("x")
        await driver.told("logarithmic")
        assert "decode-b1-s8k\t1\tFA2" in pane.plain()
