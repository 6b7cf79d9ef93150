"""The judge proves itself before what it keeps counts: the quick battery, once for each environment.

Without a card it runs beside the first experiment, at a lower priority and with a host of its own, so that
nothing waits for it; on a card it runs first, alone, since it would disturb what is timed. Until it has
passed, and while a class of cheats is red or a guard is switched off, wins are kept provisionally.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from kernel_lab.engine import paths
from kernel_lab.engine.errors import LabError
from kernel_lab.engine.events import Notice, SelftestJudged
from kernel_lab.engine.hostlink import HostLink
from kernel_lab.engine.judge.judge import Judge
from kernel_lab.engine.judge.lint_rules import disabled_guards
from kernel_lab.engine.judge.selftest import SelftestReport, remembered, run_battery
from kernel_lab.engine.judge.static import StaticDevice
from kernel_lab.engine.ledger.store import Ledger
from kernel_lab.engine.profiles import ModelProfile
from kernel_lab.engine.tasks import load_task, shipped_tasks, workload_matrix

SWITCH = "KERNEL_LAB_SELFTEST"
"""Set to `off`, nothing is tried, and what is kept stays provisional."""
NICENESS = 5
"""Enough that the experiment comes first, and not so much that deadlines pass on a busy machine."""

Judges = Mapping[str, Judge]
JudgesOf = Callable[[], AbstractAsyncContextManager[Judges]]


def verdict_of(report: SelftestReport) -> SelftestJudged:
    """What a report says of the judge. A guard that is switched off makes it red, whatever was caught."""
    red = tuple(name for name, green in report.classes.items() if not green)
    bad = ("missed", "alarm", "error")
    return SelftestJudged(
        state="green" if not red and not report.disabled else "red",
        line=report.line,
        red=red,
        disabled=report.disabled,
        quick=report.quick,
        missed=tuple(result.id for result in report.results if result.outcome in bad),
        seconds=round(report.seconds, 1),
    )


class Proving:
    """Tries the judge of one lab and records how it did. `start` returns at once unless `alone`.

    A green result is remembered for its environment; any other is tried for again by the next engine.
    """

    def __init__(
        self,
        ledger: Ledger,
        environment: dict[str, Any],
        judges_of: JudgesOf,
        *,
        alone: bool,
        stop: asyncio.Event,
    ) -> None:
        """`alone`: nothing else runs meanwhile, so `start` waits for its end, or for `stop`."""
        self.stop = stop
        self.ledger = ledger
        self.environment = environment
        self.judges_of = judges_of
        self.alone = alone
        self._running: asyncio.Task[None] | None = None

    async def start(self) -> None:
        known = remembered(self.environment, quick=True)
        if known is not None and verdict_of(known).state == "green":
            self.ledger.append([verdict_of(known)])
            return
        off = os.environ.get(SWITCH, "").lower() in ("off", "0", "no")
        disabled = tuple(sorted(disabled_guards()))
        self.ledger.append([SelftestJudged("off" if off else "running", "", (), disabled, True)])
        if off:
            return
        self._running = asyncio.create_task(self._try())
        if self.alone:
            ending = asyncio.create_task(self.stop.wait())
            await asyncio.wait({self._running, ending}, return_when=asyncio.FIRST_COMPLETED)
            ending.cancel()

    async def _try(self) -> None:
        """A selftest that cannot be carried out is told, and leaves the lab as it was: provisional."""
        try:
            async with self.judges_of() as judges:
                report = await run_battery(judges.__getitem__, quick=True, at_once=1)
                if verdict_of(report).red and not report.disabled:
                    # A busy machine can let a deadline pass: what is wrong twice is wrong.
                    report = await run_battery(judges.__getitem__, quick=True, at_once=1, seed=1)
            self.ledger.append([verdict_of(report)])
        except asyncio.CancelledError:
            raise
        except (LabError, OSError, ExceptionGroup) as error:
            why = " ".join(str(error).split())[:300]
            text = f"the judge could not be tried ({why}), wins stay provisional: see `kernel-lab selftest`"
            self.ledger.append([Notice("warning", text)])

    async def close(self) -> None:
        """End what still runs; the next engine tries again."""
        if self._running is not None:
            self._running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._running


@contextlib.asynccontextmanager
async def battery_judges(device: StaticDevice, model: ModelProfile, python: str) -> AsyncIterator[Judges]:
    """Judges of every shipped task: on the card `device` itself, else a twin with a host of less priority."""
    if device.kind == "measured":
        yield _judges(device, model)
        return
    with tempfile.TemporaryDirectory(prefix="kernel-lab-", ignore_cleanup_errors=True) as scratch:
        host = HostLink(python, paths.cache_dir() / "host", Path(scratch), niceness=NICENESS)
        try:
            yield _judges(StaticDevice(host, device.gpu), model)
        finally:
            await host.close()


def _judges(device: StaticDevice, model: ModelProfile) -> dict[str, Judge]:
    tasks = [load_task(name) for name in shipped_tasks()]
    return {task.name: Judge(device, task, workload_matrix(task, model, device.gpu)[0]) for task in tasks}
