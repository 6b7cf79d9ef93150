"""Warm processes that fork the children of a job: torch and triton are imported once, not per candidate.

    nest        has torch, forks the zygotes, which share its pages
    compile     has triton; forks captures, lowerings, analysts and referees
    interpret   has triton in its interpreter (TRITON_INTERPRET=1); forks the candidates of checks
    card        has triton; forks what runs on the card, each with a CUDA context of its own

No zygote touches CUDA, runs a torch operation or holds a job's data: a fork of it starts clean. A zygote
gets a request with descriptors over its control socket, forks a keeper (see keeper.py) and answers with the
keeper's process id.
"""

from __future__ import annotations

import array
import contextlib
import gc
import json
import os
import resource
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any

HARNESS = str(Path(__file__).resolve().parent)
if HARNESS not in sys.path:
    sys.path.insert(0, HARNESS)

import kernelcalls as kc  # noqa: E402 (its folder is put on the path above)

DESCRIPTORS = 16
MESSAGE_BYTES = 64 * 1024


def send(control: socket.socket, message: dict[str, Any], descriptors: tuple[int, ...] = ()) -> None:
    socket.send_fds(control, [json.dumps(message).encode()], list(descriptors))


def receive(control: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """One message with its descriptors. Raises EOFError when the other end is gone."""
    size = socket.CMSG_SPACE(DESCRIPTORS * array.array("i").itemsize)
    text, ancillary, _, _ = control.recvmsg(MESSAGE_BYTES, size)
    descriptors = array.array("i")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            descriptors.frombytes(data[: len(data) - len(data) % descriptors.itemsize])
    if not text:
        raise EOFError
    return json.loads(text), list(descriptors)


def nest(control: socket.socket) -> None:
    """Import torch, then fork zygotes on request until the host is gone."""
    kc.prctl(kc.PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    started = time.monotonic()
    try:
        import torch  # noqa: F401 (imported to be warm in every fork)
    except Exception as failure:  # noqa: BLE001 (a broken installation can raise anything)
        send(control, {"failed": f"torch cannot be imported: {failure}"[:2000]})
        return
    send(control, {"ready": "nest", "seconds": time.monotonic() - started})
    while True:
        try:
            request, descriptors = receive(control)
        except EOFError:
            return
        if os.fork() == 0:
            control.close()
            serve(socket.socket(fileno=descriptors[0]), request["hatch"])
            os._exit(0)
        for descriptor in descriptors:
            os.close(descriptor)


def serve(control: socket.socket, kind: str) -> None:
    """One zygote: import triton and the roles, then fork keepers on request."""
    kc.prctl(kc.PR_SET_PDEATHSIG, signal.SIGKILL)
    started = time.monotonic()
    try:
        if kind == "interpret":
            os.environ["TRITON_INTERPRET"] = "1"
        import roles

        roles.warm(kind)
    except Exception as failure:  # noqa: BLE001 (a broken installation can raise anything)
        send(control, {"failed": f"triton cannot be imported: {failure}"[:2000]})
        return
    threads = sum(1 for _ in Path("/proc/self/task").iterdir())
    resident_pages = int(Path("/proc/self/statm").read_text().split()[1])
    shared_bytes = resident_pages * resource.getpagesize()
    # What is here stays: a collector that looked through it in every fork would copy all of its pages.
    gc.collect()
    gc.freeze()
    send(control, {"ready": kind, "seconds": time.monotonic() - started, "threads": threads})
    while True:
        try:
            request, descriptors = receive(control)
        except EOFError:
            return
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            control.close()
            import keeper

            with contextlib.suppress(BaseException):
                keeper.keep(request, descriptors)
            os._exit(1)
        for descriptor in descriptors:
            os.close(descriptor)
        send(control, {"pid": pid, "shared_bytes": shared_bytes})


if __name__ == "__main__":
    nest(socket.socket(fileno=int(sys.argv[1])))
