"""The host's side of its children: start them warm, hear them, hold them to their bounds, end them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import resource
import signal
import socket
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import keeper
from wire import one_line

WATCH_SECONDS = 0.05
PROCESSES_LIMIT = 64
OUTPUT_TAIL_BYTES = 8 * 1024
START_SECONDS = 120.0
"""How long importing torch and triton may take on a slow disk."""


class Lost(Exception):
    """The host could not do its own part: torch is missing, a zygote died."""


class Failed(Exception):
    """A child ended, or said something, that decides the job."""

    def __init__(self, outcome: str, detail: str) -> None:
        super().__init__(detail)
        self.outcome = outcome
        self.detail = one_line(detail)
        self.facts: dict[str, Any] = {}
        """What was known until then."""


@dataclass
class Ending:
    """How a child's process ended."""

    code: int | None = None
    signal: int | None = None
    peak_bytes: int = 0
    lost: str | None = None


@dataclass(eq=False)
class Child:
    """One child: its channel, its clock and its end."""

    role: str
    nonce: str
    work: Path
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    status: socket.socket
    log: Path
    keeper_pid: int
    memory_bytes: int
    shared_bytes: int
    """What each process shares with the zygote it was forked from."""
    deadline: float | None = None
    phase: str = "start"
    verdict: Failed | None = None
    ending: asyncio.Future[Ending] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    _watcher: asyncio.Task[None] | None = None
    _listener: asyncio.Task[None] | None = None

    def begin(self) -> None:
        self._listener = asyncio.create_task(self._listen())
        self._watcher = asyncio.create_task(self._watch())

    def allow(self, phase: str, seconds: float) -> None:
        """From now on the child is in `phase`, which may last so long."""
        self.phase = phase
        self.deadline = time.monotonic() + seconds

    def idle(self) -> None:
        """The child waits for the host: no deadline runs."""
        self.deadline = None

    async def send(self, **message: Any) -> None:
        self.writer.write(json.dumps(message, separators=(",", ":")).encode() + b"\n")
        with contextlib.suppress(ConnectionError):
            await self.writer.drain()

    async def receive(self) -> dict[str, Any]:
        """The next message that carries the nonce. Raises Failed when the child is at its end."""
        try:
            line = await self.reader.readuntil(b"\n")
        except asyncio.IncompleteReadError as end:
            if end.partial and self.verdict is None:
                self._condemn("cheat", "wrote into the result channel")
            raise await self._why_ended() from None
        except (asyncio.LimitOverrunError, ConnectionError):
            self._condemn("crash", "sent more than a result can hold")
            raise await self._why_ended() from None
        nonce, _, body = line.partition(b" ")
        if nonce != self.nonce.encode():
            self._condemn("cheat", "wrote into the result channel")
            raise await self._why_ended()
        try:
            message = json.loads(body)
        except ValueError:
            self._condemn("cheat", "wrote into the result channel")
            raise await self._why_ended() from None
        if self.verdict is not None:
            raise await self._why_ended()
        return dict(message)

    def _condemn(self, outcome: str, detail: str) -> None:
        if self.verdict is None:
            self.verdict = Failed(outcome, detail)
        self.kill()

    async def _why_ended(self) -> Failed:
        """The channel is closed: the process is at its end, or is brought there."""
        if self.verdict is None:
            done, _ = await asyncio.wait([self.ending], timeout=1.0)
            if not done and self.verdict is None:
                self._condemn("crash", f"closed its result channel during {self.phase}")
        ending = await self.finished()
        if self.verdict is not None:
            return self.verdict
        if ending.lost is not None:
            return Failed("error", f"the {self.role} process could not start: {ending.lost}")
        if ending.signal is not None:
            if ending.signal == signal.SIGKILL and ending.peak_bytes > 0.8 * self.memory_bytes:
                return Failed("oom", f"used more than {self.memory_bytes:,} B of host memory")
            name = signal.Signals(ending.signal).name
            return Failed("crash", f"ended by {name} during {self.phase}")
        return Failed("crash", f"ended with status {ending.code} during {self.phase}, before its result")

    def kill(self) -> None:
        """End it and all that it started. Returns at once; `finished` waits."""
        with contextlib.suppress(OSError):
            self.status.send(b"kill\n")

    async def finished(self, seconds: float = 8.0) -> Ending:
        """How it ended. If the keeper itself hangs or is gone, the host does its work."""
        done, _ = await asyncio.wait([self.ending], timeout=seconds)
        if not done:
            keeper.kill_below(self.keeper_pid)
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.keeper_pid, signal.SIGKILL)
            await asyncio.wait([self.ending], timeout=1.0)
        return self.ending.result() if self.ending.done() else Ending(signal=signal.SIGKILL)

    async def close(self) -> None:
        """Kill what is left, wait until it is gone, give everything back."""
        if not self.ending.done():
            self.kill()
            await self.finished()
        for task in (self._watcher, self._listener):
            if task is not None:
                task.cancel()
        self.writer.close()
        self.status.close()

    def output(self) -> str:
        """The last bytes of what it printed, as text."""
        try:
            with self.log.open("rb") as stream:
                size = stream.seek(0, os.SEEK_END)
                stream.seek(max(0, size - OUTPUT_TAIL_BYTES))
                return stream.read().decode("utf-8", "replace")
        except OSError:
            return ""

    async def _listen(self) -> None:
        """The keeper's line: the start, and the end."""
        loop = asyncio.get_running_loop()
        buffer = b""
        found = Ending()
        while True:
            try:
                chunk = await loop.sock_recv(self.status, 4096)
            except OSError:
                chunk = b""
            if not chunk:
                break
            *lines, buffer = (buffer + chunk).split(b"\n")
            for line in lines:
                said = json.loads(line)
                if "started" in said:
                    continue
                if "lost" in said:
                    found.lost = said["lost"]
                elif said.get("by") != "init" or (found.code is None and found.signal is None):
                    found.code, found.signal = said["code"], said["signal"]
                    found.peak_bytes = max(found.peak_bytes, said["peak_bytes"])
        if not self.ending.done():
            self.ending.set_result(found)

    async def _watch(self) -> None:
        """Deadline, memory and processes, twenty times a second while the child works."""
        while not self.ending.done():
            await asyncio.sleep(WATCH_SECONDS)
            if self.deadline is not None and time.monotonic() > self.deadline:
                self._condemn("timeout", f"{self.phase} took longer than its deadline")
                return
            size_bytes, processes = tree_use(self.keeper_pid, self.shared_bytes)
            if processes > PROCESSES_LIMIT:
                self._condemn("crash", f"started more than {PROCESSES_LIMIT} processes")
                return
            if size_bytes > self.memory_bytes:
                self._condemn("oom", f"used more than {self.memory_bytes:,} B of host memory")
                return


def resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize()


def tree_use(pid: int, shared_bytes: int) -> tuple[int, int]:
    """Resident bytes of a process and all below it, beyond the zygote's pages, and how many they are."""
    total = count = 0
    queue = [pid]
    while queue:
        current = queue.pop()
        count += 1
        if count > PROCESSES_LIMIT:
            break
        try:
            total += max(0, resident_bytes(current) - shared_bytes)
            for task in Path(f"/proc/{current}/task").iterdir():
                queue += [int(child) for child in (task / "children").read_text().split()]
        except (OSError, IndexError):
            continue
    return total, count
