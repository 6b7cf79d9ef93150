"""A candidate's process in Triton's interpreter: it answers one call after the other.

Inputs lie in memory shared with the referee, answers are copied there. The host says where, never what for:
a compared call, a repeat at another address and a call with one element changed look the same. What the
process says about itself (launches, torch operations, threads) goes back with each answer.
"""

from __future__ import annotations

import mmap
import os
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import candidatefile
import census
import hazards
import identity
import interpreting
import launchargs
import patterns
import samples
import standins
import tensors
import torch
import triton.runtime.interpreter as interpreter
from candidatefile import Refused
from triton.runtime.interpreter import InterpretedFunction
from triton.runtime.jit import JITFunction
from wire import Wire, one_line

HELD = 16
"""Answers that stay alive, so that no later one may lie where they do."""
NAMESPACE_PROCESSES = 8
"""With more processes than this in sight, they are the system's and not the candidate's."""

STAND_IN_TARGET = {
    "title": "a card in the interpreter", "arch": 80, "sms": 16, "memory_bytes": 16 << 30,
    "l2_bytes": 4 << 20, "warps_sm": 48, "registers_sm": 65536, "smem_sm_bytes": 100 << 10,
    "smem_block_bytes": 99 << 10,
}  # fmt: skip
"""What device queries answer where the request names no target."""


class Launches:
    """Stands in for InterpretedFunction.run: counts the launches, leaves the work to the interpreter.

    While `idle`, launches are counted and nothing runs; `backwards`, programs run from the last to the first.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._run = InterpretedFunction.run
        self.seen: list[list[Any]] = []
        self.given: list[dict[str, str]] = []
        self.census = census.Census(poison=False)
        self.reads = standins.DeviceStandIn("cpu")
        self.hazards = hazards.Hazards()
        self.idle = False
        self.backwards = False
        self.sampler: samples.Sampler | None = None
        """Takes the launches in place of the interpreter, and runs some of their programs by `execute`."""
        self.tracer = samples.Tracer()
        self._chosen: tuple[list[int], list[tuple[int, int, int]]] | None = None
        self._grid: list[int] = []

    def install(self) -> None:
        launches = self
        set_grid_dim = interpreter.interpreter_builder.set_grid_dim
        set_grid_idx = interpreter.interpreter_builder.set_grid_idx

        def remember(*dims: int) -> Any:
            if launches._chosen is not None:
                return set_grid_dim(*launches._chosen[0])
            launches._grid = [int(n) for n in dims]
            return set_grid_dim(*dims)

        def place(*at: int) -> Any:
            if launches._chosen is not None:
                at = launches._chosen[1][at[0]]
                launches.tracer.next_program()
            elif launches.backwards:
                at = tuple(size - 1 - n for size, n in zip(launches._grid, at, strict=True))
            return set_grid_idx(*at)

        def run(fn: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
            return launches.run(fn, args, kwargs, grid, warmup)

        def not_here(fn: Any, *args: Any, **kwargs: Any) -> Any:
            raise Refused(
                "unproven", f"{one_line(fn.__name__, 80)} is a kernel that the interpreter cannot run"
            )

        self.hazards.install()
        interpreter.interpreter_builder.set_grid_dim = remember
        interpreter.interpreter_builder.set_grid_idx = place
        InterpretedFunction.run = run
        JITFunction.run = not_here
        self.tracer.install()

    def begin(self, counted: census.Census, *, idle: bool, backwards: bool = False) -> None:
        """A new call."""
        self.census, self.idle, self.backwards = counted, idle, backwards
        self.seen, self.given = [], []
        self.reads.reads.clear()

    def run(self, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any], grid: Any, warmup: bool) -> Any:
        if not candidatefile.is_own(fn.fn, self._path):
            raise Refused("cheat", f"launched {one_line(fn.__name__, 80)}, which its file does not define")
        given = launchargs.described(fn.fn, fn.arg_names, args, kwargs)
        self.hazards.launching(fn.arg_names, args, kwargs)
        result = None
        self.census.paused = self.reads.paused = True
        try:
            if (self.idle or self.sampler is not None) and not warmup:
                bound = {**dict(zip(fn.arg_names, args, strict=False)), **kwargs}
                dims = [int(n) for n in (grid(bound) if callable(grid) else grid)]
                self._grid = dims + [1] * (3 - len(dims))
                if self.sampler is not None and min(self._grid) > 0:
                    self.sampler.take(fn, args, kwargs, self._grid)
            else:
                result = self._run(fn, *args, grid=grid, warmup=warmup, **kwargs)
        finally:
            self.census.paused = self.reads.paused = False
        if not warmup and min(self._grid) > 0:
            self.seen.append([fn.fn.__name__, self._grid])
            self.given.append(given)
        return result

    def execute(
        self,
        fn: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        dims: list[int],
        programs: list[tuple[int, int, int]],
    ) -> None:
        """Run some programs of a grid of `dims`, which the kernel sees as it is."""
        paused = self.census.paused, self.reads.paused
        self.census.paused = self.reads.paused = True
        self._chosen = (dims, programs)
        try:
            self._run(fn, *args, grid=(len(programs), 1, 1), warmup=False, **kwargs)
        finally:
            self._chosen = None
            self.census.paused, self.reads.paused = paused


class Memory:
    """The memory shared with the referee, as tensors."""

    def __init__(self, descriptor: int) -> None:
        self._map = mmap.mmap(descriptor, os.fstat(descriptor).st_size)

    def bytes_at(self, region: dict[str, int]) -> torch.Tensor:
        return torch.frombuffer(self._map, dtype=torch.uint8, count=region["bytes"], offset=region["offset"])

    def inputs(
        self, layout: dict[str, dict[str, Any]], regions: list[dict[str, int]]
    ) -> dict[str, torch.Tensor]:
        return tensors.laid_out(layout, [self.bytes_at(region) for region in regions])

    def store(self, tensor: torch.Tensor, region: dict[str, int]) -> None:
        """Copy a tensor's elements, in order, to a region; no more than fits."""
        flat = tensor.detach().contiguous().view(torch.uint8).flatten()[: region["bytes"]]
        self.bytes_at(region)[: flat.numel()].copy_(flat)


def warm() -> None:
    interpreting.warm()


def run(wire: Wire, specification: dict[str, Any], descriptors: list[int]) -> int:
    torch.set_num_threads(1)
    path = specification["source_path"]
    target = specification.get("target") or STAND_IN_TARGET
    standins.install_queries(target)
    launches = Launches(path)
    launches.install()
    memory = Memory(descriptors[0])
    arena = patterns.Arena(descriptors[1]) if len(descriptors) > 1 else None
    sampler = samples.Sampler(launches, launches.tracer, path)
    snapshot = identity.Snapshot()
    wire.send(phase="load")
    try:
        with launches.reads:
            entry = candidatefile.load(path, specification["entry"])
            wire.send(ready=True)
            held: deque[torch.Tensor] = deque(maxlen=HELD)
            kept = census.Kept()
            while True:
                step = wire.receive()
                if "stop" in step:
                    break
                if "shape" in step:
                    wire.send(report=_launches_of(entry, step, launches, path))
                    continue
                if "sample" in step and arena is not None:
                    report = _sampled(entry, step, memory, sampler, arena, path)
                    candidatefile.flush()
                    wire.send(report=report)
                    continue
                if step["spoil"]:
                    kept.poison({out.untyped_storage().data_ptr() for out in held})
                counted = census.Census(poison=True, kept=kept)
                report = _one(entry, step, memory, launches, counted, held, path)
                candidatefile.flush()
                wire.send(report=report)
    except Refused as refused:
        candidatefile.print_trace(refused.__cause__ or refused)
        wire.send(refused={"outcome": refused.outcome, "detail": refused.detail})
        return 0
    except EOFError:
        return 0
    wire.send(changed=snapshot.changed()[:20])
    return 0


def _one(
    entry: Callable[..., Any],
    step: dict[str, Any],
    memory: Memory,
    launches: Launches,
    counted: census.Census,
    held: deque[torch.Tensor],
    path: str,
) -> dict[str, Any]:
    """One call and its report. The answer joins those that are `held`."""
    inputs = memory.inputs(step["layout"], step["regions"])
    launches.begin(counted, idle=step["idle"], backwards=step["backwards"])
    launches.hazards.begin(varied=step["backwards"])
    threads = threads_now()
    started = time.perf_counter()
    try:
        with counted:
            out = tensors.call(entry, step["call"], inputs)
    except Refused:
        raise
    except BaseException as failure:
        raise _refused(failure, path) from failure
    seconds = time.perf_counter() - started
    found = launches.hazards.end()
    report: dict[str, Any] = {
        "seconds": seconds,
        "launches": launches.seen,
        "given": launches.given,
        "aten": dict(counted.counts),
        "foreign": counted.foreign(),
        "synchronising": counted.synchronising() + sorted(launches.reads.reads),
        "poisoned": counted.poisoned,
        "hazards": found,
        "threads": [threads, threads_now()],
        "type": f"{type(out).__module__}.{type(out).__qualname__}",
    }
    if type(out) is not torch.Tensor:
        raise Refused("invalid", f"returns {type(out).__name__} and not a tensor")
    report |= {
        "shape": list(out.shape),
        "dtype": str(out.dtype).removeprefix("torch."),
        "aliases": [name for name, tensor in inputs.items() if _overlap(out, tensor)],
        "shares_previous": any(_overlap(out, earlier) for earlier in held),
    }
    memory.store(out, step["out"])
    if held and step["held"] is not None:
        memory.store(held[-1], step["held"])
    held.append(out)
    return report


def _sampled(
    entry: Callable[..., Any],
    step: dict[str, Any],
    memory: Memory,
    sampler: samples.Sampler,
    arena: patterns.Arena,
    path: str,
) -> dict[str, Any]:
    """Rows of a timed shape's result that a few of its programs wrote; their values go to the memory."""
    started = time.perf_counter()
    try:
        inputs = arena.inputs(step["sample"], step["orders"], step["integers"])
        report, values = sampler.answer(entry, step, inputs)
    except Refused:
        raise
    except MemoryError:
        report, values = {"unproven": "there is no room for its inputs"}, None
    except BaseException as failure:
        why = _refused(failure, path)
        if why.outcome not in ("oom", "unproven"):
            raise why from failure
        report, values = {"unproven": why.detail}, None
    if values is not None:
        memory.store(values, step["out"])
    return {**report, "seconds": round(time.perf_counter() - started, 4)}


def _launches_of(
    entry: Callable[..., Any], step: dict[str, Any], launches: Launches, path: str
) -> dict[str, Any]:
    """What a call launches on inputs that nobody has filled, while no kernel runs, or why it fails.

    Where memory is short, the inputs are only made believe.
    """
    sizes = {one["storage"]: one["storage_bytes"] for one in step["shape"].values()}
    for contents in (True, False):
        counted = census.Census(poison=False, contents=False)
        launches.begin(counted, idle=True)
        try:
            if contents:
                storages = [torch.empty(sizes[storage], dtype=torch.uint8) for storage in sorted(sizes)]
                inputs = tensors.laid_out(step["shape"], storages)
            else:
                inputs = tensors.meta_from(step["shape"])
            with counted:
                tensors.call(entry, step["call"], inputs)
        except BaseException as failure:  # noqa: BLE001 (what it means is for the probes to say)
            why = failure if isinstance(failure, Refused) else _refused(failure, path)
            if why.outcome != "oom" or not contents:
                return {"failed": why.detail}
        else:
            break
    return {"launches": launches.seen, "given": launches.given}


def _refused(failure: BaseException, path: str) -> Refused:
    """What an exception out of a call in the interpreter means."""
    cause: BaseException = failure
    while cause.__cause__ is not None and type(cause).__name__ == "InterpreterError":
        cause = cause.__cause__
    text = candidatefile.describe(failure if cause is failure else cause, path)
    if isinstance(cause, NotImplementedError) or "not supported in interpreter mode" in str(cause):
        return Refused("unproven", f"the interpreter cannot run it: {text}")
    return Refused(candidatefile.outcome_of(cause), text)


def _overlap(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Whether two tensors' storages share memory."""
    a, b = left.untyped_storage(), right.untyped_storage()
    begin, other = a.data_ptr(), b.data_ptr()
    return bool(begin < other + b.nbytes() and other < begin + a.nbytes())


def threads_now() -> int:
    """Threads of this process, and the processes of its namespace where it has one."""
    try:
        processes = sum(1 for path in Path("/proc").iterdir() if path.name.isdigit())
        threads = sum(1 for _ in Path("/proc/self/task").iterdir())
    except OSError:
        return 0
    return threads + (processes if processes <= NAMESPACE_PROCESSES else 0)
