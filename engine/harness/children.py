"""The host's side of its children: start them warm, hear them, hold them to their bounds, end them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import resource
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import keeper
import sandbox
import zygote
from wire import LINE_LIMIT, one_line

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


def clean_environment() -> dict[str, str]:
    """The environment of every child: what programs need, no key and no habit of the user."""
    kept = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_PATH")
    return {name: os.environ[name] for name in kept if name in os.environ} | {
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONNOUSERSITE": "1",
        "PYTHONHASHSEED": "0",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "TRITON_DEFAULT_FP_FUSION": "1",
        "TRITON_DISABLE_LINE_INFO": "1",
    }


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


class Nursery:
    """The zygotes and all children that live."""

    def __init__(self, scratch: Path, layers: dict[str, str]) -> None:
        self._scratch = scratch
        self.layers = sandbox.active(layers)
        self._nest: subprocess.Popen[bytes] | None = None
        self._nest_control: socket.socket | None = None
        self._zygotes: dict[str, asyncio.Task[socket.socket]] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self._ready: asyncio.Task[socket.socket] | None = None
        self._readable: tuple[str, ...] = ()
        self.children: set[Child] = set()
        self._count = 0

    def start(self) -> None:
        """Begin importing torch; nothing waits for it."""
        with contextlib.suppress(OSError):
            import kernelcalls as kc

            kc.prctl(kc.PR_SET_CHILD_SUBREAPER, 1)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        log = (self._scratch / "zygotes.log").open("ab")
        script = str(Path(__file__).with_name("zygote.py"))
        self._nest = subprocess.Popen(
            [sys.executable, "-I", "-B", script, str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=clean_environment(),
            cwd=self._scratch,
        )
        log.close()
        theirs.close()
        ours.setblocking(False)
        self._nest_control = ours
        self._ready = asyncio.create_task(self._await_ready(ours, "torch"))

    async def _await_ready(self, control: socket.socket, what: str) -> socket.socket:
        message = await self._answer(control, START_SECONDS, what)
        if "failed" in message:
            raise Lost(message["failed"])
        return control

    async def _answer(self, control: socket.socket, seconds: float, what: str) -> dict[str, Any]:
        loop = asyncio.get_running_loop()
        try:
            text = await asyncio.wait_for(loop.sock_recv(control, zygote.MESSAGE_BYTES), seconds)
        except TimeoutError:
            raise Lost(f"{what} did not get ready within {seconds:.0f} s") from None
        if not text:
            raise Lost(f"the process that imports {what} ended")
        return dict(json.loads(text))

    def prepare(self, kind: str) -> None:
        """Hatch a zygote that will be wanted; nothing waits for it, and what fails shows when it is used."""
        if kind not in self._zygotes:
            self._zygotes[kind] = asyncio.create_task(self._hatch(kind))
            self._zygotes[kind].add_done_callback(lambda done: done.cancelled() or done.exception())

    async def zygote(self, kind: str) -> socket.socket:
        """The control socket of a zygote, hatched on first use."""
        self.prepare(kind)
        return await asyncio.shield(self._zygotes[kind])

    async def _hatch(self, kind: str) -> socket.socket:
        if self._ready is None:
            raise Lost("torch and triton are not installed for this Python")
        control = await asyncio.shield(self._ready)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        zygote.send(control, {"hatch": kind}, (theirs.fileno(),))
        theirs.close()
        ours.setblocking(False)
        return await self._await_ready(ours, "triton")

    async def spawn(
        self,
        kind: str,
        role: str,
        specification: dict[str, Any],
        *,
        work: Path,
        memory_bytes: int,
        confined: bool,
        programs: bool = False,
        descriptors: Iterable[int] = (),
        readable: tuple[str, ...] = (),
        devices: tuple[str, ...] = (),
    ) -> Child:
        """A new child of the zygote `kind`, playing `role`, allowed to write `work` alone."""
        control = await self.zygote(kind)
        self._count += 1
        log_path = work.with_name(f"{work.name}-{role}-{self._count}.log")
        log = os.open(log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        channel, channel_child = socket.socketpair()
        status, status_child = socket.socketpair()
        bounds = None
        layers = self.layers
        if devices and "mount_namespace" not in layers:
            # CUDA fails where /proc shows other process numbers than its own.
            layers = tuple(layer for layer in layers if layer != "pid_namespace")
        if confined:
            if not self._readable:
                self._readable = sandbox.readable_paths(_package_folders())
            bounds = asdict(
                sandbox.Bounds(
                    str(work), memory_bytes, 16 << 20 if not programs else 256 << 20, programs,
                    layers, (*self._readable, *readable), devices,
                )
            )  # fmt: skip
        request = {"role": role, "bounds": bounds, "work": str(work)}
        async with self._locks.setdefault(kind, asyncio.Lock()):
            passed = (channel_child.fileno(), log, status_child.fileno(), *descriptors)
            zygote.send(control, request, passed)
            answer = await self._answer(control, 30, "a zygote")
        for end in (channel_child, status_child):
            end.close()
        os.close(log)
        status.setblocking(False)
        channel.setblocking(False)
        reader, writer = await asyncio.open_unix_connection(sock=channel, limit=LINE_LIMIT)
        nonce = secrets.token_hex(16)
        child = Child(
            role, nonce, work, reader, writer, status, log_path, answer["pid"], memory_bytes,
            answer["shared_bytes"],
        )  # fmt: skip
        self.children.add(child)
        child.begin()
        await child.send(nonce=nonce, **specification)
        return child

    async def bury(self, child: Child) -> None:
        await child.close()
        self.children.discard(child)
        with contextlib.suppress(OSError):
            child.log.unlink()

    async def close(self) -> None:
        for child in list(self.children):
            await self.bury(child)
        if self._nest_control is not None:
            self._nest_control.close()
        if self._nest is not None:
            self._nest.kill()
            self._nest.wait()


def _package_folders() -> list[str]:
    """Where torch, triton and numpy lie, without importing them."""
    import importlib.util

    folders = []
    for name in ("torch", "triton", "numpy"):
        with contextlib.suppress(ImportError, ValueError):
            found = importlib.util.find_spec(name)
            if found is not None and found.origin is not None:
                folders.append(str(Path(found.origin).resolve().parent.parent))
    return folders
