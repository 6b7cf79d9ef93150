"""The engine's process: `python -m kernel_lab.engine LAB` runs one lab until there is a reason to stop.

It owns the lab (a file lock), appends to its ledger and obeys its commands. It needs no terminal: front ends
come and go. Whatever goes wrong leaves one line on standard error, where `engine.log` catches it.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import importlib.metadata
import signal
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from kernel_lab.engine import paths
from kernel_lab.engine.cardguard import CardGuard
from kernel_lab.engine.cardlock import CardLock
from kernel_lab.engine.control import Control
from kernel_lab.engine.errors import LabError
from kernel_lab.engine.events import EngineStarted, EngineStopped
from kernel_lab.engine.hostlink import HostLink
from kernel_lab.engine.judge.measured import MeasuredDevice
from kernel_lab.engine.judge.static import StaticDevice
from kernel_lab.engine.lab import LOG, EngineLock, Lab, bound_log, open_lab
from kernel_lab.engine.loop import Loop
from kernel_lab.engine.profiles import GpuProfile, load_gpu, load_model
from kernel_lab.engine.proposers.base import make_proposer
from kernel_lab.engine.proving import Proving, battery_judges
from kernel_lab.engine.tasks import load_task

LOG_LOOK_S = 60.0


def main(argv: list[str] | None = None) -> int:
    """Run the lab named by the only argument. Returns the exit status."""
    arguments = sys.argv[1:] if argv is None else argv
    if len(arguments) != 1:
        print("usage: python -m kernel_lab.engine LAB (people use `kernel-lab run`)", file=sys.stderr)
        return 2
    try:
        with EngineLock(Path(arguments[0])), contextlib.closing(open_lab(Path(arguments[0]))) as lab:
            asyncio.run(research(lab))
    except LabError as error:
        print(f"kernel-lab: {error}", file=sys.stderr)
        return error.exit_status
    except OSError as error:
        where = error.filename or arguments[0]
        why = (error.strerror or type(error).__name__).lower()
        print(f"kernel-lab: {where} cannot be used ({why}): make room or permit it", file=sys.stderr)
        return 2
    return 0


async def research(lab: Lab) -> EngineStopped:
    """Start the host beside the lab and run the loop."""
    config = lab.config
    gpu, model = load_gpu(config.gpu), load_model(config.model)
    tasks = {task.name: task for task in map(load_task, config.tasks)}
    proposer = make_proposer(config.proposer, lab)
    scratch = lab.path / "runs" / "scratch"
    scratch.mkdir(parents=True, exist_ok=True)
    host = HostLink(config.python or sys.executable, paths.cache_dir() / "host", scratch)
    tidying = asyncio.create_task(_keep_log_short(lab.path / LOG))
    try:
        await host.start()
        device = (MeasuredDevice if config.device == "measured" else StaticDevice)(host, gpu)
        loop = Loop(lab, device, gpu, model, tasks, proposer)
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, loop.control.stop_now.set)
        if isinstance(device, MeasuredDevice):
            loop.guard = await hold_card(device, lab, loop.control)
            if loop.control.ended:
                stopped = EngineStopped("stop", "stopped while another lab measured on the card")
                lab.ledger.append([stopped])
                return stopped
        environment = await device.environment()
        loop.gpu = with_memory_of(gpu, environment)
        lab.ledger.append([EngineStarted(importlib.metadata.version("kernel-lab"), environment)])
        beside = functools.partial(battery_judges, device, model, config.python or sys.executable)
        measured = device.kind == "measured"
        proving = Proving(lab.ledger, environment, beside, alone=measured, stop=loop.control.stop_now)
        try:
            await proving.start()
            return await loop.run()
        finally:
            await proving.close()
    finally:
        tidying.cancel()
        await host.close()


def with_memory_of(gpu: GpuProfile, environment: Mapping[str, Any]) -> GpuProfile:
    """The profile with no more memory than this very card has: what is timed must fit into it."""
    total = (environment.get("card") or {}).get("memory_total_bytes")
    return replace(gpu, memory_bytes=min(gpu.memory_bytes, total)) if isinstance(total, int) else gpu


async def hold_card(device: MeasuredDevice, lab: Lab, control: Control) -> CardGuard:
    """The guard of this machine's card, which this lab now holds; commands are obeyed while it waits."""
    facts = await device.card_facts(False)
    lock = CardLock(str(facts.get("uuid")), f"lab {lab.name}")
    guard = CardGuard(
        device.card_facts, lock, lab.ledger.append, ended=lambda: control.ended, pause=control.pause_itself
    )
    serving = asyncio.create_task(control.serve())
    try:
        await guard.acquire()
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
    return guard


async def _keep_log_short(log: Path) -> None:
    while True:
        bound_log(log)
        await asyncio.sleep(LOG_LOOK_S)


if __name__ == "__main__":
    sys.exit(main())
