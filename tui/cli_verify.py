"""Re-checking what a lab kept, or one receipt: `verify`."""

from __future__ import annotations

import argparse
import asyncio
import secrets
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernel_lab.engine import receipt as receipts
from kernel_lab.engine.errors import LedgerError, UsageError
from kernel_lab.engine.lab import RUNS, read_config, resolve_lab
from kernel_lab.engine.ledger import audit
from kernel_lab.engine.ledger.chain import Fault
from kernel_lab.engine.ledger.store import DATABASE, Ledger
from kernel_lab.engine.tasks import TaskSpec, load_task, shipped_tasks
from kernel_lab.tui import machine, output
from kernel_lab.tui.choices import choose_device
from kernel_lab.tui.sources import recording_named

if TYPE_CHECKING:
    from kernel_lab.engine.judge.rejudge import Rejudged

_SQLITE = b"SQLite format 3\0"


@dataclass(frozen=True, slots=True)
class _Found:
    """What is to be verified: receipts of kept wins, where their tasks lie, and what is wrong if anything."""

    path: Path
    kind: str
    events: int
    fault: Fault | None
    kept: tuple[receipts.Receipt, ...] = ()
    folders: tuple[str, ...] = ()
    """Tasks that a lab of this person names; a receipt may name shipped ones alone."""


def verify(options: argparse.Namespace) -> int:
    """0 if nothing was changed and every keep survives, 1 if not."""
    found = _find(options.lab)
    if found.fault is not None:
        if options.json:
            output.print_json(_answer(found, [], {}, None))
        else:
            print(output.clean(f"{found.path}: BROKEN: {found.fault.text}"))
            print("it proves nothing: restore it from a copy")
        return 1
    if not options.json:
        print(output.clean(f"{found.path}: {found.events} events are as they were written"))
    if not found.kept:
        if options.json:
            output.print_json(_answer(found, [], {}, None))
        else:
            print("nothing was kept, so there is nothing to judge again")
        return 0
    return _rejudge(options, found)


def _find(name: str | None) -> _Found:
    path = Path(name).expanduser() if name is not None else None
    if path is not None and path.is_file():
        with path.open("rb") as stream:
            if stream.read(len(_SQLITE)) != _SQLITE:
                receipt, fault = receipts.read(path)
                count = len(receipt.records) if receipt is not None else 0
                return _Found(path, "receipt", count, fault, (receipt,) if receipt is not None else ())
        return _lab(path, path.parent / RUNS, ())
    try:
        lab = resolve_lab(name)
    except UsageError:
        shipped = recording_named(name) if name is not None else None
        if shipped is None:
            raise
        return _lab(shipped, shipped.parent / RUNS, ())
    return _lab(lab / DATABASE, lab / RUNS, read_config(lab).tasks)


def _lab(database: Path, runs: Path, tasks: tuple[str, ...]) -> _Found:
    try:
        ledger = Ledger.recording(database)
    except LedgerError as damaged:
        return _Found(database, "lab", 0, Fault(None, str(damaged)))
    with closing(ledger):
        copies = {}
        for path in sorted(runs.glob(f"*/{receipts.NAME}")):
            receipt, fault = receipts.read(path)
            name = f"{path.parent.name}/{path.name}"
            if receipt is None:
                text = fault.text if fault is not None else "it cannot be read"
                copy = Fault(fault.seq if fault is not None else None, f"{RUNS}/{name}: {text}")
                return _Found(database, "lab", 0, audit.first_fault(ledger, {}) or copy)
            copies[f"{RUNS}/{name}"] = receipt.records
        fault = audit.first_fault(ledger, copies)
        if fault is not None:
            return _Found(database, "lab", 0, fault)
        kept = tuple(receipts.collect(ledger, row.id) for row in ledger.experiments() if row.status == "keep")
        return _Found(database, "lab", ledger.last_seq(), None, kept, tasks)


def _task(name: str, folders: tuple[str, ...]) -> TaskSpec:
    """The task of a win. What a receipt names is never taken for a path."""
    if name in shipped_tasks():
        return load_task(name)
    for folder in folders:
        if Path(folder).name == name:
            return load_task(folder)
    shown = output.shorten(output.clean(name), 60)
    raise UsageError(f"there is no task {shown!r} here: give the lab's own folder to `verify`")


def _rejudge(options: argparse.Namespace, found: _Found) -> int:
    machine.require_compiler()
    from kernel_lab.engine.judge.rejudge import rejudge, win_of
    from kernel_lab.tui.cli_judge import judges

    wins = [win_of(receipt) for receipt in found.kept]
    tasks = {name: _task(name, found.folders) for name in dict.fromkeys(win.task for win in wins)}
    device = choose_device(options.gpu or wins[0].gpu, options.model or wins[0].model)
    seed = secrets.randbits(62) if options.seed is None else options.seed
    output.note(device.line)

    async def work() -> tuple[list[Rejudged], dict[str, Any]]:
        done = []
        async with judges(list(tasks.values()), device) as by_task:
            environment = await by_task[wins[0].task].device.environment()
            for win in wins:
                result = await rejudge(by_task[win.task], win, seed)
                done.append(result)
                if not options.json:
                    _print(result, win.status)
        return done, environment

    done, environment = asyncio.run(work())
    surviving = sum(result.outcome == "survives" for result in done)
    if options.json:
        output.print_json(_answer(found, done, environment, seed))
    else:
        print(f"{surviving} of {len(done)} keeps survive here (seed {seed})")
    return 0 if surviving == len(done) else 1


def _print(result: Rejudged, status: str) -> None:
    now = result.speed
    gain = (
        f"{output.ratio(now.score.get('champion'), now.kind)} what it had to beat" if now is not None else ""
    )
    recorded = f" (recorded {output.ratio(result.recorded)})" if gain and result.recorded is not None else ""
    why = "; ".join(f"{reason.gate} {reason.probe}: {reason.detail}" for reason in result.reasons[:2])
    later = "" if status == "keep" else f"  now {status}"
    text = f"#{result.experiment} {result.task}  {result.outcome}  {gain}{recorded}{later}  {why}"
    print(output.clean(text).rstrip(), flush=True)


def _answer(
    found: _Found, done: list[Rejudged], environment: dict[str, Any], seed: int | None
) -> dict[str, Any]:
    return {
        "path": found.path,
        "kind": found.kind,
        "intact": found.fault is None,
        "fault": None if found.fault is None else {"event": found.fault.seq, "text": found.fault.text},
        "events": found.events,
        "keeps": [
            {
                "experiment": result.experiment,
                "task": result.task,
                "outcome": result.outcome,
                "reasons": result.reasons,
                "recorded": result.recorded,
                "speed": result.speed,
                "checks": len(result.checks),
            }
            for result in done
        ],
        "seed": seed,
        "environment": environment,
    }
