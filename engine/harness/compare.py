"""Is an answer right? Its error against a float64 reference, beside a baseline's error in the same dtype.

    whole   relative Frobenius error   <= factor * the baseline's + floor_rel / 4 + floor_abs / rms(reference)
    peak    largest element's error    <= factor * the baseline's + floor_rel * max|reference| + floor_abs
    row     a row's root mean square   <= factor * the worst of the baseline's rows with as many keys
                                          + floor_rel * rms(the reference's row) + floor_abs

A unit in the last place (floor_rel) spreads over the elements of a whole answer, hence its quarter there.
Rows with as many keys are few in a causal case, so that the baseline's worst among them can be lucky; the
next larger and smaller counts are taken in until ROWS_AT_LEAST rows speak. Elements that are not finite
must be the same in the answer and in the reference.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

ROWS_AT_LEAST = 32


@dataclass(frozen=True)
class Tolerance:
    factor: float
    floor_abs: float
    floor_rel: float


@dataclass(frozen=True)
class Comparison:
    ok: bool
    rule: str
    """The rule that is nearest to its limit, or beyond it."""
    error: float
    limit: float
    detail: str


def tolerance_for(table: dict[str, Any], dtype: str) -> Tolerance:
    """The tolerance of a dtype, from one table or from a table by dtype."""
    chosen = table.get(dtype, table)
    return Tolerance(float(chosen["factor"]), float(chosen["floor_abs"]), float(chosen["floor_rel"]))


def compare(
    out: torch.Tensor,
    reference: torch.Tensor,
    baseline: torch.Tensor,
    key_counts: torch.Tensor,
    tolerance: Tolerance,
) -> Comparison:
    """Judge `out` [B, H, S, D] against `reference` (float64), with `baseline`'s errors as the measure.

    `key_counts` [B, S] says how many keys a row sees.
    """
    if out.shape != reference.shape:
        return Comparison(False, "shape", 1.0, 0.0, f"shape {list(out.shape)}, not {list(reference.shape)}")
    expected = reference.to(torch.float64)
    got, base = out.to(torch.float64), baseline.to(torch.float64)
    finite = torch.isfinite(expected)
    strange = (torch.isfinite(got) != finite) | ~finite & ~_same(got, expected)
    if bool(strange.any()):
        where = [int(n) for n in strange.nonzero()[0]]
        count = int(strange.sum())
        text = f"{count} of {out.numel()} elements are {_kind(got[tuple(where)])}, first at {where}"
        return Comparison(False, "finite", float(count), 0.0, text)
    zero = torch.zeros((), dtype=torch.float64, device=expected.device)
    expected = torch.where(finite, expected, zero)
    error = torch.where(finite, got - expected, zero)
    base_error = torch.where(finite & torch.isfinite(base), base.nan_to_num() - expected, zero)
    results = [
        _whole(error, base_error, expected, tolerance),
        _peak(error, base_error, expected, tolerance),
        _rows(error, base_error, expected, key_counts, tolerance),
    ]
    return max(results, key=lambda result: result.error / result.limit if result.limit else result.error)


def _same(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    return (left == right) | (torch.isnan(left) & torch.isnan(right))


def _kind(value: torch.Tensor) -> str:
    number = float(value)
    return "NaN" if number != number else f"{number:.3g}"


def _result(rule: str, error: float, limit: float, text: str) -> Comparison:
    return Comparison(error <= limit, rule, error, limit, f"{text} {error:.3g}, limit {limit:.3g}")


def _rms(values: torch.Tensor) -> torch.Tensor:
    return values.square().mean().sqrt()


def _whole(error: torch.Tensor, base: torch.Tensor, expected: torch.Tensor, t: Tolerance) -> Comparison:
    size = float(_rms(expected))
    if size == 0.0:
        return _result("whole", float(_rms(error)), t.floor_abs, "rms error")
    limit = t.factor * float(_rms(base)) / size + t.floor_rel / 4 + t.floor_abs / size
    return _result("whole", float(_rms(error)) / size, limit, "relative error")


def _peak(error: torch.Tensor, base: torch.Tensor, expected: torch.Tensor, t: Tolerance) -> Comparison:
    limit = t.factor * float(base.abs().max()) + t.floor_rel * float(expected.abs().max()) + t.floor_abs
    return _result("peak", float(error.abs().max()), limit, "largest error")


def _rows(
    error: torch.Tensor, base: torch.Tensor, expected: torch.Tensor, key_counts: torch.Tensor, t: Tolerance
) -> Comparison:
    row_error, row_base, row_size = (x.square().mean(-1).sqrt() for x in (error, base, expected))
    counts = key_counts[:, None, :].expand(row_error.shape)
    allowed = t.factor * worst_of_equals(row_base, counts) + t.floor_rel * row_size + t.floor_abs
    excess = row_error / allowed
    at = int(excess.argmax())
    where = _place(at, row_error.shape)
    keys = int(counts.flatten()[at])
    text = f"row {where} ({keys} keys): rms error"
    return _result("row", float(row_error.flatten()[at]), float(allowed.flatten()[at]), text)


def _place(at: int, shape: Sequence[int]) -> list[int]:
    """Indices of an element by its number. (torch.unravel_index first loads a library for half a second.)"""
    place: list[int] = []
    for size in reversed(shape):
        at, index = divmod(at, size)
        place.insert(0, index)
    return place


def worst_of_equals(values: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
    """For each row the largest of `values` among rows with its count, widened to ROWS_AT_LEAST rows."""
    device, values, counts = values.device, values.cpu(), counts.cpu()
    flat, group = torch.unique(counts.flatten(), return_inverse=True)
    number = len(flat)
    worst = torch.zeros(number, dtype=values.dtype).scatter_reduce(0, group, values.flatten(), "amax")
    size, peaks = torch.bincount(group, minlength=number).tolist(), worst.tolist()
    widened = []
    for at in range(number):
        low = high = at
        rows = size[at]
        while rows < ROWS_AT_LEAST and (low > 0 or high < number - 1):
            if low > 0:
                low -= 1
                rows += size[low]
            if high < number - 1:
                high += 1
                rows += size[high]
        widened.append(max(peaks[low : high + 1]))
    result = torch.tensor(widened, dtype=values.dtype)
    return result[group].reshape(counts.shape).to(device)
