"""Compile a candidate's kernels in parallel, before its process makes a CUDA context.

Each helper is a fork of the candidate's process, inside the same layers. It calls the entry on tensors
without contents, for some of the shapes, with a driver that answers for the card; what is compiled lands in
the process's Triton cache, where the real calls find it. What a helper cannot do, the real call does later.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from typing import Any

import candidatefile
import standins
import tensors
from triton.runtime.jit import JITFunction

HELPERS = 12
"""Each may have a compiler and its parts below it; the host ends who has too many processes."""


def build(path: str, entry: str, order: dict[str, Any]) -> bool:
    """Compile for `order["shapes"]` (layout and call), on `order["target"]`; whether all helpers came to
    their end. Those still at work after `order["seconds"]` are ended.
    """
    started = time.monotonic()
    shapes = order["shapes"]
    if not shapes:
        return True
    count = max(1, min(HELPERS, len(shapes), int(order["helpers"])))
    helpers = []
    for number in range(count):
        pid = os.fork()
        if pid == 0:
            with contextlib.suppress(BaseException):
                _help(path, entry, shapes[number::count], order["target"])
            os._exit(0)
        helpers.append(pid)
    while helpers and time.monotonic() - started < order["seconds"]:
        helpers = [pid for pid in helpers if os.waitpid(pid, os.WNOHANG) == (0, 0)]
        time.sleep(0.005)
    for pid in helpers:
        with contextlib.suppress(OSError):
            os.kill(pid, 9)
            os.waitpid(pid, 0)
    return not helpers


def _help(path: str, entry: str, shapes: list[dict[str, Any]], target: dict[str, Any]) -> None:
    standins.install_driver(target)
    standins.install_queries(target)
    run = JITFunction.run

    def compile_only(fn: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        compiled = run(fn, *args, grid=grid, warmup=True, **kwargs)
        _build_launcher(compiled)
        return compiled

    JITFunction.run = compile_only
    with standins.DeviceStandIn("meta"):
        function: Callable[..., Any] = candidatefile.load(path, entry)
        for shape in shapes:
            with contextlib.suppress(Exception):
                tensors.call(function, shape["call"], tensors.meta_from(shape["layout"]))


def _build_launcher(compiled: Any) -> None:
    """Triton before 3.7 compiles a small C module for each signature, and one for the driver."""
    with contextlib.suppress(Exception):
        from triton.backends.nvidia.driver import CudaLauncher, CudaUtils

        CudaUtils()
        CudaLauncher(compiled.src, compiled.metadata)
