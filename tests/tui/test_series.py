"""What the chart draws: thinned without hiding a keep or an extreme, and bounded."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from kernel_lab.tui.series import Scored, bounds, series
from kernel_lab.tui.widgets.chart import marker_of, plot

STATUS = st.sampled_from(["keep", "discard", "held", "seed", "incorrect"])
ROWS = st.lists(st.tuples(STATUS, st.floats(0.05, 20), st.booleans()), max_size=400)


def scored(rows: list[tuple[str, float, bool]]) -> list[Scored]:
    return [
        Scored(n, ("gqa_decode", "gqa_prefill")[task], status, ratio, True)
        for n, (status, ratio, task) in enumerate(rows, 1)
    ]


@given(ROWS, st.integers(4, 200))
def test_at_most_two_points_a_column_of_each_task(rows: list[tuple[str, float, bool]], columns: int) -> None:
    shown = series(scored(rows), columns)
    last = max((one.points[-1].experiment for one in shown), default=0)
    for one in shown:
        cells: dict[int, int] = {}
        for point in one.points:
            column = min(columns - 1, point.experiment * columns // (last + 1))
            cells[column] = cells.get(column, 0) + 1
        if last > columns:
            assert max(cells.values(), default=0) <= 2


@given(ROWS)
def test_the_champions_line_has_every_keep(rows: list[tuple[str, float, bool]]) -> None:
    for one in series(scored(rows), 50):
        kept = [
            (row.experiment, row.ratio)
            for row in scored(rows)
            if row.task == one.task and row.status in ("keep", "seed")
        ]
        assert list(one.best) == kept


@given(ROWS)
def test_the_line_at_one_is_always_in_sight(rows: list[tuple[str, float, bool]]) -> None:
    low, high = bounds(series(scored(rows), 50))
    assert low < 1.0 < high


def test_ten_thousand_experiments_are_few_points() -> None:
    rows = [Scored(n, "gqa_decode", "discard", 0.5 + (n % 97) / 200, True) for n in range(1, 10_001)]
    (one,) = series(rows, 80)
    assert len(one.points) <= 160
    ratios = [row.ratio for row in rows if row.ratio is not None]
    assert max(point.ratio for point in one.points) == max(ratios)


def test_scores_that_are_no_numbers_are_left_out() -> None:
    rows = [Scored(1, "t", "keep", float("nan"), True), Scored(2, "t", "keep", None, True)]
    assert (
        series([*rows, Scored(3, "t", "keep", float("inf"), True), Scored(4, "t", "keep", -1.0, True)], 20)
        == ()
    )


def test_tasks_and_kinds_have_markers_of_their_own() -> None:
    markers = {
        marker_of(task, kind) for task in ("gqa_decode", "gqa_prefill", "other") for kind in (True, False)
    }
    assert len(markers) == 6
    assert marker_of("gqa_decode", True) == "o" and marker_of("gqa_decode", False) == "O"


def test_plots_of_any_size_fit_their_place() -> None:
    rows = [
        Scored(n, ("gqa_decode", "gqa_prefill")[n % 2], "keep", 0.5 + n / 100, True) for n in range(1, 60)
    ]
    for width, height in ((16, 3), (40, 8), (110, 30), (200, 60)):
        lines = plot(series(rows, width), width, height, True)
        assert len(lines) <= height
        assert all(line.cell_len <= width for line in lines)
