"""The process between a zygote and a child: it starts the child inside its layers and buries it.

    zygote ── keeper ── init (PID 1 of the child's namespace) ── child
                                     or, without that namespace:
    zygote ── keeper (subreaper) ── child

The keeper never runs candidate code. It reports to the host on a line of its own (`status`), which the child
does not have: that the child started, and how it ended. When the host says `kill`, or is gone, the keeper
kills everything below it and ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import kernelcalls as kc
import sandbox
from wire import Wire

SWEEP_SECONDS = 5.0


def keep(request: dict[str, Any], descriptors: list[int]) -> None:
    """Run one child from start to end. Never returns.

    `descriptors`: channel, log, status, then those that the role asks for.
    """
    channel, log, status = descriptors[:3]
    os.setsid()
    null = os.open("/dev/null", os.O_RDONLY)
    for source, target in ((null, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    os.close(null)
    os.close(log)
    os.umask(0o077)
    line = socket.socket(fileno=status)
    bounds = None
    if request["bounds"] is not None:
        raw = request["bounds"]
        bounds = sandbox.Bounds(**{**raw, "layers": tuple(raw["layers"]), "readable": tuple(raw["readable"])})
    try:
        first = _start(request, descriptors, line, bounds)
    except BaseException as failure:  # noqa: BLE001 (the host is told, whatever it is)
        _say(line, {"lost": f"{type(failure).__name__}: {failure}"[:400]})
        os._exit(1)
    os.close(channel)
    for descriptor in descriptors[3:]:
        os.close(descriptor)
    namespaced = bounds is not None and "pid_namespace" in bounds.layers
    _say(line, {"started": first, "namespaced": namespaced})
    _watch(line, first, namespaced)
    os._exit(0)


def _say(line: socket.socket, message: dict[str, Any]) -> None:
    with contextlib.suppress(OSError):
        line.sendall(json.dumps(message).encode() + b"\n")


def _start(
    request: dict[str, Any], descriptors: list[int], line: socket.socket, bounds: sandbox.Bounds | None
) -> int:
    """Fork the first process below the keeper; its id as the host sees it."""
    if bounds is None:
        kc.prctl(kc.PR_SET_CHILD_SUBREAPER, 1)
        pid = os.fork()
        if pid == 0:
            _child(request, descriptors, line, None)
        return pid
    if "pid_namespace" not in bounds.layers and "subreaper" in bounds.layers:
        kc.prctl(kc.PR_SET_CHILD_SUBREAPER, 1)
    root = Path(bounds.work).with_name(Path(bounds.work).name + "-root")
    if "mount_namespace" in bounds.layers:
        root.mkdir(exist_ok=True)
    sandbox.enter_namespaces(bounds.layers)
    alive, hold = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(hold)
        if "pid_namespace" in bounds.layers:
            _init(request, descriptors, line, bounds, str(root), alive)
        os.close(alive)
        sandbox.build_root(bounds, str(root))
        _child(request, descriptors, line, bounds)
    os.close(alive)
    os.write(hold, b".")  # the descriptor stays open: init sees our end by it
    return pid


def _init(
    request: dict[str, Any],
    descriptors: list[int],
    line: socket.socket,
    bounds: sandbox.Bounds,
    root: str,
    alive: int,
) -> None:
    """PID 1: builds the root, forks the child, reaps orphans, reports the child's end, and ends them all."""
    kc.prctl(kc.PR_SET_PDEATHSIG, signal.SIGKILL)
    if not os.read(alive, 1):
        os._exit(1)  # the keeper died before the line above
    try:
        sandbox.build_root(bounds, root)
    except OSError as failure:
        _say(line, {"lost": f"sandbox: {failure}"})
        os._exit(1)
    child = os.fork()
    if child == 0:
        _child(request, descriptors, line, bounds)
    for descriptor in (descriptors[0], *descriptors[3:]):
        os.close(descriptor)
    while True:
        pid, status, usage = os.wait4(-1, 0)
        if pid == child:
            _say(line, _ending(status, usage.ru_maxrss))
            os._exit(0)


def _ending(status: int, maxrss_kib: int) -> dict[str, Any]:
    code = os.waitstatus_to_exitcode(status)
    return {
        "ended": True,
        "code": code if code >= 0 else None,
        "signal": -code if code < 0 else None,
        "peak_bytes": maxrss_kib * 1024,
    }


def _child(
    request: dict[str, Any], descriptors: list[int], line: socket.socket, bounds: sandbox.Bounds | None
) -> None:
    """The child itself: confine it, then run its role. Never returns."""
    line.close()
    kc.prctl(kc.PR_SET_PDEATHSIG, signal.SIGKILL)
    channel = socket.socket(fileno=descriptors[0])
    work = request["work"]
    for name in ("HOME", "TMPDIR", "XDG_CACHE_HOME"):
        os.environ[name] = work
    os.environ["TRITON_CACHE_DIR"] = work + "/triton"
    tempfile.tempdir = work
    os.chdir(work)
    status = 1
    try:
        import roles

        wire = Wire(channel)
        if bounds is not None:
            sandbox.confine(bounds)
        status = roles.run(request["role"], wire, descriptors[3:])
    except BaseException as failure:  # noqa: BLE001 (the log shows it, the host reads the status)
        with contextlib.suppress(BaseException):
            sys.stderr.write(f"harness: {type(failure).__name__}: {failure}\n")
    with contextlib.suppress(BaseException):
        sys.stdout.flush()
    os._exit(status)


def _watch(line: socket.socket, first: int, namespaced: bool) -> None:
    """Wait for the end of `first`, or for the host's word or end; then leave nothing below."""
    poller = select.poll()
    poller.register(line.fileno(), select.POLLIN | select.POLLHUP)
    process = os.pidfd_open(first)
    poller.register(process, select.POLLIN)
    for descriptor, _ in poller.poll():
        if descriptor == line.fileno():
            with contextlib.suppress(ProcessLookupError):
                os.kill(first, signal.SIGKILL)
    if not namespaced:
        kill_below(os.getpid(), keep_zombie=first)
    with contextlib.suppress(ChildProcessError):
        _, status, usage = os.wait4(first, 0)
        _say(line, {**_ending(status, usage.ru_maxrss), "by": "init" if namespaced else "child"})
    if not namespaced:
        kill_below(os.getpid())


def descendants(pid: int) -> list[int]:
    """Every living process below `pid`, found by parent links."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, IndexError, ValueError):
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
                if fields[0] != "Z":
                    parents.setdefault(int(fields[1]), []).append(int(entry.name))
    found: list[int] = []
    queue = [pid]
    while queue:
        for child in parents.get(queue.pop(), ()):
            found.append(child)
            queue.append(child)
    return found


def kill_below(pid: int, keep_zombie: int | None = None) -> bool:
    """Kill all processes below `pid`, first stopping them so that none can fork on. True if none is left."""
    deadline = time.monotonic() + SWEEP_SECONDS
    while found := descendants(pid):
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for other in found:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(other, number)
        with contextlib.suppress(ChildProcessError):
            while pid == os.getpid() and keep_zombie is None and os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True
