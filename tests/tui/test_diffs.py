"""Diffs are right, numbered, cleaned and bounded."""

from __future__ import annotations

import difflib
import time

from hypothesis import given
from hypothesis import strategies as st
from kernel_lab.tui.diffs import MAX_ROWS, unified, whole
from kernel_lab.tui.widgets.diff import diff_lines

LINES = st.lists(st.sampled_from(["a", "b", "c", "dd", "", "x = 1"]), max_size=30)


@given(LINES, LINES)
def test_the_diff_says_what_difflib_says(old: list[str], new: list[str]) -> None:
    diff = unified("\n".join(old), "\n".join(new))
    before, after = "\n".join(old).split("\n"), "\n".join(new).split("\n")
    expected = list(difflib.unified_diff(before, after, lineterm="", n=3))[2:]
    signs = {"add": "+", "remove": "-", "same": " "}
    got = [signs[row.kind] + row.text for row in diff.rows if row.kind in signs]
    assert got == [line for line in expected if not line.startswith("@@")]
    assert diff.added == sum(line.startswith("+") for line in expected)
    assert diff.removed == sum(line.startswith("-") for line in expected)


@given(LINES, LINES)
def test_line_numbers_point_at_the_lines(old: list[str], new: list[str]) -> None:
    before, after = "\n".join(old).split("\n"), "\n".join(new).split("\n")
    for row in unified("\n".join(old), "\n".join(new)).rows:
        if row.old is not None:
            assert before[row.old - 1] == row.text
        if row.new is not None:
            assert after[row.new - 1] == row.text


def test_hostile_sources_are_compared_in_bounded_time_and_shown_clean() -> None:
    old = "\n".join(f"line {n % 7} [/b] \x1b[2J" for n in range(200_000))
    new = "\n".join(f"line {n % 5} \u202e" for n in range(200_000))
    begin = time.process_time()
    diff = unified(old, new)
    assert time.process_time() - begin < 5.0
    assert len(diff.rows) <= MAX_ROWS + 1
    assert all(row.text.isprintable() for row in diff.rows)


def test_a_candidate_without_a_parent_is_shown_whole() -> None:
    diff = whole("a\nb")
    assert [(row.kind, row.text, row.new) for row in diff.rows] == [("same", "a", 1), ("same", "b", 2)]
    assert diff.same


def test_the_pane_tells_sides_apart_without_colour() -> None:
    lines = [line.plain for line in diff_lines(unified("a\nb\n", "a\nc\n"), "#2 against #1 (parent)", 40)]
    assert lines[0].startswith("#2 against #1 (parent)  +1 -1")
    assert any(line.startswith("  2 - b") for line in lines)
    assert any(line.startswith("  2 + c") for line in lines)
