"""The confidence sequence keeps its promise at every look, and finds gains that are there."""

from __future__ import annotations

import math
import random

import pytest
from kernel_lab.engine.judge.statistics import PairedSequence, log_capital, rounds_needed

ALPHA = 0.001


def heavy_tailed(rng: random.Random, spread: float) -> float:
    """Noise of a shared machine: mostly narrow, one round in ten five times as wide."""
    return rng.gauss(0.0, spread * (5.0 if rng.random() < 0.1 else 1.0))


def first_refuted(
    rng: random.Random, gain: float, threshold: float, rounds: int, spread: float
) -> int | None:
    sequence = PairedSequence(ALPHA)
    for n in range(1, rounds + 1):
        sequence.add(math.log1p(gain) + heavy_tailed(rng, spread))
        if sequence.low > math.log1p(threshold):
            return n
    return None


def test_the_expected_capital_of_a_fair_game_is_one() -> None:
    for n in (1, 7, 40):
        total = sum(math.comb(n, s) * math.exp(log_capital(s, n)) for s in range(n + 1)) / 2**n
        assert total == pytest.approx(1.0)


def test_a_handful_of_rounds_can_never_refute_at_a_thousandth() -> None:
    assert rounds_needed(9, ALPHA) is None
    fewest = next(n for n in range(1, 30) if rounds_needed(n, ALPHA) is not None)
    assert fewest == 13
    assert rounds_needed(100, ALPHA) == 71


def test_equal_kernels_are_kept_at_most_once_in_a_thousand_however_often_it_is_looked() -> None:
    rng = random.Random(7)
    tries = 3000
    false_keeps = sum(first_refuted(rng, 0.0, 0.0, 200, 0.02) is not None for _ in range(tries))
    assert false_keeps <= tries * ALPHA * 2  # no threshold at all, 200 looks each


@pytest.mark.parametrize(("gain", "share"), [(0.015, 0.8), (0.03, 0.95)])
def test_planted_gains_are_found(gain: float, share: float) -> None:
    rng = random.Random(11)
    found = [first_refuted(rng, gain, 0.005, 120, 0.015) for _ in range(100)]
    assert sum(n is not None for n in found) >= 100 * share


def test_the_interval_covers_the_truth_and_narrows() -> None:
    rng = random.Random(3)
    sequence = PairedSequence(ALPHA)
    widths = []
    for n in range(1, 401):
        sequence.add(math.log(1.10) + heavy_tailed(rng, 0.01))
        low, high = sequence.interval()
        assert low <= 1.10 <= high
        if n in (50, 400):
            widths.append(high - low)
    assert widths[1] < widths[0] / 1.5
    assert sequence.ratio() == pytest.approx(1.10, abs=0.003)


def test_a_lost_round_counts_against_the_candidate() -> None:
    sequence = PairedSequence(ALPHA)
    for _ in range(12):
        sequence.add(0.1)
    sequence.add(math.nan)
    assert sequence.low == -math.inf
    assert sequence.median == 0.1


def test_an_outlier_moves_nothing() -> None:
    calm, wild = PairedSequence(ALPHA), PairedSequence(ALPHA)
    for n in range(60):
        calm.add(0.02 + n * 1e-5)
        wild.add(50.0 if n == 30 else 0.02 + n * 1e-5)
    assert wild.low == pytest.approx(calm.low, abs=2e-5)
