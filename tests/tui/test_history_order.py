"""Orders of the history: newest, fastest, and the tree of parents; quick for very many experiments."""

from __future__ import annotations

import time

from cockpit_driver import Cockpit
from fake_lab import FakeLab
from kernel_lab.tui.history import HistoryRow, branch, in_order
from kernel_lab.tui.widgets.history import History


def row(number: int, parent: int | None, seed: float | None = None, fa2: float | None = None) -> HistoryRow:
    return HistoryRow(number, "gqa_decode", parent, "keep", seed, fa2, True, False, 0, f"why {number}", "")


def test_the_tree_puts_each_below_what_it_was_built_on() -> None:
    rows = [row(1, None), row(2, 1), row(3, 1), row(4, 2), row(5, None), row(6, 99), row(7, 4)]
    assert in_order(rows, "tree") == [(1, 0), (2, 1), (4, 2), (7, 3), (3, 1), (5, 0), (6, 0)]
    assert [branch(depth) for depth in (0, 1, 2, 9)] == ["", "└ ", "  └ ", "          └ 9: "]


def test_parents_in_a_circle_lose_no_row() -> None:
    assert sorted(n for n, _ in in_order([row(1, 2), row(2, 1), row(3, 3)], "tree")) == [1, 2, 3]


def test_fastest_goes_by_the_seed_and_puts_what_was_not_judged_last() -> None:
    rows = [row(1, None, 1.0), row(2, 1, None), row(3, 1, 1.5), row(4, 1, float("nan")), row(5, 1, None, 1.2)]
    assert [n for n, _ in in_order(rows, "fastest")] == [3, 5, 1, 4, 2]


def test_a_line_of_ten_thousand_generations_is_ordered_in_a_moment() -> None:
    rows = [row(n, n - 1 or None, 1.0 + n / 1e5) for n in range(1, 10_001)]
    for order in ("newest", "fastest", "tree"):
        begin = time.process_time()
        assert len(in_order(rows, order)) == 10_000  # type: ignore[arg-type]
        assert time.process_time() - begin < 0.5


async def test_t_turns_the_order_and_the_cursor_stays_on_its_experiment(
    cockpit: Cockpit, lab: FakeLab
) -> None:
    lab.past(12)
    async with cockpit(lab.folder) as driver:
        history = driver.screen.query_one(History)
        await driver.until(lambda: len(history.shown) == lab.last)
        await driver.press("5", "j", "j")
        chosen = history.experiment
        assert chosen == lab.last - 2
        await driver.press("t")
        await driver.told("fastest first")
        assert history.experiment == chosen
        scores = [history._rows[n].score_seed for n, _ in history._shown]
        judged = [score for score in scores if score is not None]
        assert judged == sorted(judged, reverse=True) and scores[len(judged) :] == [None] * (
            len(scores) - len(judged)
        )
        await driver.press("t")
        await driver.told("as a tree")
        assert history.experiment == chosen and "as a tree" in history.heading(118)
        assert "└ " in driver.text("#history")
        await driver.press("slash", *"decode", "enter")
        assert {history._rows[n].task for n in history.shown} == {"gqa_decode"}
