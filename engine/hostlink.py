"""The engine's side of the host protocol: one process beside the card, JSON lines over its pipes.

The host is trusted, but what it reports quotes candidates and compilers: it is data. A host that dies fails
the jobs it had with HostDied and is started again by the next call.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kernel_lab.engine.environment import without_secrets
from kernel_lab.engine.errors import EnvironmentProblem, HostDied

HOST_SCRIPT = Path(__file__).parent / "harness" / "host.py"
LINE_LIMIT_BYTES = 64 * 1024 * 1024
LOG_LIMIT_BYTES = 4 * 1024 * 1024
CLOSE_SECONDS = 10.0
INSTALL = "run `make lab`, or pip install 'kernel-lab[gpu]'"

Progress = Callable[[dict[str, Any]], None]


@dataclass(frozen=True, slots=True)
class JobResult:
    """What came of one job. `output` is the tail of what the candidate printed: untrusted text."""

    outcome: str
    detail: str
    facts: dict[str, Any] = field(default_factory=dict)
    output: str = ""


@dataclass(slots=True)
class _Pending:
    job: str
    done: asyncio.Future[JobResult]
    on_progress: Progress | None


class HostLink:
    """One host process. Every method belongs to the event loop that called `start` first.

    Jobs may overlap. Cancelling the task that waits for a call kills the job, and the cancellation goes on
    only when the host has said that nothing of the job is left.
    """

    def __init__(
        self,
        python: str,
        cache_dir: Path | str,
        scratch_dir: Path | str,
        *,
        without: Sequence[str] = (),
        niceness: int = 0,
    ) -> None:
        """`without` names layers of protection to leave off, which tests use to try the others; `niceness` is
        how far the host and all below it stand back behind other processes."""
        self._niceness = niceness
        self._python = python
        self._cache_dir = Path(cache_dir)
        self._scratch_dir = Path(scratch_dir)
        self._without = tuple(without)
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self._pending: dict[int, _Pending] = {}
        self._last_id = 0
        self._starting = asyncio.Lock()
        self._hello: dict[str, Any] | None = None

    @property
    def log_path(self) -> Path:
        """Where the host's own complaints go."""
        return self._scratch_dir / "host.log"

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    async def start(self) -> dict[str, Any]:
        """Start the host, or find it running; its facts: versions and active layers.

        Raises EnvironmentProblem where torch or triton is missing or the interpreter cannot be started.
        """
        async with self._starting:
            if self._process is None or self._process.returncode is not None:
                await self._launch()
        if self._hello is None:
            facts = (await self._ask("hello", None, {})).facts
            missing = [name for name in ("torch", "triton") if not facts.get(name)]
            if missing:
                await self.close()
                raise EnvironmentProblem(f"{' and '.join(missing)} not found by {self._python}: {INSTALL}")
            self._hello = facts
        return self._hello

    async def call(self, job: str, *, on_progress: Progress | None = None, **params: Any) -> JobResult:
        """Run one job to its end. Raises HostDied when the host ends before the job does."""
        await self.start()
        return await self._ask(job, on_progress, params)

    async def kill_job(self) -> None:
        """End every running job now; their calls return with outcome `cancelled`."""
        for number in list(self._pending):
            self._write({"id": self._next_id(), "job": "cancel", "target": number})
        await self._flush()

    def finish(self) -> None:
        """Let running races end after the round at work; their calls return as usual."""
        for number, pending in list(self._pending.items()):
            if pending.job == "time":
                self._write({"id": self._next_id(), "job": "finish", "target": number})

    async def close(self) -> None:
        """End the host and everything below it."""
        process, self._process, self._hello = self._process, None, None
        if process is None:
            return
        if process.stdin is not None:
            process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), CLOSE_SECONDS)
        except TimeoutError:
            process.kill()
            await process.wait()
        if self._reading is not None:
            await self._reading

    def _next_id(self) -> int:
        self._last_id += 1
        return self._last_id

    async def _launch(self) -> None:
        for folder in (self._cache_dir, self._scratch_dir):
            folder.mkdir(parents=True, exist_ok=True)
        if self.log_path.exists() and self.log_path.stat().st_size > LOG_LIMIT_BYTES:
            self.log_path.unlink()
        arguments = [
            "-I",
            str(HOST_SCRIPT),
            "--cache",
            str(self._cache_dir),
            "--scratch",
            str(self._scratch_dir),
        ]
        arguments += ["--without", ",".join(self._without)]
        with self.log_path.open("ab") as log:
            try:
                self._process = await asyncio.create_subprocess_exec(
                    self._python,
                    *arguments,
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=log,
                    limit=LINE_LIMIT_BYTES,
                    env=without_secrets(),
                    start_new_session=True,
                )
            except OSError as failure:
                raise EnvironmentProblem(
                    f"cannot start {self._python}: {failure.strerror}; {INSTALL}"
                ) from None
        if self._niceness:
            with contextlib.suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, self._process.pid, self._niceness)
        self._hello = None
        self._reading = asyncio.create_task(self._read(self._process))

    async def _ask(self, job: str, on_progress: Progress | None, params: dict[str, Any]) -> JobResult:
        number = self._next_id()
        pending = _Pending(job, asyncio.get_running_loop().create_future(), on_progress)
        self._pending[number] = pending
        try:
            self._write({"id": number, "job": job, **params})
            await self._flush()
            return await asyncio.shield(pending.done)
        except asyncio.CancelledError:
            if not pending.done.done():
                self._write({"id": self._next_id(), "job": "cancel", "target": number})
                with contextlib.suppress(HostDied, TimeoutError):
                    await asyncio.wait_for(asyncio.shield(pending.done), CLOSE_SECONDS)
            raise
        finally:
            self._pending.pop(number, None)
            if pending.done.done() and not pending.done.cancelled():
                pending.done.exception()  # seen, also where nobody waits any more

    def _write(self, request: dict[str, Any]) -> None:
        process = self._process
        if process is None or process.stdin is None or process.returncode is not None:
            raise self._died()
        process.stdin.write(json.dumps(request, separators=(",", ":")).encode("utf-8") + b"\n")

    async def _flush(self) -> None:
        if self._process is not None and self._process.stdin is not None:
            with contextlib.suppress(ConnectionError):
                await self._process.stdin.drain()

    def _died(self) -> HostDied:
        return HostDied(f"the process beside the card ended: see {self.log_path}, and try again")

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        """Hand each line to its call, until the host ends."""
        while process.stdout is not None:
            try:
                line = await process.stdout.readline()
            except ValueError:  # a line beyond the limit: the host is broken
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                break
            if not line:
                break
            self._hand_out(line)
        await process.wait()
        for pending in self._pending.values():
            if not pending.done.done():
                pending.done.set_exception(self._died())

    def _hand_out(self, line: bytes) -> None:
        try:
            message = json.loads(line)
            pending = self._pending.get(message["id"])
        except (ValueError, KeyError, TypeError):
            return
        if pending is None or pending.done.done():
            return
        if not message.get("done"):
            if pending.on_progress is not None:
                pending.on_progress(message.get("progress", {}))
            return
        pending.done.set_result(
            JobResult(
                outcome=str(message.get("outcome", "error")),
                detail=str(message.get("detail", "")),
                facts=message.get("facts") or {},
                output=str(message.get("output", "")),
            )
        )
