"""Judging one file without a lab: `check` puts it through every gate, `bench` shows its speed."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernel_lab.engine.candidate import parse, read_candidate_file
from kernel_lab.engine.errors import CandidateInvalid, EnvironmentProblem, UsageError
from kernel_lab.engine.facts import Check, Launch, Reason, Speed
from kernel_lab.engine.tasks import TaskSpec, load_task, shipped_tasks, workload_matrix
from kernel_lab.tui import machine, output
from kernel_lab.tui.choices import Device, choose_device
from kernel_lab.tui.cli_show import print_launches, print_speed
from kernel_lab.tui.entries import task_of

if TYPE_CHECKING:
    from kernel_lab.engine.judge.judge import Judge

MARKS = {"pass": "✓", "fail": "✗", "unproven": "?"}


def check(options: argparse.Namespace) -> int:
    """0 if every gate but speed passes, 1 if the candidate is turned down or held."""
    if options.task is not None:
        load_task(options.task)
    device = choose_device(options.gpu, options.model)
    source = read_candidate_file(Path(options.file))
    try:
        task = _task(options, source)
        parse(source, task.entry)
    except CandidateInvalid as error:
        reason = Reason("scope", "candidate", str(error))
        return _answer(options, "invalid", (reason,), (), (), None, {"device": device.words})
    machine.require_compiler()
    output.note(device.line)
    from kernel_lab.engine.judge.judge import CheckReport, check_candidate

    async def work() -> CheckReport:
        async with _judge(task, device) as judge:
            return await check_candidate(judge, source, options.seed, None if options.json else _print_check)

    report = asyncio.run(work())
    return _answer(
        options,
        report.verdict,
        report.reasons,
        report.checks,
        report.launches,
        report.speed,
        report.environment,
    )


def bench(options: argparse.Namespace) -> int:
    """The speed of a candidate against FA2 and the seed; 1 if it does not compile for the device."""
    if options.task is None and options.file is None:
        raise UsageError(f"bench what? name a file, or an operator: --task {' or '.join(shipped_tasks())}")
    seed = None if options.task is None else load_task(options.task).seed_source
    device = choose_device(options.gpu, options.model)
    source = read_candidate_file(Path(options.file)) if options.file else seed or ""
    try:
        task = _task(options, source)
        parse(source, task.entry)
    except CandidateInvalid as error:
        reason = Reason("scope", "candidate", str(error))
        return _answer(options, "invalid", (reason,), (), (), None, {"device": device.words})
    machine.require_compiler()
    output.note(device.line)
    from kernel_lab.engine.judge.judge import GateResult, bench_candidate
    from kernel_lab.engine.judge.static import Screening

    async def work() -> tuple[GateResult, Speed | None, Screening, dict[str, Any]]:
        async with _judge(task, device) as judge:
            gate, speed, screening = await bench_candidate(judge, source)
            return gate, speed, screening, await judge.device.environment()

    gate, speed, screening, environment = asyncio.run(work())
    if gate.status is None:
        verdict = f"compiles for {device.gpu.title}; values were not checked"
        verdict += f": `kernel-lab check {options.file}` does" if options.file else ""
    else:
        verdict = f"verdict: {gate.status}"
    return _answer(
        options,
        gate.status or "pass",
        gate.reasons,
        (),
        screening.launches,
        speed,
        environment,
        verdict,
    )


def _task(options: argparse.Namespace, source: str) -> TaskSpec:
    """The task that the file is for; said where `--task` did not tell."""
    task = task_of(source, options.task)
    if options.task is None:
        output.note(f"task {task.name}, by the file's function `{task.entry}`")
    return task


@contextlib.asynccontextmanager
async def _judge(task: TaskSpec, device: Device) -> AsyncIterator[Judge]:
    """A judge with a host of its own, which ends with it."""
    async with judges([task], device) as found:
        yield found[task.name]


@contextlib.asynccontextmanager
async def judges(tasks: Sequence[TaskSpec], device: Device) -> AsyncIterator[dict[str, Judge]]:
    """A judge for each task by its name, all with one host, which ends with them."""
    from kernel_lab.engine import paths
    from kernel_lab.engine.cardlock import CardLock
    from kernel_lab.engine.hostlink import HostLink
    from kernel_lab.engine.judge.judge import Judge
    from kernel_lab.engine.judge.measured import MeasuredDevice
    from kernel_lab.engine.judge.static import StaticDevice

    workloads = {}
    for task in tasks:
        workloads[task.name], left_out = workload_matrix(task, device.model, device.gpu)
        for line in left_out:
            output.note(f"left out: {line}")
    with tempfile.TemporaryDirectory(prefix="kernel-lab-") as scratch:
        host = HostLink(sys.executable, paths.cache_dir() / "host", Path(scratch))
        try:
            await host.start()
            beside = (MeasuredDevice if device.measured else StaticDevice)(host, device.gpu)
            found = {task.name: Judge(beside, task, workloads[task.name]) for task in tasks}
            if not isinstance(beside, MeasuredDevice):
                yield found
                return
            card = await beside.card_facts(False)
            with CardLock(str(card.get("uuid")), "another kernel-lab command"):
                yield found
        finally:
            await host.close()


def _print_check(done: Check) -> None:
    numbers = f"error {done.error:.2e} of {done.limit:.2e}" if done.error is not None and done.limit else ""
    detail = done.detail if done.status != "pass" or not numbers else ""
    text = f"{MARKS[done.status]} {done.gate:<12} {done.case:<30} {done.probe:<19} {numbers} {detail}"
    print(output.clean(text).rstrip(), flush=True)


def _answer(
    options: argparse.Namespace,
    verdict: str,
    reasons: tuple[Reason, ...],
    checks: tuple[Check, ...],
    launches: tuple[Launch, ...],
    speed: Speed | None,
    environment: dict[str, Any],
    last: str | None = None,
) -> int:
    """Print the answer, for people with `last` as the last line, and return the exit status."""
    if verdict == "error":
        why = reasons[0].detail if reasons else "the host gave no answer"
        raise EnvironmentProblem(
            f"nothing could be judged ({why}): `kernel-lab doctor` says what is wrong here"
        )
    if options.json:
        output.print_json(
            {
                "verdict": verdict,
                "reasons": reasons,
                "checks": checks,
                "launches": launches,
                "speed": None if speed is None else speed_json(speed),
                "environment": environment,
            }
        )
    else:
        print_launches(launches)
        if speed is not None:
            print()
            print_speed(speed)
        for reason in reasons:
            print(output.clean(f"{reason.gate} {reason.probe}: {reason.detail}"))
        unproven = sum(1 for done in checks if done.status == "unproven")
        rest = f" ({unproven} checks could not run here and prove nothing)" if unproven else ""
        print(output.clean(f"{last or f'verdict: {verdict}'}{rest}"))
    return 0 if verdict == "pass" else 1


def speed_json(speed: Speed) -> dict[str, Any]:
    """The contract's shape: by baseline the score, its interval and every workload's ratio."""
    return {
        "kind": speed.kind,
        "vs": {
            other: {
                "score": score,
                "ci": speed.ci.get(other),
                "per_shape": {
                    workload.workload: {
                        "score": workload.vs[other],
                        "ci": workload.ci.get(other),
                        "time_us": workload.time_us,
                        "rate": workload.rate,
                        "rate_unit": workload.rate_unit,
                        "roof_percent": workload.roof_percent,
                        "bound": workload.bound,
                    }
                    for workload in speed.per_workload
                    if other in workload.vs
                },
            }
            for other, score in speed.score.items()
        },
    }
