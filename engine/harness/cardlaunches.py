"""The launches of a candidate on the card, seen where Triton's own entry for them is."""

from __future__ import annotations

from typing import Any

import candidatefile
import launchargs
from candidatefile import Refused
from triton.runtime.jit import JITFunction
from wire import one_line


class Launches:
    """Stands before JITFunction.run and remembers each launch: [name, grid], and what it was given.

    While `idle`, launches are remembered and nothing runs.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._run = JITFunction.run
        self.seen: list[list[Any]] = []
        self.given: list[dict[str, str]] = []
        self.idle = False
        self.timed = False
        """Launches are let through at once."""

    def install(self) -> None:
        launches = self

        straight = self._run

        def run(fn: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
            if launches.timed:
                return straight(fn, *args, grid=grid, warmup=warmup, **kwargs)
            return launches.run(fn, args, kwargs, grid, warmup)

        JITFunction.run = run

    def begin(self, *, idle: bool) -> None:
        """A new call."""
        self.idle = idle
        self.seen, self.given = [], []

    def run(self, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any], grid: Any, warmup: bool) -> Any:
        if not candidatefile.is_own(fn.fn, self._path):
            raise Refused("cheat", f"launched {one_line(fn.__name__, 80)}, which its file does not define")
        if warmup:
            return self._run(fn, *args, grid=grid, warmup=True, **kwargs)
        bound = {**dict(zip(fn.arg_names, args, strict=False)), **kwargs}
        dims = grid(bound) if callable(grid) else grid
        size = [int(n) for n in (dims if isinstance(dims, tuple | list) else (dims,))]
        size += [1] * (3 - len(size))
        given = launchargs.described(fn.fn, fn.arg_names, args, kwargs)
        result = None
        if not self.idle:
            result = self._run(fn, *args, grid=grid, warmup=False, **kwargs)
        if min(size) > 0:
            self.seen.append([fn.fn.__name__, size])
            self.given.append(given)
        return result
