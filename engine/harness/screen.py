"""Job `screen`: what a candidate launches on a card that is not there, compiled for it, with estimated times.

analyst (trusted)   plans: layouts and calls, from the task
capture (confined)  the candidate on tensors without contents: launches, intermediate code
lower   (confined)  one process per new kernel, as many at once as there are cores: ptxas, nvdisasm
analyst             limits, occupancy, times
"""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Any

import claims
from children import Child, Failed
from jobs import Answer, Job, expect
from store import key_of

PHASES = ("load", "compile")
STABLE = ("ok", "invalid", "compile_error", "cheat")
"""Outcomes that depend on the content alone, and are worth remembering."""


async def screen(job: Job) -> Answer:
    request = job.request
    source, entry, target = request["source"], request["entry"], request["target"]
    workloads = request["workloads"]
    task = (Path(request["task_dir"]) / "reference.py").read_text(encoding="utf-8")
    key = key_of("screen", source, entry, task, target, workloads, job.versions.content)
    remembered = job.store.get("screen", key)
    if remembered is not None:
        facts = {**remembered["facts"], "cached": True}
        return Answer(remembered["outcome"], remembered["detail"], facts, remembered["output"])
    started = time.monotonic()
    stable = True
    try:
        facts = await _run(job, source, entry, target, workloads)
        answer = Answer("ok", "", facts)
    except OverLimit as over:
        text = (
            f"needs {over.smem_bytes:,} B of shared memory, "
            f"{_article(target['title'])} {target['title']} block has {int(target['smem_block_bytes']):,}"
        )
        answer = Answer("oom", text, {"limits": [f"{over.kernel}: {text}"]})
    except Failed as failed:
        answer = Answer(failed.outcome, failed.detail)
        stable = failed.outcome in STABLE
    answer.output = job.output()
    answer.facts["compile_s"] = round(time.monotonic() - started, 3)
    if stable:
        remembered = {
            "outcome": answer.outcome, "detail": answer.detail, "facts": answer.facts, "output": answer.output
        }  # fmt: skip
        job.store.put("screen", key, remembered)
    answer.facts["cached"] = False
    return answer


def _article(title: str) -> str:
    """`an RTX 3060`, `a B200`: by the sound of the first word's letter."""
    first = title.split()[0]
    spelled = first.isupper() and first[0] in "AEFHILMNORSX"
    return "an" if spelled or (first[0] in "AEIOUaeiou" and not first.isupper()) else "a"


class OverLimit(Exception):
    """A kernel needs more shared memory than the card's block has."""

    def __init__(self, kernel: str, smem_bytes: int) -> None:
        super().__init__(kernel)
        self.kernel = kernel
        self.smem_bytes = smem_bytes


async def _run(
    job: Job, source: str, entry: str, target: dict[str, Any], workloads: list[dict[str, Any]]
) -> dict[str, Any]:
    analyst = await job.trusted(
        "analyst", task_dir=job.request["task_dir"], target=target, workloads=workloads
    )
    analyst.allow("analyse", job.seconds("analyse"))
    plans = await expect(analyst, "plans")
    analyst.idle()
    capture = await job.candidate("compile", "capture", source, entry=entry, target=target, plans=plans)
    capture.allow("start", job.seconds("load"))
    job.nursery.prepare("interpret")  # a check follows a screening
    compiler = Compiler(job, target)
    launches: list[list[dict[str, Any]]] = [[] for _ in workloads]
    try:
        await _capture(job, capture, compiler, launches)
        artifacts = await compiler.finish()
    finally:
        await compiler.stop()
    analyst.allow("analyse", job.seconds("analyse"))
    await analyst.send(launches=launches, artifacts=artifacts)
    facts: dict[str, Any] = await expect(analyst, "facts")
    return {**facts, "limits": []}


async def _capture(
    job: Job, capture: Child, compiler: Compiler, launches: list[list[dict[str, Any]]]
) -> None:
    """Hear the candidate's process to its end, compiling what it names as it goes."""
    while True:
        message = await capture.receive()
        if message.get("phase") in PHASES:
            capture.allow(message["phase"], job.seconds(message["phase"]))
        elif "unit" in message:
            compiler.add(claims.unit(message["unit"]))
        elif "launches" in message and message.get("index") in range(len(launches)):
            launches[message["index"]] = claims.launches(message["launches"], compiler.known)
        elif "refused" in message:
            raise claims.refusal(message["refused"])
        elif "done" in message and all(launches):
            capture.idle()
            return
        else:
            raise Failed("cheat", "sent a result of the wrong form")


class Compiler:
    """Compiles units side by side, each once, from the store where it is known."""

    def __init__(self, job: Job, target: dict[str, Any]) -> None:
        self._job = job
        self._target = target
        self._slots = asyncio.Semaphore(os.cpu_count() or 1)
        self._tasks: dict[str, asyncio.Task[str]] = {}

    @property
    def known(self) -> set[str]:
        return set(self._tasks)

    def add(self, unit: dict[str, Any]) -> None:
        # The key is made here, not taken from the candidate's process.
        key = key_of(unit["suffix"], unit["text"], unit["options"])
        self._tasks[unit["key"]] = asyncio.create_task(self._compile(unit, key))

    async def _compile(self, unit: dict[str, Any], key: str) -> str:
        """The path of the unit's artifact."""
        key = key_of("unit", key, self._target, self._job.versions.compiler)
        if (known := self._job.store.get("unit", key)) is None:
            async with self._slots:
                known = await self._lower(unit)
            self._job.store.put("unit", key, known)
        if "over_shared" in known:
            raise OverLimit(unit["name"], known["over_shared"])
        if "compile_error" in known:
            self._job.say(known.get("trace", ""))
            raise Failed("compile_error", known["compile_error"])
        return str(self._job.store.path("unit", key))

    async def _lower(self, unit: dict[str, Any]) -> dict[str, Any]:
        """Compile in a child. A compiler that crashes is the candidate's compile error."""
        child = await self._job.compiler(unit=unit, target=self._target)
        child.allow("compile", self._job.seconds("compile"))
        try:
            message = await child.receive()
        except Failed as failed:
            if failed.outcome != "crash":
                raise
            raise Failed("compile_error", f"the compiler {failed.detail}") from None
        finally:
            await self._job.bury(child)
        artifact: dict[str, Any] = message.get("artifact") or message
        return artifact

    async def finish(self) -> dict[str, str]:
        """Unit to artifact, when all are compiled. The first failure in the order of launches is raised."""
        return {key: await task for key, task in self._tasks.items()}

    async def stop(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
