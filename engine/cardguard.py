"""Looking after the card of a lab that measures: one lab at a time, no other program beside it, and well.

    another lab measures on it        wait, and say who; nothing is lost
    another program computes on it    wait until it is gone: its work would be in every time
    the card is not well              pause; a person goes on when it is mended

The card's facts come from the host (NVML); nothing here touches it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from kernel_lab.engine.cardlock import CardLock
from kernel_lab.engine.errors import CardBusy, EnvironmentProblem
from kernel_lab.engine.events import Event, Notice, Paused

POLL_S = 2.0
OTHERS_SHOWN = 5

CardFacts = Callable[[bool], Awaitable[dict[str, Any]]]
"""The host's facts about the card; asked with True it also tries whether a new process can compute on it."""
Tell = Callable[[Sequence[Event]], Any]


class CardGuard:
    """Stands before every use of one card. `tell` records events, `ended` says that nobody waits any more."""

    def __init__(
        self,
        facts: CardFacts,
        lock: CardLock,
        tell: Tell,
        *,
        ended: Callable[[], bool] = lambda: False,
        pause: Callable[[], None] = lambda: None,
        poll_s: float = POLL_S,
    ) -> None:
        self._facts = facts
        self._lock = lock
        self._tell = tell
        self._ended = ended
        self._pause = pause
        self._poll_s = poll_s

    async def acquire(self) -> None:
        """Hold the card's lock; while another lab has it, say so once and wait. Returns early if `ended`."""
        said = ""
        while not self._ended():
            try:
                self._lock.acquire()
            except CardBusy as busy:
                if str(busy) != said:
                    said = str(busy)
                    self._tell([Notice("warning", f"{said}; this lab waits until it is free")])
                await asyncio.sleep(self._poll_s)
                continue
            if said:
                self._tell([Notice("info", "the card is free: this lab goes on")])
            return

    async def ready(self) -> bool:
        """Whether the card can be used now: waits for other programs; False where it is not well.

        A card that is not well, or that does not answer any more, pauses the lab with the reason.
        """
        said: list[int] = []
        while not self._ended():
            try:
                facts = await self._facts(False)
            except EnvironmentProblem as problem:
                return self._unwell(str(problem))
            others = sorted(int(pid) for pid in facts.get("other_processes") or ())
            if not others:
                break
            if others != said:
                said = others
                self._tell(
                    [Notice("warning", f"{_programs(others)} on the card: this lab waits for its end")]
                )
            await asyncio.sleep(self._poll_s)
        if said and not self._ended():
            self._tell([Notice("info", "the card is free: this lab goes on")])
        return True

    async def well(self) -> bool:
        """After a bad end: whether a new process can compute on the card; else the lab is paused."""
        try:
            facts = await self._facts(True)
        except EnvironmentProblem as problem:
            return self._unwell(str(problem))
        return (
            True
            if facts.get("healthy", True)
            else self._unwell(str(facts.get("why") or "it does not answer"))
        )

    def _unwell(self, why: str) -> bool:
        self._pause()
        text = " ".join(why.split())[:300]
        self._tell([Paused("loop", f"the card is not well ({text}): mend it, then `kernel-lab resume`")])
        return False

    def release(self) -> None:
        self._lock.release()


def _programs(pids: Sequence[int]) -> str:
    shown = ", ".join(map(str, pids[:OTHERS_SHOWN])) + ("" if len(pids) <= OTHERS_SHOWN else ", …")
    return f"process {shown} computes" if len(pids) == 1 else f"processes {shown} compute"
