"""The rule that calls an answer right: whole, peak and rows against a baseline's own error."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
sys.path.append(str(Path(__file__).parents[2] / "engine" / "harness"))

import compare  # noqa: E402 (the harness imports its modules by name from its own folder)
from compare import Tolerance  # noqa: E402

SHAPE = (2, 4, 32, 64)
TOLERANCE = Tolerance(factor=2.0, floor_abs=0.0, floor_rel=0.0)


def reference() -> torch.Tensor:
    return torch.randn(SHAPE, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def noise(size: float, seed: int) -> torch.Tensor:
    return size * torch.randn(SHAPE, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def counts(value: int = 9) -> torch.Tensor:
    return torch.full((SHAPE[0], SHAPE[2]), value)


def judge(out: torch.Tensor, tolerance: Tolerance = TOLERANCE) -> compare.Comparison:
    right = reference()
    return compare.compare(out, right, right + noise(1e-3, 2), counts(), tolerance)


def test_an_answer_as_exact_as_the_baseline_passes() -> None:
    found = judge(reference() + noise(1e-3, 3))
    assert found.ok
    assert found.error <= found.limit


def test_an_error_of_three_times_the_baseline_fails() -> None:
    found = judge(reference() + noise(3e-3, 3))
    assert not found.ok
    assert found.error > found.limit > 0


def test_one_bad_row_fails_though_the_whole_is_exact() -> None:
    out = reference()
    out[1, 2, 5] += 8e-3
    found = judge(out)
    assert (found.ok, found.rule) == (False, "row")
    assert "[1, 2, 5] (9 keys)" in found.detail


def test_one_bad_element_fails() -> None:
    out = reference()
    out[0, 0, 0, 0] += 9e-3
    found = judge(out)
    assert (found.ok, found.rule) == (False, "peak")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_an_element_that_is_not_finite_fails_and_is_named(value: float) -> None:
    out = reference()
    out[1, 3, 31, 63] = value
    found = judge(out)
    assert (found.ok, found.rule) == (False, "finite")
    assert "1 of 16384" in found.detail and "[1, 3, 31, 63]" in found.detail


def test_elements_that_are_not_finite_must_be_those_of_the_reference() -> None:
    right = reference()
    right[0, 0, 0, 0], right[0, 0, 0, 1], right[0, 0, 0, 2] = float("inf"), float("-inf"), float("nan")
    same = compare.compare(right.clone(), right, right.clone(), counts(), TOLERANCE)
    assert same.ok
    flipped = right.clone()
    flipped[0, 0, 0, 0] = float("-inf")
    assert not compare.compare(flipped, right, right.clone(), counts(), TOLERANCE).ok


def test_rows_without_keys_are_zeros() -> None:
    right = torch.zeros(SHAPE, dtype=torch.float64)
    floor = Tolerance(2.0, 1e-5, 1e-3)
    exact = compare.compare(right, right, right, counts(0), floor)
    assert exact.ok
    out = right.clone()
    out[0, 0, 0] = 1e-3
    assert not compare.compare(out, right, right, counts(0), floor).ok


def test_another_shape_fails() -> None:
    found = compare.compare(reference()[:, :, 1:], reference(), reference(), counts(), TOLERANCE)
    assert (found.ok, found.rule) == (False, "shape")


def test_floors_grow_with_the_reference() -> None:
    """One unit in the last place is allowed of a large value, where the baseline happens to be exact."""
    right = 1000.0 * reference()
    out = right * (1 + 0.9e-3)
    floor = Tolerance(2.0, 2e-5, 1e-3)
    assert not compare.compare(out, right, right, counts(), TOLERANCE).ok
    found = compare.compare(right * (1 + 0.2e-3), right, right, counts(), floor)
    assert found.ok


def test_few_rows_of_one_count_borrow_from_their_neighbours() -> None:
    values = torch.arange(64, dtype=torch.float64)
    each_its_own = torch.arange(64)
    worst = compare.worst_of_equals(values, each_its_own)
    assert worst[0] >= compare.ROWS_AT_LEAST // 2
    assert worst[63] == 63
    together = compare.worst_of_equals(values, torch.zeros(64, dtype=torch.int64))
    assert together.tolist() == [63.0] * 64


def test_many_rows_of_one_count_stand_for_themselves() -> None:
    values = torch.cat([torch.full((40,), 1.0), torch.full((40,), 5.0)]).double()
    groups = torch.cat([torch.full((40,), 10), torch.full((40,), 11)])
    assert compare.worst_of_equals(values, groups)[:40].tolist() == [1.0] * 40


def test_the_tolerance_of_a_dtype_is_found() -> None:
    fp16 = {"factor": 2.0, "floor_abs": 1e-5, "floor_rel": 1e-3}
    bf16 = {"factor": 2.0, "floor_abs": 1e-4, "floor_rel": 8e-3}
    assert compare.tolerance_for({"fp16": fp16, "bf16": bf16}, "bf16").floor_rel == 8e-3
    assert compare.tolerance_for(fp16, "fp16").floor_abs == 1e-5
