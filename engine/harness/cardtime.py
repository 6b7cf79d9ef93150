"""Job `time`: candidate, champion and baselines beside each other, round by round, on one card.

    clock       (trusted)   contents, orders, its own clock, comparison of timed answers (cardclock.py)
    contestants (confined)  a process each for every source
                (clean)     a process each for every baseline

Each round is one progress line. The job ends after its rounds, or when it is asked to finish.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import socket
import time
from typing import Any

import cardjobs
import probes
from cardjobs import Access, own_kernel, said, seconds
from cardprobes import KINDS, is_layout_node, one_check
from children import Child, Failed
from jobs import Answer, Job, expect
from store import key_of

ROUNDS = 15
REALLOCATE_EVERY = 12
LINE_SECONDS = {"stage": 30.0, "compile": 120.0, "block": 15.0}


async def race(job: Job) -> Answer:
    card = cardjobs.access(job.request)
    return await cardjobs.guarded(job, card, lambda: _race(job, card))


_AGREED: dict[str, dict[str, Any]] = {}
"""What a clean process found of baselines, by baselines, workloads and card, while this host lives."""


class _Runners:
    """The processes of one race, by contestant."""

    def __init__(self) -> None:
        self.children: dict[str, Child] = {}
        self.nonces: dict[str, str] = {}
        self.sources: dict[str, str] = {}
        self.baselines: list[str] = []
        self.absent: dict[str, str] = {}


async def _race(job: Job, card: Access) -> Answer:
    request = job.request
    runners = _Runners()
    runners.sources = {one["name"]: one["source"] for one in request["contestants"]}
    runners.baselines = list(request.get("baselines") or ())
    names = [*runners.sources, *runners.baselines]
    runners.nonces = {name: secrets.token_hex(16) for name in names}
    facts: dict[str, Any] = {"seconds": {}, "rounds": []}
    descriptor = os.memfd_create("kernel-lab", os.MFD_CLOEXEC)
    pairs = {name: socket.socketpair() for name in names}
    try:
        clock = await _start(job, card, runners, descriptor, pairs, facts)
        try:
            await _rounds(job, card, clock, runners, facts)
        except _Over as over:
            await _why(over, runners)
        return await _answer(job, card, runners, facts)
    except Failed as failed:
        failed.facts = facts
        raise
    finally:
        os.close(descriptor)
        for pair in pairs.values():
            for end in pair:
                end.close()


async def _start(
    job: Job,
    card: Access,
    runners: _Runners,
    descriptor: int,
    pairs: dict[str, tuple[socket.socket, socket.socket]],
    facts: dict[str, Any],
) -> Child:
    """All processes, each warm and every source locked."""
    request = job.request
    started = time.monotonic()
    limits = LINE_SECONDS | {
        key: float(value) for key, value in (request.get("deadline_s") or {}).items() if key in LINE_SECONDS
    }
    clock = await job.trusted_on_card(
        "cardclock",
        (descriptor, *(pairs[name][0].fileno() for name in pairs)),
        task_dir=request["task_dir"],
        workloads=request["workloads"],
        seed=int(request.get("seed", secrets.randbits(32))),
        gate=request.get("gate", "speed"),
        tolerance=request["tolerance"],
        names=list(pairs),
        sources=list(runners.sources),
        nonces=runners.nonces,
        deadline_s=limits,
        reallocate_every=int(request.get("reallocate_every", REALLOCATE_EVERY)),
        whole=bool(request.get("whole", True)),
        environment=card.environment,
    )
    clock.allow("context", seconds(job, "context"))
    message = await clock.receive()
    if "shapes" not in message:
        raise Failed("error", str(message.get("failed", "the clock did not start")))
    clock.idle()
    starting = [
        _start_source(job, card, runners, name, (descriptor, pairs[name][1].fileno()), message["shapes"])
        for name in runners.sources
    ] + [
        _start_baseline(job, card, runners, name, (descriptor, pairs[name][1].fileno()))
        for name in runners.baselines
    ]
    for ended in await asyncio.gather(*starting, return_exceptions=True):
        if isinstance(ended, BaseException):
            raise ended
    for name in pairs:
        pairs[name][0].close()
        pairs[name][1].close()
    facts["seconds"]["start"] = round(time.monotonic() - started, 3)
    return clock


async def _start_source(
    job: Job,
    card: Access,
    runners: _Runners,
    name: str,
    descriptors: tuple[int, ...],
    shapes: list[dict[str, Any]],
) -> None:
    try:
        child, kernels = await cardjobs.start_candidate(job, card, runners.sources[name], descriptors, shapes)
        runners.children[name] = child
        await cardjobs.warm_and_lock(job, child, kernels, shapes)
        await child.send(race=runners.nonces[name])
    except Failed as failed:
        raise Failed(failed.outcome, f"{name}: {failed.detail}") from None


async def _start_baseline(
    job: Job, card: Access, runners: _Runners, name: str, descriptors: tuple[int, ...]
) -> None:
    child = await job.trusted_on_card(
        "cardclean", descriptors, do="baseline", name=name, task_dir=job.request["task_dir"],
        workloads=job.request["workloads"], line_nonce=runners.nonces[name], environment=card.environment,
    )  # fmt: skip
    runners.children[name] = child
    child.allow("context", seconds(job, "context"))
    message = await child.receive()
    if "failed" in message:
        raise Failed("error", f"{name}: {message['failed']}")
    if message.get("missing"):
        runners.absent[name] = str(message["missing"])
    child.idle()


class _Over(Exception):
    """The clock lost a contestant."""

    def __init__(self, name: str, *, hung: bool) -> None:
        super().__init__(name)
        self.name = name
        self.hung = hung


async def _heard(clock: Child, key: str) -> dict[str, Any]:
    message = await clock.receive()
    if "lost" in message:
        raise _Over(message["lost"]["who"], hung=bool(message["lost"]["hung"]))
    if "failed" in message:
        raise Failed("error", str(message["failed"]))
    if key not in message:
        raise Failed("error", f"the clock answered {sorted(message)}, not {key}")
    return message


async def _rounds(job: Job, card: Access, clock: Child, runners: _Runners, facts: dict[str, Any]) -> None:
    clock.allow("compile", seconds(job, "compile") * (1 + len(runners.children)))
    await clock.send(start=True)
    facts["seconds"]["prepare"] = (await _heard(clock, "prepared"))["prepared"]
    for _ in range(int(job.request.get("rounds", ROUNDS))):
        if job.finish.is_set():
            break
        clock.allow("round", seconds(job, "round"))
        await clock.send(next=True)
        heard = await _heard(clock, "round")
        now = await asyncio.to_thread(card.nvml.now)
        row = {key: heard[key] for key in ("round", "samples", "seconds")} | now
        facts["rounds"].append(row)
        job.progress(row)
    clock.allow("round", seconds(job, "round"))
    started = time.monotonic()
    await clock.send(stop=True)
    facts |= (await _heard(clock, "result"))["result"]
    facts["seconds"]["whole"] = round(time.monotonic() - started, 3)
    clock.idle()


async def _why(over: _Over, runners: _Runners) -> None:
    """Turn a lost contestant into how its process ended."""
    child = runners.children[over.name]
    if over.hung:
        child.allow("a timed block", 0.0)
    else:
        child.allow("a timed block", 10.0)
    try:
        if over.name in runners.sources:
            while True:
                await said(child)
        message = await child.receive()
        raise Failed("error", str(message.get("failed", "a baseline's process ended")))
    except Failed as failed:
        outcome = failed.outcome if over.name in runners.sources else "error"
        raise Failed(outcome, f"{over.name}: {failed.detail}") from None


async def _answer(job: Job, card: Access, runners: _Runners, facts: dict[str, Any]) -> Answer:
    """Put together what the race has shown, and let a clean process time the baselines once more."""
    facts["absent"] = runners.absent
    for name, source in runners.sources.items():
        foreign = sorted({
            launch["kernel"]
            for launches in facts["launches"].get(name, {}).values()
            for launch in launches
            if not is_layout_node(launch["kernel"]) and not own_kernel(launch["kernel"], source)
        })  # fmt: skip
        problems = [f"launches {kernel[:80]}, which its file does not define" for kernel in foreign]
        facts["compared"][name].append(one_check("speed", "launch_census", problems, 1))
        changed = []
        with contextlib.suppress(Failed):
            child = runners.children[name]
            child.allow("case", seconds(job, "case"))
            while "raced" not in await said(child):
                pass
            await child.send(stop=True)
            changed = list((await said(child)).get("changed") or [])
        if changed:
            text = f"replaced {', '.join(str(one) for one in changed[:5])}"
            facts["compared"][name].append(one_check("speed", "functions_unchanged", [text], 1))
    await job.bury_all()
    if runners.baselines and job.request.get("agree", True):
        facts["agree"] = await _agree(job, card, runners, facts)
    for name in runners.sources:
        left = [one for one in facts["compared"][name] if one["probe"] not in probes.DISABLED]
        facts["compared"][name] = left
        for one in left:
            if one["status"] == "fail" and KINDS.get(one["probe"]) == "cheat":
                return Answer("cheat", f"{name}: {one['probe']}: {one['detail']}", facts, job.output())
    return Answer("ok", "", facts, job.output())


async def _agree(job: Job, card: Access, runners: _Runners, facts: dict[str, Any]) -> dict[str, Any]:
    """A clean process times the baselines by another way and names their kernels."""
    started = time.monotonic()
    key = key_of(runners.baselines, job.request["workloads"], job.request["task_dir"], card.reading["uuid"])
    found = _AGREED.get(key)
    if found is None:
        found = _AGREED[key] = await _ask_agree(job, card, runners)
    facts["seconds"]["agree"] = round(time.monotonic() - started, 3)
    found = {name: {workload: dict(row) for workload, row in rows.items()} for name, rows in found.items()}
    for name, workloads in found.items():
        for workload, row in workloads.items():
            times = [
                sample["us"][name]
                for one in facts["rounds"]
                for sample in one["samples"]
                if sample["workload"] == workload and name in sample["us"]
            ]
            if times:
                row["race_us"] = sorted(times)[len(times) // 2]
                row["ratio"] = round(row["race_us"] / row["us"], 4)
    return found


async def _ask_agree(job: Job, card: Access, runners: _Runners) -> dict[str, Any]:
    child = await job.trusted_on_card(
        "cardclean", do="agree", names=runners.baselines, task_dir=job.request["task_dir"],
        workloads=job.request["workloads"], environment=card.environment,
    )  # fmt: skip
    child.allow("reference", seconds(job, "context") + seconds(job, "reference"))
    found: dict[str, Any] = await expect(child, "agree")
    await job.bury(child)
    return found
