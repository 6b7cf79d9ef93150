"""A few programs of a real launch in the interpreter: real shapes, strides, grid and arguments, few rows.

A call is made twice. The first time no program runs, and is found out which ones have to: one of each launch
that writes the result, drawn by the referee, and of the launches before those whose stores it reads. A
program's stores are found by running it without the loops that store nothing; which programs reach certain
addresses is guessed from a few of them and checked. The second time just these run, in their order. What
reads memory that none of them wrote, takes too long or cannot be followed proves nothing.
"""

from __future__ import annotations

import ast
import builtins
import functools
import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import census
import numpy as np
import tensors
import torch
import triton.runtime.interpreter as interpreter
from candidatefile import Refused

CPU_SECONDS = 90.0
ENOUGH_S = 0.5
"""A program that has stored a piece of the result and goes on to the next is stopped after so long."""
TRIES = 3
MOST_PROGRAMS = 512
"""Programs of one launch that a row may need."""
FEW_PROGRAMS = 48
LOOKED_AT = 2048
"""Of so many programs at most the stores of each are looked at, if a guess does not find all."""
MOST_ROWS = 128

_ATOMIC = ("create_atomic_rmw", "create_atomic_cas", "create_atomic_poll")


class Unknown(BaseException):
    """This sample proves nothing, and why. No `except Exception` of a kernel catches it."""


class Enough(BaseException):
    """The program has done what was asked of it."""


@dataclass
class Call:
    """One launch of the first call."""

    function: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    dims: list[int]
    programs: list[tuple[int, int, int]] = field(default_factory=list)
    target: bool = False

    @property
    def count(self) -> int:
        return math.prod(self.dims)

    def program(self, number: int) -> tuple[int, int, int]:
        x, y, _ = self.dims
        return number % x, number // x % y, number // (x * y)

    def tensors(self) -> Iterator[torch.Tensor]:
        for value in (*self.args, *self.kwargs.values()):
            base = getattr(value, "base", None) if hasattr(value, "block_shape") else value
            if isinstance(base, torch.Tensor):
                yield base


class Tracer:
    """Stands in for the interpreter's loads and stores while a sample runs."""

    def __init__(self) -> None:
        self.mode = ""
        self.until = math.inf
        self.addresses: list[list[np.ndarray[Any, Any]]] = []
        """By program, what it read or where it would store."""
        self.written: dict[tuple[int, int], np.ndarray[Any, Any]] = {}
        """By (address, bytes) of memory that is watched: which of its 2-byte places were stored to."""
        self.final: int = 0
        """Address of the result's memory, while a program of a target runs that may be stopped."""
        self.stored_final = False
        self.began = 0.0
        self.missing = False

    def install(self) -> None:
        builder = interpreter.interpreter_builder
        load, store = builder.create_masked_load, builder.create_masked_store

        def traced_load(ptrs: Any, mask: Any, *rest: Any, **named: Any) -> Any:
            if not self.mode:
                return load(ptrs, mask, *rest, **named)
            self._look_at_the_clock()
            found = load(ptrs, mask, *rest, **named)
            if self.mode == "trace":
                self.addresses[-1].append(_masked(ptrs, mask))
            elif self.mode == "run" and not self.missing and found.data.dtype.kind == "f":
                odd = np.isnan(found.data) & np.broadcast_to(mask.data, found.data.shape)
                if odd.any():
                    self._note_missing(np.broadcast_to(ptrs.data, odd.shape)[odd])
            return found

        def traced_store(ptrs: Any, value: Any, mask: Any, *rest: Any, **named: Any) -> Any:
            if not self.mode:
                return store(ptrs, value, mask, *rest, **named)
            if self.mode == "address":
                self.addresses[-1].append(_masked(ptrs, mask))
            if self.mode != "run":
                return None
            self._note_written(_masked(ptrs, mask), ptrs)
            return store(ptrs, value, mask, *rest, **named)

        def traced_atomic(original: Callable[..., Any]) -> Callable[..., Any]:
            def atomic(*args: Any, **named: Any) -> Any:
                if self.mode:
                    raise Unknown("what atomic operations add up to needs all programs")
                return original(*args, **named)

            return atomic

        builder.create_masked_load, builder.create_masked_store = traced_load, traced_store
        for name in _ATOMIC:
            if hasattr(builder, name):
                setattr(builder, name, traced_atomic(getattr(builder, name)))

    def next_program(self) -> None:
        """The interpreter turns to another program."""
        self.addresses.append([])
        self.began, self.stored_final = time.process_time(), False

    def _look_at_the_clock(self) -> None:
        now = time.process_time()
        if now > self.until:
            raise Unknown(f"its programs take the interpreter more than {CPU_SECONDS:.0f} s")
        if self.stored_final and now - self.began > ENOUGH_S:
            raise Enough

    def _note_written(self, addresses: np.ndarray[Any, Any], ptrs: Any) -> None:
        size = max(2, ptrs.get_element_ty().primitive_bitwidth // 8)
        for (base, length), places in self.written.items():
            inside = addresses[(addresses >= base) & (addresses < base + length)] - np.uint64(base)
            for part in range(0, size, 2):
                places[(inside + np.uint64(part)) >> np.uint64(1)] = True
            if base == self.final and len(inside):
                self.stored_final = True

    def _note_missing(self, addresses: np.ndarray[Any, Any]) -> None:
        """NaN was read: because nobody wrote there?"""
        for (base, length), places in self.written.items():
            inside = addresses[(addresses >= base) & (addresses < base + length)] - np.uint64(base)
            self.missing |= bool(len(inside)) and not bool(places[inside >> np.uint64(1)].all())


def _masked(ptrs: Any, mask: Any) -> np.ndarray[Any, Any]:
    addresses = np.asarray(ptrs.data, dtype=np.uint64)
    chosen: np.ndarray[Any, Any] = addresses[np.broadcast_to(mask.data, addresses.shape)]
    return chosen


class Sampler:
    """Answers samples in the candidate's process. `launches` hands each launch of one to `take`."""

    def __init__(self, launches: Any, tracer: Tracer, path: str) -> None:
        self._launches = launches
        self._tracer = tracer
        self._path = path
        self._calls: list[Call] = []
        self._at = 0
        self._planning = False
        self._inputs: set[int] = set()
        self._scratch: set[tuple[int, int]] = set()
        """(address, bytes) of the memory that launches share and that is no input."""
        self._result_place = -1

    def answer(
        self, entry: Callable[..., Any], step: dict[str, Any], inputs: dict[str, torch.Tensor]
    ) -> tuple[dict[str, Any], torch.Tensor | None]:
        """What a sample's programs wrote: a report with `rows` (batch, head, query), and values [n, D]."""
        tracer = self._tracer
        tracer.until = time.process_time() + CPU_SECONDS
        self._launches.sampler = self
        try:
            for draw in step["draws"][:TRIES]:
                rows, values, grids = self._once(entry, step, inputs, draw)
                if len(rows):
                    return {"rows": rows, "programs": grids}, values
        except Unknown as why:
            return {"unproven": str(why)}, None
        finally:
            self._launches.sampler = None
            self._calls, tracer.mode, tracer.written = [], "", {}
        return {"nothing": f"{TRIES} programs of the real launch wrote nothing into the result"}, None

    def take(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], dims: list[int]) -> None:
        """A launch of the candidate's call."""
        if self._planning:
            self._calls.append(Call(function, args, kwargs, dims))
            return
        if self._at >= len(self._calls):
            raise Unknown("it launches more the second time")
        plan = self._calls[self._at]
        self._at += 1
        if plan.function is not function or plan.dims != dims:
            raise Unknown("it launches other kernels the second time")
        now = Call(function, args, kwargs, dims, plan.programs, plan.target)
        for tensor in now.tensors():
            storage = tensor.untyped_storage()
            key = (storage.data_ptr(), storage.nbytes())
            if key[0] not in self._inputs and key not in self._tracer.written:
                self._tracer.written[key] = np.zeros(key[1] // 2 + 8, dtype=np.bool_)
        tracer = self._tracer
        tracer.final = self._result_of(now) if now.target and self._at == len(self._calls) else 0
        for program in now.programs:
            self._execute(now, [program], "run")

    def _result_of(self, call: Call) -> int:
        """Address of the result's memory among a launch's tensors, by what the first call showed; else 0."""
        tensors_ = list(call.tensors())
        place = self._result_place
        return tensors_[place].untyped_storage().data_ptr() if 0 <= place < len(tensors_) else 0

    # ---- one call, twice ------------------------------------------------------------------------------

    def _once(
        self, entry: Callable[..., Any], step: dict[str, Any], inputs: dict[str, torch.Tensor], draw: float
    ) -> tuple[list[list[int]], torch.Tensor | None, list[str]]:
        tracer = self._tracer
        self._inputs = {tensor.untyped_storage().data_ptr() for tensor in inputs.values()}
        self._calls, self._planning, tracer.written, tracer.missing, tracer.final = [], True, {}, False, 0
        out = self._call(entry, step, inputs, poison=False)
        if not self._calls:
            raise Unknown("it launches nothing")
        self._plan(out.untyped_storage().data_ptr(), draw)
        self._at, self._planning = 0, False
        del out
        out = self._call(entry, step, inputs, poison=True)
        if tracer.missing:
            raise Unknown("which programs prepare what the result is made of was not found out")
        if out.dtype != torch.float16 or out.dim() != 4:
            raise Unknown("the result is not what it is for small shapes")
        rows = self._rows(out)
        named = [
            f"{c.function.fn.__name__}{list(p)} of {c.dims}" for c in self._calls for p in c.programs[:3]
        ]
        if not len(rows):
            return [], None, named
        return rows.tolist(), out[rows[:, 0], rows[:, 1], rows[:, 2]], named

    def _call(
        self,
        entry: Callable[..., Any],
        step: dict[str, Any],
        inputs: dict[str, torch.Tensor],
        *,
        poison: bool,
    ) -> torch.Tensor:
        counted = census.Census(poison=poison)
        self._launches.begin(counted, idle=False)
        with counted:
            out = tensors.call(entry, step["call"], inputs)
        if type(out) is not torch.Tensor:
            raise Refused("invalid", f"returns {type(out).__name__} and not a tensor")
        return out

    def _rows(self, out: torch.Tensor) -> torch.Tensor:
        """Rows of the result that were stored whole, at most MOST_ROWS."""
        storage = out.untyped_storage()
        places = self._tracer.written.get((storage.data_ptr(), storage.nbytes()))
        if places is None or not places.any():
            stored = ~torch.isnan(out)
        else:
            stored = torch.from_numpy(places).as_strided(out.shape, out.stride(), out.storage_offset())
        whole = stored.all(-1)
        if not bool(whole.any()) and bool(stored.any()):
            raise Unknown("its programs store parts of rows")
        return whole.nonzero()[:MOST_ROWS]

    # ---- which programs -------------------------------------------------------------------------------

    def _plan(self, result: int, draw: float) -> None:
        calls = self._calls
        pointers = [t.untyped_storage().data_ptr() for t in calls[-1].tensors()]
        self._result_place = pointers.index(result) if result in pointers else -1
        for call in calls:
            call.target = any(t.untyped_storage().data_ptr() == result for t in call.tensors())
        if not any(call.target for call in calls):
            calls[-1].target = True
        self._scratch = {
            (t.untyped_storage().data_ptr(), t.untyped_storage().nbytes())
            for call in calls
            for t in call.tensors()
            if t.untyped_storage().data_ptr() not in self._inputs
        }
        needed = np.zeros(0, dtype=np.uint64)
        for place in range(len(calls) - 1, -1, -1):
            call = calls[place]
            programs = {call.program(int(draw * call.count))} if call.target else set()
            if len(needed):
                programs.update(self._writers(call, needed))
            if len(programs) > MOST_PROGRAMS:
                raise Unknown(f"a row of the result needs more than {MOST_PROGRAMS} programs of one launch")
            call.programs = sorted(programs, key=lambda p: (p[2], p[1], p[0]))
            if place and programs:
                read = np.concatenate(self._execute(call, call.programs, "trace"))
                needed = np.union1d(needed, _within(read, self._scratch))

    def _writers(self, call: Call, needed: np.ndarray[Any, Any]) -> set[tuple[int, int, int]]:
        """Programs of a launch that store to any of these addresses."""
        found: set[tuple[int, int, int]] = set()
        if call.count > FEW_PROGRAMS:
            guessed = self._guess(call, needed)
            if guessed is not None and len(guessed) <= MOST_PROGRAMS:
                found, covered = self._reaching(call, guessed, needed)
                if covered:
                    return found
        if call.count <= LOOKED_AT:
            found, _ = self._reaching(call, range(call.count), needed)
        return found

    def _reaching(
        self, call: Call, numbers: Iterable[int], needed: np.ndarray[Any, Any]
    ) -> tuple[set[tuple[int, int, int]], bool]:
        """Those of these programs that store to the addresses, and whether they store to all of them."""
        programs = [call.program(number) for number in numbers]
        stores = [np.intersect1d(at, needed) for at in self._execute(call, programs, "address")]
        found = {p for p, at in zip(programs, stores, strict=True) if len(at)}
        return found, bool(found) and len(np.unique(np.concatenate(stores))) == len(needed)

    def _guess(self, call: Call, needed: np.ndarray[Any, Any]) -> list[int] | None:
        """Programs by the pattern that a few show: along each axis of the grid the place of the stores is a
        sum of digits of the program's number, each times a step. One piece of memory is looked at."""
        piece = {one for one in self._scratch if one[0] <= int(needed[0]) < one[0] + one[1]}
        wanted = _within(needed, piece)

        def stored(program: tuple[int, int, int]) -> np.ndarray[Any, Any]:
            return _within(self._execute(call, [program], "address")[0], piece)

        def place(program: tuple[int, int, int]) -> int | None:
            at = stored(program)
            return int(at.min()) if len(at) else None

        first = stored((0, 0, 0))
        if not len(first):
            return None
        start, reach = int(first.min()), int(first.max()) - int(first.min())
        total = np.zeros(call.dims[::-1], dtype=np.int64)
        for axis, count in enumerate(call.dims):
            along = self._along(axis, count, start, place)
            if along is None:
                return None
            shape = [1, 1, 1]
            shape[2 - axis] = count
            total = total + along.reshape(shape)
        begins = start + total.reshape(-1)
        near = np.nonzero((begins <= int(wanted.max())) & (begins + reach >= int(wanted.min())))[0]
        return [int(n) for n in near[: MOST_PROGRAMS + 1]]

    @staticmethod
    def _along(
        axis: int, count: int, start: int, place: Callable[[tuple[int, int, int]], int | None]
    ) -> np.ndarray[Any, Any] | None:
        """How far from program 0 each program of an axis begins to store."""

        def at(number: int) -> int | None:
            program = [0, 0, 0]
            program[axis] = number
            found = place((program[0], program[1], program[2]))
            return None if found is None else found - start

        numbers, total = np.arange(count), np.zeros(count, dtype=np.int64)
        unit = 1
        while unit < count:
            step = at(unit)
            if step is None:
                return None
            good, bad = 1, -(-count // unit)
            if at(unit * (bad - 1)) == step * (bad - 1):
                good = bad - 1
            while bad - good > 1:
                middle = (good + bad) // 2
                if at(unit * middle) == step * middle:
                    good = middle
                else:
                    bad = middle
            radix = good + 1
            total += numbers // unit % radix * step
            unit *= radix
        return total

    # ---- running --------------------------------------------------------------------------------------

    def _execute(
        self, call: Call, programs: list[tuple[int, int, int]], mode: str
    ) -> list[np.ndarray[Any, Any]]:
        """Run these programs; by program, the addresses that it stores to (`address`) or reads (`trace`)."""
        tracer, scope = self._tracer, call.function.fn.__globals__
        tracer.mode, tracer.addresses = mode, []
        before = scope.get("range", builtins.range)
        if mode == "address":
            scope["range"] = self._range
        try:
            self._launches.execute(call.function, call.args, call.kwargs, call.dims, programs)
        except Enough:
            pass
        except Exception as failure:
            if mode == "run" and not tracer.missing:
                raise
            raise Unknown(f"its programs cannot be followed: {type(failure).__name__}") from failure
        finally:
            tracer.mode = ""
            if mode == "address":
                scope["range"] = before
                if before is builtins.range:
                    del scope["range"]
        none = np.zeros(0, dtype=np.uint64)
        return [np.unique(np.concatenate(found)) if found else none for found in tracer.addresses]

    @functools.cached_property
    def _storing(self) -> set[int]:  # asked after the file was loaded: what is no Python was refused there
        return _storing_loops(self._path)

    def _range(self, *bounds: Any) -> range:
        """In place of `range`: loops that store nothing do not decide where is stored to."""
        line = sys._getframe(1).f_lineno
        return builtins.range(*bounds) if line in self._storing else builtins.range(0)


def _within(addresses: np.ndarray[Any, Any], places: set[tuple[int, int]]) -> np.ndarray[Any, Any]:
    inside = np.zeros(addresses.shape, dtype=np.bool_)
    for base, length in places:
        inside |= (addresses >= base) & (addresses < base + length)
    return addresses[inside]


def _storing_loops(path: str) -> set[int]:
    """Lines of the loops in whose bodies, or in functions called there, something is stored."""
    tree = ast.parse(Path(path).read_bytes().decode("utf-8-sig"))
    functions = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    storing: set[str] = set()

    def stores(node: ast.AST) -> bool:
        for inner in ast.walk(node):
            if isinstance(inner, ast.Call):
                if isinstance(inner.func, ast.Attribute) and "store" in inner.func.attr:
                    return True
                if isinstance(inner.func, ast.Name) and inner.func.id in storing:
                    return True
        return False

    for _ in functions:
        more = {name for name, node in functions.items() if name not in storing and stores(node)}
        if not more:
            break
        storing |= more
    lines: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.For) and any(stores(inner) for inner in node.body):
            lines.update(range(node.lineno, (node.iter.end_lineno or node.lineno) + 1))
    return lines
