"""Job `check` on a card: are a candidate's answers right there, and honestly come by?

    referee (trusted)   inputs through shared memory, references, comparison; a context of its own
    trial   (confined)  the candidate, one call after the other; a context of its own

As in check.py, the referee judges one answer while the candidate gives the next.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from typing import Any

import cardjobs
import cardprobes
import claims
import keeper
import probes
from cardjobs import Access, said, seconds
from check import check
from children import Child, Failed
from jobs import Answer, Job, expect


async def checked(job: Job) -> Answer:
    """The job `check`, on the device that the request names."""
    if job.request.get("device") != "cuda":
        return await check(job)
    card = cardjobs.access(job.request)
    return await cardjobs.guarded(job, card, lambda: _on_card(job, card))


async def _on_card(job: Job, card: Access) -> Answer:
    descriptor = os.memfd_create("kernel-lab", os.MFD_CLOEXEC)
    facts: dict[str, Any] = {"checks": [], "launches": {}, "aten": [], "seconds": {}}
    try:
        await _run(job, card, descriptor, facts)
    except Failed as failed:
        failed.facts = facts
        raise
    finally:
        os.close(descriptor)
    for one in facts["checks"]:
        if one["status"] == "fail" and cardprobes.KINDS.get(one["probe"]) == "cheat":
            return Answer("cheat", f"{one['probe']}: {one['detail']}", facts, job.output())
    return Answer("ok", "", facts, job.output())


async def _run(job: Job, card: Access, descriptor: int, facts: dict[str, Any]) -> None:
    request = job.request
    started = time.monotonic()
    referee = await job.trusted_on_card(
        "cardreferee",
        (descriptor,),
        task_dir=request["task_dir"],
        gate=request.get("gate", "correctness"),
        cases=request["cases"],
        tolerance=request["tolerance"],
        probes=bool(request.get("probes")),
        seed=int(request.get("seed", secrets.randbits(32))),
        environment=card.environment,
    )
    referee.allow("reference", seconds(job, "context") + seconds(job, "reference"))
    plan = await expect(referee, "plan")
    await referee.send(stage=0)
    await expect(referee, "staged")
    referee.idle()
    by_case = {step["case"]: {"layout": step["layout"], "call": step["call"]} for step in plan}
    shapes = list(by_case.values())
    trial, kernels = await cardjobs.start_candidate(job, card, request["source"], (descriptor,), shapes)
    facts["seconds"]["start"] = round(time.monotonic() - started, 3)
    facts["seconds"]["compile"] = round(await cardjobs.warm_and_lock(job, trial, kernels, shapes), 3)
    started = time.monotonic()
    changed = await _answer_all(job, referee, trial, plan, facts)
    left = keeper.descendants(trial.keeper_pid)
    referee.allow("reference", seconds(job, "reference"))
    await referee.send(finish=changed)
    for one in await expect(referee, "checks"):
        _add(job, facts, one)
    if len(left) > 2:
        text = f"{len(left) - 2} processes were left running"
        _add(job, facts, cardprobes.one_check("integrity", "process_census", [text], 1))
    facts["seconds"]["calls"] = round(time.monotonic() - started, 3)


def _add(job: Job, facts: dict[str, Any], one: dict[str, Any]) -> None:
    if one["probe"] not in probes.DISABLED:
        facts["checks"].append(one)
        job.progress({"check": one})


async def _answer_all(
    job: Job, referee: Child, trial: Child, plan: list[dict[str, Any]], facts: dict[str, Any]
) -> list[str]:
    """Put every step to the candidate and every answer to the referee; names of changed functions."""
    operations: set[str] = set()
    judging: asyncio.Task[None] | None = None

    async def judge(number: int) -> None:
        referee.allow("reference", seconds(job, "reference"))
        await referee.send(judge=number)
        _add(job, facts, await expect(referee, "check"))
        referee.idle()

    try:
        for number, step in enumerate(plan):
            trial.allow("case", seconds(job, "case"))
            await trial.send(**{key: step[key] for key in step if key not in ("case", "kind")})
            message = (await said(trial)).get("report")
            trial.idle()
            report = graph_report(message) if step["graph"] else card_report(message)
            if judging is not None:
                await judging
            more = {"stage": number + 1} if number + 1 < len(plan) else {}
            referee.allow("reference", seconds(job, "reference"))
            await referee.send(collect=number, report=report, **more)
            await expect(referee, "collected")
            if more:
                await expect(referee, "staged")
            judging = asyncio.create_task(judge(number))
            if not step["graph"]:
                operations.update(report["aten"])
                launches = [{"kernel": kernel, "grid": grid} for kernel, grid in report["launches"]]
                facts["launches"].setdefault(step["case"], launches)
        if judging is not None:
            await judging
    finally:
        if judging is not None:
            judging.cancel()
            await asyncio.gather(judging, return_exceptions=True)
    facts["aten"] = sorted(operations)
    trial.allow("case", seconds(job, "case"))
    await trial.send(stop=True)
    return claims.names((await said(trial)).get("changed"))


def card_report(value: Any) -> dict[str, Any]:
    """What a trial on the card says about one call, checked for form."""
    report = claims.report(value)
    _need(isinstance(report.get("late"), bool) and isinstance(report.get("drain_us"), int | float))
    return report


def graph_report(value: Any) -> dict[str, Any]:
    """What a trial says about a replay, checked for form."""
    _need(isinstance(value, dict))
    if "failed" in value:
        return {"failed": str(value["failed"])[:300]}
    _need(isinstance(value.get("seconds"), int | float) and isinstance(value.get("dtype"), str))
    _need(isinstance(value.get("shape"), list) and all(type(n) is int for n in value["shape"]))
    nodes = value.get("nodes")
    _need(isinstance(nodes, list) and len(nodes) < 1000)
    _need(all(isinstance(v, list) and len(v) == 2 and isinstance(v[0], str) for v in nodes))
    checked_report: dict[str, Any] = value
    return checked_report


def _need(condition: bool) -> None:
    if not condition:
        raise Failed("cheat", "sent a result of the wrong form")
