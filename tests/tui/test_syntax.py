"""Colours of a candidate's text, and the diff's two sides."""

from __future__ import annotations

import time
from itertools import pairwise

from cockpit_driver import Cockpit
from fake_lab import SEED_SOURCE, FakeLab
from hypothesis import given
from hypothesis import strategies as st
from kernel_lab.tui import theme
from kernel_lab.tui.diffs import paired, unified
from kernel_lab.tui.syntax import TEXT_LIMIT, spans_of
from kernel_lab.tui.widgets.diff import DiffView, side_lines

LINES = st.lists(st.sampled_from(["a", "b", "c", "dd", "", "x = 1"]), max_size=30)


def test_a_string_over_many_lines_is_one_on_each_of_them() -> None:
    lines = ['"""one', "two", 'three"""', "def f(x):  # why", "    return 0x1F + tl.load(x)"]
    found = spans_of(lines)
    assert [found[n] for n in range(3)] == [((0, 6, "string"),), ((0, 3, "string"),), ((0, 8, "string"),)]
    assert (0, 3, "keyword") in found[3] and (4, 5, "name") in found[3] and (11, 16, "comment") in found[3]
    assert (4, 10, "keyword") in found[4] and (11, 15, "number") in found[4]


@given(
    st.lists(st.text(st.characters(blacklist_characters="\n\r", blacklist_categories=("Cs",))), max_size=20)
)
def test_whatever_the_text_every_line_has_its_spans_inside_it(lines: list[str]) -> None:
    if len(lines) == 0:
        return
    found = spans_of(lines)
    assert len(found) == len(lines)
    for line, spans in zip(lines, found, strict=True):
        assert all(0 <= first < last <= len(line) for first, last, _ in spans)
        assert all(one[1] <= other[0] for one, other in pairwise(spans))


def test_a_text_too_long_for_a_kernel_has_none_and_costs_nothing() -> None:
    begin = time.process_time()
    assert spans_of(["x = 1"] * TEXT_LIMIT) == [()] * TEXT_LIMIT
    assert time.process_time() - begin < 1.0


@given(LINES, LINES)
def test_both_sides_hold_the_same_rows_in_the_same_order(old: list[str], new: list[str]) -> None:
    diff = unified("\n".join(old), "\n".join(new))
    pairs = paired(diff)
    left = [row for row, _ in pairs if row is not None and row.kind in ("remove", "same")]
    right = [row for _, row in pairs if row is not None and row.kind in ("add", "same")]
    assert left == [row for row in diff.rows if row.kind in ("remove", "same")]
    assert right == [row for row in diff.rows if row.kind in ("add", "same")]


def test_what_took_a_lines_place_stands_beside_it() -> None:
    diff = unified("same\nold one\nold two\nend", "same\nnew one\nend")
    lines = [line.plain for line in side_lines(diff, "#2 against #1 (parent)", 81)]
    assert lines[0] == "#2 against #1 (parent)  +1 -2"
    assert all(len(line) == 81 for line in lines[1:])
    assert (
        lines[3].split("│")[0].rstrip() == "  2 - old one"
        and lines[3].split("│")[1].rstrip() == "  2 + new one"
    )
    assert lines[4].split("│")[0].rstrip() == "  3 - old two" and lines[4].split("│")[1].strip() == ""
    narrow = [line.plain for line in side_lines(diff, "#2", 40)]
    assert "  2 - old one" in [line.rstrip() for line in narrow], "without room it is unified"


def test_wide_characters_keep_the_sides_apart() -> None:
    diff = unified("x = '東京東京東京東京東京東京東京東京東京東京東京東京'", "x = 'y'")
    for line in side_lines(diff, "#2", 80)[2:]:
        assert line.cell_len == 80


async def test_the_diff_turns_to_two_sides_and_back_and_changes_its_base(
    cockpit: Cockpit, lab: FakeLab
) -> None:
    lab.past(9)
    number = lab.begin()
    lab.gates(number)
    async with cockpit(lab.folder, (200, 50)) as driver:
        await driver.press("2")
        await driver.until(lambda: "(parent)" in driver.text("#diff") or "against" in str(_heading(driver)))
        await driver.press("s")
        await driver.told("side by side")
        pane = driver.screen.query_one(DiffView)
        await driver.until(lambda: any("│" in line.plain for line in pane.lines))
        await driver.press("b")
        await driver.until(lambda: "(champion)" in _heading(driver) or "champion" in _heading(driver))
        await driver.press("b")
        await driver.until(lambda: "(seed)" in _heading(driver) or "seed" in _heading(driver))
        await driver.press("s")
        await driver.told("unified")
        styles = {span.style for line in pane.lines for span in line.spans}
        assert theme.STRING in styles and theme.ACCENT in styles


def _heading(driver: object) -> str:
    pane = driver.screen.query_one(DiffView)  # type: ignore[attr-defined]
    return pane.lines[0].plain if pane.lines else ""


def test_the_seed_of_the_fake_lab_has_keywords() -> None:
    assert any(kind == "keyword" for spans in spans_of(SEED_SOURCE.split("\n")) for _, _, kind in spans)
