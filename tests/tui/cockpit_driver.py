"""Presses keys in the cockpit and waits for what comes of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any

from kernel_lab.tui.cockpit import LabApp
from textual.pilot import Pilot
from textual.screen import Screen

WAIT_S = 20.0


@dataclass
class Driver:
    """The cockpit under a pilot."""

    app: LabApp
    pilot: Pilot[Any]
    toasts: list[str] = field(default_factory=list)
    """Everything that was told since the cockpit opened."""

    def __post_init__(self) -> None:
        notify = self.app.notify

        def recording(message: str, **settings: Any) -> None:
            assert settings["markup"] is False, "a toast must not read markup"
            self.toasts.append(message)
            notify(message, **settings)

        self.app.notify = recording  # type: ignore[method-assign]

    @property
    def screen(self) -> Screen[Any]:
        return self.app.screen

    @property
    def screen_name(self) -> str:
        return type(self.screen).__name__

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)

    async def until(self, condition: Callable[[], Any], what: str = "") -> None:
        """Wait for something to become true; fail if it does not."""
        deadline = time.monotonic() + WAIT_S
        while not condition():
            if time.monotonic() > deadline:
                raise AssertionError(f"still not so: {what or condition}; toasts: {self.toasts}")
            await self.pilot.pause(0.02)
        await self.pilot.pause()

    async def on(self, screen_name: str) -> None:
        await self.until(lambda: self.screen_name == screen_name, f"on {screen_name}, not {self.screen_name}")

    async def told(self, words: str) -> None:
        await self.until(lambda: any(words in toast for toast in self.toasts), f"a toast with {words!r}")

    def text(self, selector: str) -> str:
        """What a pane says, as `y` would copy it."""
        widget: Any = self.screen.query_one(selector)
        return str(widget.plain())


Cockpit = Callable[..., AbstractAsyncContextManager[Driver]]
