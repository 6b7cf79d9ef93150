"""The trusted process beside the card: takes jobs and answers facts, as JSON lines on stdin and stdout.

    python -I engine/harness/host.py --cache DIR --scratch DIR

A request is {"id": int, "job": name, …}; the answers are {"id", "progress": {…}} any number of times, then
{"id", "done": true, "outcome", "detail", "facts", "output"}. Jobs: hello, screen, check, cancel. The host
runs under any Python that has torch and triton and knows nothing of kernel-lab. It ends, with everything
it has started, when stdin ends.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib.metadata
import json
import os
import platform
import shutil
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

HARNESS = Path(__file__).resolve().parent
if str(HARNESS) not in sys.path:
    sys.path.insert(0, str(HARNESS))

import probes  # noqa: E402
import sandbox  # noqa: E402 (its folder is put on the path above)
from cardcheck import checked  # noqa: E402
from cardjobs import card, roofs  # noqa: E402
from cardtime import race  # noqa: E402
from children import Failed, Lost  # noqa: E402
from jobs import Answer, Job, Versions  # noqa: E402
from nursery import Nursery  # noqa: E402
from screen import screen  # noqa: E402
from store import Store, key_of, source_hash  # noqa: E402
from wire import LINE_LIMIT, one_line  # noqa: E402

COMPILING = ("capture.py", "lower.py", "machinecode.py", "standins.py", "model/*.py")
"""Files that decide what a kernel's artifact holds."""

JOBS: dict[str, Callable[[Job], Awaitable[Answer]]] = {
    "screen": screen,
    "check": checked,
    "card": card,
    "roofs": roofs,
    "time": race,
}


def version_of(package: str) -> str | None:
    """The installed version, without importing the package."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


class Host:
    def __init__(self, cache: Path, scratch: Path, off: tuple[str, ...], out: asyncio.StreamWriter) -> None:
        self._scratch = scratch
        self._out = out
        self._store = Store(cache)
        self._layers = sandbox.probe(str(scratch), off)
        self._nursery = Nursery(scratch, self._layers)
        self._jobs: dict[int, asyncio.Task[Answer]] = {}
        self._working: dict[int, Job] = {}
        self._facts = {
            "python": platform.python_version(),
            "torch": version_of("torch"),
            "triton": version_of("triton"),
            "numpy": version_of("numpy"),
            "platform": f"{platform.system()} {platform.release()} {platform.machine()}",
            "layers": self._layers,
            "guards_off": sorted(probes.DISABLED),
        }
        packages = (self._facts["torch"], self._facts["triton"])
        self._versions = Versions(
            content=key_of(*packages, source_hash(HARNESS)),
            compiler=key_of(*packages, *(source_hash(HARNESS, pattern) for pattern in COMPILING)),
        )
        self._count = 0

    def start(self) -> None:
        if self._facts["torch"] and self._facts["triton"]:
            self._nursery.start()

    def say(self, message: dict[str, Any]) -> None:
        self._out.write(json.dumps(message, separators=(",", ":")).encode() + b"\n")

    def take(self, request: dict[str, Any]) -> None:
        """Begin one request."""
        number = int(request["id"])
        name = request.get("job")
        if name == "hello":
            self._done(number, Answer("ok", facts=self._facts))
        elif name == "cancel":
            task = self._jobs.get(int(request["target"]))
            if task is not None:
                task.cancel()
            self._done(number, Answer("ok", facts={"found": task is not None}))
        elif name == "finish":
            job = self._working.get(int(request["target"]))
            if job is not None:
                job.finish.set()
            self._done(number, Answer("ok", facts={"found": job is not None}))
        elif name in JOBS:
            task = asyncio.create_task(self._run(number, request, JOBS[name]))
            self._jobs[number] = task
            task.add_done_callback(lambda done: self._jobs.pop(number, None))
        else:
            self._done(number, Answer("error", f"the host knows no job {one_line(name, 40)}"))

    async def _run(
        self, number: int, request: dict[str, Any], work: Callable[[Job], Awaitable[Answer]]
    ) -> Answer:
        self._count += 1
        job = Job(
            request,
            self._nursery,
            self._store,
            self._versions,
            self._scratch / f"job{self._count}",
            lambda progress: self.say({"id": number, "progress": progress}),
        )
        self._working[number] = job
        try:
            answer = await self._outcome(job, work)
        finally:
            del self._working[number]
            await asyncio.shield(job.close())
        self._done(number, answer)
        return answer

    async def _outcome(self, job: Job, work: Callable[[Job], Awaitable[Answer]]) -> Answer:
        if not (self._facts["torch"] and self._facts["triton"]):
            return Answer("error", "torch and triton are not installed for this Python")
        try:
            return await work(job)
        except asyncio.CancelledError:
            return Answer("cancelled")
        except Failed as failed:
            return Answer(failed.outcome, failed.detail, output=job.output())
        except Lost as lost:
            return Answer("error", one_line(lost))
        except Exception as failure:  # noqa: BLE001 (the job fails, the host goes on)
            import traceback

            traceback.print_exc()
            return Answer("error", one_line(f"{type(failure).__name__}: {failure}"), output=job.output())

    def _done(self, number: int, answer: Answer) -> None:
        self.say({
            "id": number,
            "done": True,
            "outcome": answer.outcome,
            "detail": one_line(answer.detail),
            "facts": answer.facts,
            "output": answer.output[-8192:],
        })  # fmt: skip

    async def close(self) -> None:
        tasks = list(self._jobs.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._nursery.close()


async def serve(arguments: argparse.Namespace) -> None:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=LINE_LIMIT)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, sys.stdout)
    out = asyncio.StreamWriter(transport, protocol, None, loop)
    scratch = own_scratch(Path(arguments.scratch))
    host = Host(Path(arguments.cache), scratch, tuple(arguments.without.split(",")), out)
    host.start()
    stop = asyncio.ensure_future(asyncio.Event().wait())
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.cancel)
    try:
        await _take_all(host, reader, stop)
    finally:
        await host.close()
        shutil.rmtree(scratch, ignore_errors=True)


async def _take_all(host: Host, reader: asyncio.StreamReader, stop: asyncio.Future[Any]) -> None:
    while True:
        reading = asyncio.ensure_future(reader.readline())
        await asyncio.wait([reading, stop], return_when=asyncio.FIRST_COMPLETED)
        if not reading.done() or not (line := reading.result()):
            reading.cancel()
            return
        try:
            host.take(json.loads(line))
        except (ValueError, KeyError, TypeError) as failure:
            host.say({"id": None, "done": True, "outcome": "error", "detail": f"not a request: {failure}"})


def own_scratch(folder: Path) -> Path:
    """A folder for this host; those of hosts that are gone are removed."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("host-*"):
        owner = old.name.removeprefix("host-")
        if owner.isdigit() and not Path(f"/proc/{owner}").exists():
            shutil.rmtree(old, ignore_errors=True)
    own = folder / f"host-{os.getpid()}"
    shutil.rmtree(own, ignore_errors=True)
    own.mkdir(mode=0o700)
    return own


def main() -> None:
    parser = argparse.ArgumentParser(description="The process beside the card. Speaks JSON lines.")
    parser.add_argument("--cache", required=True, help="folder for results by content")
    parser.add_argument("--scratch", required=True, help="folder for the files of running jobs")
    parser.add_argument("--without", default="", help="layers to leave off, comma between")
    arguments = parser.parse_args()
    with contextlib.suppress(asyncio.CancelledError, KeyboardInterrupt):
        asyncio.run(serve(arguments))


if __name__ == "__main__":
    main()
