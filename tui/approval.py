"""When a key may count as a yes: never right after a question appeared, never while somebody types."""

from __future__ import annotations

import time
from collections.abc import Callable

APPEARED_S = 0.5
"""A question must have been in sight this long."""

TYPED_S = 1.0
"""This long after the last key in a text box, a letter may still be meant for it."""


class ApprovalGuard:
    """Remembers since when each question is in sight, and when somebody last typed."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: tuple[object, float] = (None, 0.0)
        self._typed_at = float("-inf")

    def in_sight(self, question: object | None) -> None:
        """Say which question is shown; the same one again changes nothing."""
        if question != self._seen[0]:
            self._seen = (question, self._clock())

    def typed(self) -> None:
        """Somebody typed into a text box."""
        self._typed_at = self._clock()

    def refuses(self, question: object) -> str | None:
        """Why a yes to `question` is not taken now; None if it is."""
        now = self._clock()
        if now - self._typed_at < TYPED_S:
            return "you were typing: press it again if you mean it"
        if self._seen[0] != question or now - self._seen[1] < APPEARED_S:
            return "it appeared just now: look at it, then press again"
        return None
