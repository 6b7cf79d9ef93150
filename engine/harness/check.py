"""Job `check`: are a candidate's answers right? In Triton's interpreter, so without a card.

    referee (trusted)   inputs into shared memory, references, comparison
    trial   (confined)  the candidate, one call after the other

While the candidate answers one call, the referee judges the one before. Neither knows the other: the host
carries what passes between them, and the answers lie in shared memory.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import secrets
from typing import Any

import claims
import probes
from children import Child, Failed
from jobs import Answer, Job, expect
from wire import one_line

INTERPRETER_DTYPES = ("fp16",)
"""Triton's interpreter miscomputes bf16: what it cannot run is unproven, never passed."""
PATTERN_BYTES = 8 << 20
"""As in patterns.py, which the host does not load: it has no torch."""
SAMPLE_ROWS = 128
SAMPLE_SECONDS = 240.0
"""A sample ends itself after less time of its own; a machine that others share gives that slowly."""
SEALS = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW


async def check(job: Job) -> Answer:
    request = job.request
    gate = request.get("gate", "correctness")
    asked = [case for case in request["cases"] if not (case.get("shape_only") or case.get("sampled"))]
    cases = [case for case in asked if case["dtype"] in INTERPRETER_DTYPES]
    checks = [_unproven(gate, case) for case in asked if case["dtype"] not in INTERPRETER_DTYPES]
    for one in checks:
        job.progress({"check": one})
    facts: dict[str, Any] = {"checks": checks, "launches": {}, "aten": []}
    if not cases:
        return Answer("ok", "", facts)
    descriptor = os.memfd_create("kernel-lab", os.MFD_CLOEXEC)
    pattern = os.memfd_create("kernel-lab-pattern", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(pattern, PATTERN_BYTES)
    try:
        await _run(job, gate, cases, (descriptor, pattern), facts)
    finally:
        os.close(descriptor)
        os.close(pattern)
    return _answer(job, facts)


def _unproven(gate: str, case: dict[str, Any]) -> dict[str, Any]:
    name = str(case.get("case") or case.get("id"))
    return _plain_check(gate, name, "unproven", f"Triton's interpreter miscomputes {case['dtype']}")


def _plain_check(gate: str, case: str, status: str, detail: str) -> dict[str, Any]:
    return {
        "gate": gate, "case": case, "probe": "compare", "status": status, "detail": detail,
        "error": None, "limit": None, "seconds": 0.0,
    }  # fmt: skip


def _answer(job: Job, facts: dict[str, Any]) -> Answer:
    """A failed probe of the kind `cheat` decides; other failures are for the judge to weigh."""
    for one in facts["checks"]:
        if one["status"] == "fail" and probes.KINDS.get(one["probe"]) == "cheat":
            return Answer("cheat", f"{one['probe']}: {one['detail']}", facts, job.output())
    return Answer("ok", "", facts, job.output())


async def _run(
    job: Job, gate: str, cases: list[dict[str, Any]], descriptors: tuple[int, int], facts: dict[str, Any]
) -> None:
    request = job.request
    referee = await job.trusted(
        "referee",
        descriptors=descriptors,
        task_dir=request["task_dir"],
        gate=gate,
        cases=cases,
        shapes=[case for case in request["cases"] if case.get("shape_only")],
        sampled=[case for case in request["cases"] if case.get("sampled")],
        tolerance=request["tolerance"],
        probes=bool(request.get("probes")),
        seed=int(request.get("seed", secrets.randbits(32))),
    )
    referee.allow("reference", job.seconds("reference"))
    plan = await expect(referee, "plan")
    empty_calls = await expect(referee, "empty_calls")
    samples = await expect(referee, "samples")
    fcntl.fcntl(descriptors[1], fcntl.F_ADD_SEALS, SEALS)
    await referee.send(stage=0)
    await expect(referee, "staged")
    trial = await job.candidate(
        "interpret", "trial", request["source"], descriptors, entry=request["entry"],
        target=request.get("target"),
    )  # fmt: skip
    captured = asyncio.create_task(_capture(job, empty_calls))
    try:
        await _answer_all(job, referee, trial, plan, facts)
        await _sample_all(job, gate, referee, trial, samples, facts)
        shapes = []
        if all(one["status"] != "fail" for one in facts["checks"]):  # who is caught need not be asked
            shapes = [await _shape(job, trial, call) for call in empty_calls if call["shape_only"]]
        changed = await _changed(job, trial)
        elsewhere = await captured
    except Failed as failed:
        if failed.outcome != "unproven":
            raise
        known = {one["case"] for one in facts["checks"]}
        for case in cases:
            name = str(case.get("case") or case.get("id"))
            if name not in known:
                _add(job, facts, _plain_check(gate, name, "unproven", failed.detail))
        return
    finally:
        captured.cancel()
        await asyncio.gather(captured, return_exceptions=True)
    referee.allow("reference", job.seconds("reference"))
    await referee.send(finish=changed, elsewhere=elsewhere, shapes=shapes)
    for one in await expect(referee, "checks"):
        _add(job, facts, one)


async def _capture(job: Job, plans: list[dict[str, Any]]) -> list[Any]:
    """What the candidate launches for these calls in a process without the interpreter and without contents:
    `[kernel, grid, given]` by launch, or why it gave up."""
    target = job.request.get("target")
    if not plans or target is None:
        return []
    child = await job.candidate(
        "compile", "capture", job.request["source"], entry=job.request["entry"], target=target, plans=plans,
        lowers=False,
    )  # fmt: skip
    child.allow("load", job.seconds("load") + job.seconds("case"))
    found: list[Any] = [[] for _ in plans]
    try:
        while "done" not in (message := await _said(child)):
            if "launches" in message and message.get("index") in range(len(plans)):
                launches = claims.launches(message["launches"], {""})
                found[message["index"]] = [[one["kernel"], one["grid"], one["given"]] for one in launches]
    except Failed as failed:
        return [failed.detail for _ in plans]
    return found


def _add(job: Job, facts: dict[str, Any], one: dict[str, Any]) -> None:
    if one["probe"] not in probes.DISABLED:
        facts["checks"].append(one)
        job.progress({"check": one})


async def _answer_all(
    job: Job, referee: Child, trial: Child, plan: list[dict[str, Any]], facts: dict[str, Any]
) -> None:
    """Put every step to the candidate and every answer to the referee."""
    trial.allow("load", job.seconds("load"))
    operations: set[str] = set()
    judging: asyncio.Task[None] | None = None
    while "ready" not in await _said(trial):
        pass

    async def judge(number: int) -> None:
        referee.allow("reference", job.seconds("reference"))
        await referee.send(judge=number)
        _add(job, facts, await expect(referee, "check"))
        referee.idle()

    try:
        for number, step in enumerate(plan):
            trial.allow("case", job.seconds("case"))
            await trial.send(**{key: value for key, value in step.items() if key != "case"})
            report = claims.report((await _said(trial)).get("report"))
            trial.idle()
            operations.update(report["aten"])
            if judging is not None:
                await judging
            more = {"stage": number + 1} if number + 1 < len(plan) else {}
            referee.allow("reference", job.seconds("reference"))
            await referee.send(collect=number, report=report, **more)
            if more:
                await expect(referee, "staged")
            judging = asyncio.create_task(judge(number))
            launches = [{"kernel": kernel, "grid": grid} for kernel, grid in report["launches"]]
            facts["launches"].setdefault(step["case"], launches)
        if judging is not None:
            await judging
    finally:
        if judging is not None:
            judging.cancel()
            await asyncio.gather(judging, return_exceptions=True)
    facts["aten"] = sorted(operations)


async def _sample_all(
    job: Job, gate: str, referee: Child, trial: Child, samples: list[dict[str, Any]], facts: dict[str, Any]
) -> None:
    """A few programs of the real launch of each timed shape, until one is wrong."""
    for number, sample in enumerate(samples):
        if any(one["status"] == "fail" for one in facts["checks"]):
            return
        if "sample" not in sample:
            _add(job, facts, _plain_check(gate, sample["case"], "unproven", sample["why"]))
            continue
        trial.allow("case", max(SAMPLE_SECONDS, job.seconds("case")))
        await trial.send(**{key: value for key, value in sample.items() if key not in ("case", "D")})
        shape = next(iter(sample["sample"].values()))
        report = claims.sample((await _said(trial)).get("report"), shape, SAMPLE_ROWS)
        trial.idle()
        referee.allow("reference", job.seconds("reference"))
        await referee.send(sampled=number, report=report)
        _add(job, facts, await expect(referee, "check"))
        referee.idle()


async def _shape(job: Job, trial: Child, call: dict[str, Any]) -> list[Any] | str:
    """What a call of this shape launches in the interpreter, while no kernel runs, or why it fails."""
    trial.allow("case", job.seconds("case"))
    await trial.send(shape=call["layout"], call=call["call"])
    report = (await _said(trial)).get("report")
    if isinstance(report, dict) and "failed" in report:
        return one_line(report["failed"])
    report = claims.launched(report)
    return [[*one, given] for one, given in zip(report["launches"], report["given"], strict=True)]


async def _changed(job: Job, trial: Child) -> list[str]:
    """End the trial; names of the functions of others that were replaced in it."""
    trial.allow("case", job.seconds("case"))
    await trial.send(stop=True)
    return claims.names((await _said(trial)).get("changed"))


async def _said(trial: Child) -> dict[str, Any]:
    message = await trial.receive()
    if "refused" in message:
        raise claims.refusal(message["refused"])
    return message
