"""Labs with a made-up past for the screens, and a driver that presses keys in the cockpit."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from cockpit_driver import Cockpit, Driver
from fake_lab import FakeEngine, FakeLab
from kernel_lab.engine.commands import Command
from kernel_lab.tui.cockpit import LabApp
from kernel_lab.tui.sources import LabSource, ReplaySource


@pytest.fixture
def cockpit(own_world: Path, monkeypatch: pytest.MonkeyPatch) -> Cockpit:
    """Opens the cockpit on a lab's folder, a recording, or the list of labs, and waits until it is read."""
    # A test must not fail because the machine is busy.
    monkeypatch.setattr("kernel_lab.tui.lab_session.ANSWER_S", 15.0)

    @asynccontextmanager
    async def opened(
        path: Path | None = None,
        size: tuple[int, int] = (120, 30),
        *,
        replay: bool = False,
        wait: bool = True,
    ) -> AsyncIterator[Driver]:
        source: LabSource | ReplaySource | None = None
        if path is not None:
            source = ReplaySource(path, speed=100_000.0) if replay else LabSource(path)
        app = LabApp(source)
        async with app.run_test(size=size) as pilot:
            driver = Driver(app, pilot)
            if path is not None and wait:
                await driver.until(lambda: getattr(driver.screen, "session", None), "a Live screen")
                screen: Any = driver.screen
                await driver.until(lambda: screen.session.model.view is not None, "the lab was read")
            elif path is None:
                await driver.on("LabsScreen")
            yield driver
        # Work that failed in the background would let a test pass.
        assert app._exception is None
        assert not [toast for toast in driver.toasts if "unexpected" in toast or "ended (" in toast]
        await asyncio.sleep(0)

    return opened


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[FakeLab]:
    """A lab with two seeds and no engine."""
    made = FakeLab(tmp_path / "lab")
    made.seeds()
    yield made
    made.close()


@pytest.fixture
def engine(lab: FakeLab) -> Iterator[FakeEngine]:
    """The lab's engine, which obeys commands and judges nothing."""
    with FakeEngine(lab) as running:
        yield running


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[Command]:
    """Every command that the cockpit sends, in order."""
    from kernel_lab.engine import session

    commands: list[Command] = []
    send = session.send

    def recording(lab_dir: Path, command: Command, by: str) -> int:
        commands.append(command)
        return send(lab_dir, command, by)

    monkeypatch.setattr(session, "send", recording)
    return commands
