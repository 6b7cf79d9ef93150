"""The judge tried against cheats and honest kernels: `selftest`."""

from __future__ import annotations

import argparse
import asyncio
from typing import TYPE_CHECKING

from kernel_lab.engine.errors import UsageError
from kernel_lab.engine.tasks import load_task, shipped_tasks
from kernel_lab.tui import machine, output
from kernel_lab.tui.choices import choose_device
from kernel_lab.tui.cli_judge import judges

if TYPE_CHECKING:
    from kernel_lab.engine.judge.selftest import FileResult, SelftestReport

MARKS = {"caught": "✓", "clean": "✓", "missed": "✗", "alarm": "✗", "error": "✗", "needs_card": "·"}
WORDS = {"needs_card": "needs a card", "alarm": "false alarm"}


def selftest(options: argparse.Namespace) -> int:
    """0 if all is caught and nothing else, 1 if not."""
    tasks = [load_task(name) for name in options.task or shipped_tasks()]
    unknown = [task.name for task in tasks if task.name not in shipped_tasks()]
    if unknown:
        raise UsageError(
            f"there is no battery for {unknown[0]}: give some of {', '.join(shipped_tasks())}, or no --task"
        )
    device = choose_device(options.gpu, None)
    machine.require_compiler()
    output.note(device.line)
    from kernel_lab.engine.judge.selftest import run_battery

    async def work() -> SelftestReport:
        async with judges(tasks, device) as found:
            return await run_battery(
                found.__getitem__,
                quick=options.quick,
                tasks=[task.name for task in tasks],
                on_result=None if options.json else _print_result,
                at_once=1 if device.measured else 2,
            )

    report = asyncio.run(work())
    if options.json:
        output.print_json(report_json(report))
    else:
        _print_summary(report)
    return 0 if report.green else 1


def report_json(report: SelftestReport) -> dict[str, object]:
    """Counts and classes first, then every result."""
    return {
        "line": report.line,
        "green": report.green,
        "caught": report.caught,
        "cheats": report.cheats,
        "alarms": report.alarms,
        "honest": report.honest,
        "need_card": report.need_card,
        "classes": report.classes,
        "disabled": report.disabled,
        "results": report.results,
        "quick": report.quick,
        "key": report.key,
        "environment": report.environment,
        "seconds": report.seconds,
    }


def _print_result(result: FileResult) -> None:
    by = f"{result.gate} {result.probe}".strip()
    text = f"lint {', '.join(result.lint)}" if result.lint and result.gate != "lint" else ""
    caught = "; ".join(part for part in (by, text) if part)
    detail = f"  {result.detail}" if result.outcome in ("missed", "alarm", "error") and result.detail else ""
    word = WORDS.get(result.outcome, result.outcome)
    line = f"{MARKS[result.outcome]} {word:<12} {result.group:<10} {result.id:<32} {caught}{detail}"
    print(output.clean(line).rstrip(), flush=True)


def _print_summary(report: SelftestReport) -> None:
    print()
    for name, green in report.classes.items():
        members = [result for result in report.results if result.group == name]
        good = sum(result.outcome in ("caught", "clean") for result in members)
        print(f"{'green' if green else 'RED':<6} {name:<10} {good}/{len(members)}")
    if report.disabled:
        print(f"switched off: {', '.join(report.disabled)}")
    print(f"{report.line} in {report.seconds:.0f} s")
