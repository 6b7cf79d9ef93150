"""The zygotes, and the birth of every child: which process, which layers, which descriptors.

A zygote that dies takes its children with it (see keeper.py); the next birth hatches another.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
import os
import secrets
import socket
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import kernelcalls
import sandbox
import zygote
from children import Child, Lost
from wire import LINE_LIMIT

START_SECONDS = 120.0
"""How long importing torch and triton may take on a slow disk."""
BIRTH_SECONDS = 30.0
CANDIDATE_FILE_BYTES = 16 << 20
COMPILER_FILE_BYTES = 256 << 20


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


class ZygoteGone(Lost):
    """A zygote that was warm has ended."""


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
            kernelcalls.prctl(kernelcalls.PR_SET_CHILD_SUBREAPER, 1)
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
        if self._nest is not None and self._nest.poll() is not None:
            self._forget_all()
            self.start()
        if kind not in self._zygotes:
            self._zygotes[kind] = asyncio.create_task(self._hatch(kind))
            self._zygotes[kind].add_done_callback(lambda done: done.cancelled() or done.exception())

    def _forget_all(self) -> None:
        """The nest is gone, and its zygotes with it."""
        if self._nest_control is not None:
            self._nest_control.close()
        self._zygotes.clear()

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
        self._count += 1
        log_path = work.with_name(f"{work.name}-{role}-{self._count}.log")
        bounds = None
        if confined:
            bounds = self._bounds(work, memory_bytes, programs, readable, devices)
        request = {"role": role, "bounds": bounds, "work": str(work)}
        # A zygote's answer must be read whoever still waits for it. Without us, the ends that come with it
        # are closed, and the keeper ends the child.
        birth = asyncio.create_task(self._birth(kind, request, log_path, [os.dup(n) for n in descriptors]))
        answer, channel, status = await asyncio.shield(birth)
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

    def _bounds(
        self,
        work: Path,
        memory_bytes: int,
        programs: bool,
        readable: tuple[str, ...],
        devices: tuple[str, ...],
    ) -> dict[str, Any]:
        """What a confined child may use, as plain values."""
        layers = self.layers
        if devices and "mount_namespace" not in layers:
            # CUDA fails where /proc shows other process numbers than its own.
            layers = tuple(layer for layer in layers if layer != "pid_namespace")
        if not self._readable:
            self._readable = sandbox.readable_paths(_package_folders())
        return asdict(
            sandbox.Bounds(
                work=str(work),
                memory_bytes=memory_bytes,
                file_bytes=COMPILER_FILE_BYTES if programs else CANDIDATE_FILE_BYTES,
                programs=programs,
                layers=layers,
                readable=(*self._readable, *readable),
                devices=devices,
            )
        )

    async def _birth(
        self, kind: str, request: dict[str, Any], log_path: Path, descriptors: list[int]
    ) -> tuple[dict[str, Any], socket.socket, socket.socket]:
        """Have a zygote fork a keeper: its answer, and our ends of the channel and the status line.

        Closes `descriptors`. A zygote that turns out to be gone is replaced once.
        """
        log = os.open(log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            try:
                return await self._fork(kind, request, log, descriptors)
            except ZygoteGone:
                return await self._fork(kind, request, log, descriptors)
        finally:
            for descriptor in (log, *descriptors):
                os.close(descriptor)

    async def _fork(
        self, kind: str, request: dict[str, Any], log: int, descriptors: list[int]
    ) -> tuple[dict[str, Any], socket.socket, socket.socket]:
        control = await self.zygote(kind)
        channel, channel_child = socket.socketpair()
        status, status_child = socket.socketpair()
        with channel_child, status_child:
            passed = (channel_child.fileno(), log, status_child.fileno(), *descriptors)
            try:
                async with self._locks.setdefault(kind, asyncio.Lock()):
                    zygote.send(control, request, passed)
                    answer = await self._answer(control, BIRTH_SECONDS, "a zygote")
            except (OSError, Lost) as failure:
                for end in (channel, status):
                    end.close()
                self._zygotes.pop(kind, None)
                raise ZygoteGone(f"a zygote is gone: {failure}") from None
        for end in (channel, status):
            end.setblocking(False)
        return answer, channel, status

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
    folders = []
    for name in ("torch", "triton", "numpy"):
        with contextlib.suppress(ImportError, ValueError):
            found = importlib.util.find_spec(name)
            if found is not None and found.origin is not None:
                folders.append(str(Path(found.origin).resolve().parent.parent))
    return folders
