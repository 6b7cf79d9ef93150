"""A confidence sequence for paired ratios: bounds that hold whenever they are looked at.

Each round of an interleaved measurement gives one number, the log of other / candidate (positive: the
candidate is faster). For a supposed ratio θ count the rounds above it. If the true median were θ or less,
every round would lie above with probability at most 1/2, so a gambler who bets a fixed share λ of the
capital on "above", at even odds, cannot expect to win; the mean capital over several λ is a test martingale,
and by Ville's inequality it reaches 1/α with probability at most α, over all rounds together. The lower
bound is the largest θ that is so refuted. It asks nothing of the noise but that rounds are independent given
the past and do not lean to one side: no variance, no normality, and outliers count as one round each.

Sources: Ville 1939; Waudby-Smith and Ramdas, "Estimating means of bounded random variables by betting",
2023, on betting confidence sequences; Howard and Ramdas, "Sequential estimation of quantiles", 2022.
"""

from __future__ import annotations

import bisect
import functools
import math

BETS = tuple(step / 20 for step in range(1, 20))
"""Shares of the capital that are bet; their mean does well from slight to overwhelming evidence."""


class PairedSequence:
    """Log ratios of one comparison, sorted as they come, with bounds on their median.

    `alpha` is the chance that the lower bound is ever above the truth; `alpha_upper` the same for the upper.
    """

    def __init__(self, alpha: float, alpha_upper: float | None = None) -> None:
        self.alpha = alpha
        self.alpha_upper = alpha if alpha_upper is None else alpha_upper
        self._sorted: list[float] = []
        self._best_low = -math.inf
        self._best_high = math.inf

    def add(self, log_ratio: float) -> None:
        """One more round. NaN counts against the candidate: it must not be lost quietly."""
        bisect.insort(self._sorted, -math.inf if math.isnan(log_ratio) else log_ratio)
        n = len(self._sorted)
        above = rounds_needed(n, self.alpha)
        if above is not None:
            # `above` rounds lie at or above this order statistic: everything below it is refuted.
            self._best_low = max(self._best_low, self._sorted[n - above])
        below = rounds_needed(n, self.alpha_upper)
        if below is not None:
            self._best_high = min(self._best_high, self._sorted[below - 1])

    def __len__(self) -> int:
        return len(self._sorted)

    @property
    def median(self) -> float:
        """Median log ratio; NaN before the first round."""
        n = len(self._sorted)
        if n == 0:
            return math.nan
        middle = self._sorted[n // 2]
        return middle if n % 2 else (middle + self._sorted[n // 2 - 1]) / 2

    @property
    def low(self) -> float:
        """Lower bound of the log ratio, the best of all looks so far; -inf while there is none."""
        return self._best_low

    @property
    def high(self) -> float:
        """Upper bound of the log ratio; inf while there is none."""
        return self._best_high

    def ratio(self) -> float:
        """Median as a ratio."""
        return math.exp(self.median)

    def interval(self) -> tuple[float, float]:
        """Bounds as ratios."""
        return math.exp(self._best_low), math.exp(self._best_high)


@functools.lru_cache(maxsize=4096)
def rounds_needed(n: int, alpha: float) -> int | None:
    """The fewest of `n` rounds that must lie above θ to refute it at `alpha`; None if even all would not."""
    target = -math.log(alpha)
    if log_capital(n, n) < target:
        return None
    low, high = n // 2, n
    while low + 1 < high:
        middle = (low + high) // 2
        low, high = (low, middle) if log_capital(middle, n) >= target else (middle, high)
    return high


def log_capital(above: int, n: int) -> float:
    """Log of the mean capital after `above` of `n` even bets were won, from a capital of 1."""
    logs = [above * math.log1p(bet) + (n - above) * math.log1p(-bet) for bet in BETS]
    top = max(logs)
    return top + math.log(sum(math.exp(one - top) for one in logs) / len(logs))
