"""A contestant of a timed race: answers the clock's orders on a line of its own, whoever is behind it.

A candidate's process and the process of a baseline run this same code; they differ in what is called. An
order is one JSON object, its answer another:

    make     room for a workload's input sets, at new addresses
    load     the sets' contents, out of the shared memory
    capture  the calls into one graph, over all sets in turn; what the graph launches
    eager    how long the host takes to launch one call
    flip     new contents and poisoned answers
    wake     have the card turn to this process
    go       replay, timed by device events
    slice    a part of one answer, into the shared memory
    drop     give everything back
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import cardcontents
import tensors
import torch
from carddevice import Graph, Shared, laid_out, new_storages, poison
from wire import Wire

EAGER_CALLS = 24

Make = Callable[[dict[str, torch.Tensor], dict[str, Any]], Callable[[], torch.Tensor] | None]
"""From inputs and an order of `make`, the call without arguments; None where there is none."""


class Lane:
    """One workload: its sets, graph and answers."""

    def __init__(self, order: dict[str, Any], make: Make) -> None:
        self._order = order
        self._make = make
        # What lies before shifts the addresses of what follows.
        shift = torch.empty(int(order["shift_bytes"]), dtype=torch.uint8, device="cuda")
        self._storages = [new_storages(order["layout"]) for _ in range(order["sets"])]
        del shift
        self.sets = [laid_out(order["layout"], storages) for storages in self._storages]
        self._calls: list[Callable[[], torch.Tensor]] = []
        self._graph: Graph | None = None
        self._begin, self._end = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def load(self, shared: Shared) -> None:
        offset = 0
        for storages in self._storages:
            for storage in storages:
                size = storage.numel()
                storage.copy_(shared.at(offset, size), non_blocking=True)
                offset += size
        torch.cuda.synchronize()

    def prepare(self) -> bool:
        """Make the calls; False where there is none for this workload."""
        calls = []
        for inputs in self.sets:
            call = self._make(inputs, self._order)
            if call is None:
                return False
            calls.append(call)
        self._calls = calls
        return True

    def once(self) -> dict[str, Any]:
        """Compile and warm, then one call by device events (µs), and what it returns."""
        call = self._calls[0]
        out = call()
        torch.cuda.synchronize()
        times = []
        for _ in range(3):
            self._begin.record()
            call()
            self._end.record()
            self._end.synchronize()
            times.append(self._begin.elapsed_time(self._end) * 1000)
        dtype = str(out.dtype).removeprefix("torch.")
        return {"us": min(times), "shape": list(out.shape), "dtype": dtype, "type": type(out).__name__}

    def eager_us(self) -> float:
        """Host microseconds that launching one call takes."""
        torch.cuda.synchronize()
        started = time.perf_counter()
        for number in range(EAGER_CALLS):
            self._calls[number % len(self._calls)]()
        seconds = time.perf_counter() - started
        torch.cuda.synchronize()
        return seconds / EAGER_CALLS * 1e6

    def capture(self, count: int) -> dict[str, Any]:
        self._graph = None  # its answers' memory first
        self._graph = Graph([self._calls[number % len(self._calls)] for number in range(count)])
        outs = self._graph.outs
        places = {out.untyped_storage().data_ptr() for out in outs}
        return {
            "nodes": _counted(self._graph.nodes),
            "separate": len(places) == len(outs),
            "shapes": sorted({str([list(out.shape), str(out.dtype)]) for out in outs}),
        }

    def flip(self, seeds: list[int]) -> None:
        for inputs, seed in zip(self.sets, seeds, strict=True):
            cardcontents.flip(inputs, seed, self._order["structured"])
        for out in self._graph.outs if self._graph else ():
            poison(out)
        torch.cuda.synchronize()

    def wake(self) -> None:
        """Bring the card to this process: another one's context was on it."""
        self._end.record()
        self._end.synchronize()

    def go(self) -> float:
        """Device microseconds of one replay."""
        assert self._graph is not None  # noqa: S101 (the clock captures before)
        self._begin.record()
        self._graph.replay()
        self._end.record()
        self._end.synchronize()
        return float(self._begin.elapsed_time(self._end)) * 1000

    def slice(self, number: int, where: list[int] | None, shared: Shared) -> int:
        """Part of an answer ([batch, first head, last head], or all) to the shared memory; its bytes."""
        assert self._graph is not None  # noqa: S101 (the clock captures before)
        out = self._graph.outs[number]
        if where is not None:
            out = out[where[0] : where[0] + 1, where[1] : where[2]]
        data = out.contiguous().view(torch.uint8).flatten()
        size = min(int(data.numel()), shared.bytes)
        shared.at(0, size).copy_(data[:size])
        return size


def _counted(nodes: list[list[Any]]) -> list[list[Any]]:
    """Nodes that are equal, once, with their number: [name, grid, count]."""
    counts: dict[tuple[str, tuple[int, ...]], int] = {}
    for name, grid in nodes:
        key = (name, tuple(grid))
        counts[key] = counts.get(key, 0) + 1
    return [[name, list(grid), count] for (name, grid), count in counts.items()]


class Contestant:
    """Serves one line until the clock is done."""

    def __init__(self, line: Wire, shared: Shared, make: Make) -> None:
        self._line = line
        self._shared = shared
        self._make = make
        self._lanes: dict[str, Lane] = {}

    def serve(self) -> None:
        """Returns when the clock says `stop` or is gone. What a call raises passes through."""
        while True:
            try:
                order = self._line.receive()
            except EOFError:
                return
            if order["do"] == "stop":
                self._line.send(ok=True)
                return
            self._line.send(**self._obey(order))

    def _obey(self, order: dict[str, Any]) -> dict[str, Any]:
        what, name = order["do"], order["lane"]
        if what == "make":
            lane = self._lanes[name] = Lane(order, self._make)
            return {"ok": True}
        lane = self._lanes[name]
        if what == "go":
            return {"us": lane.go()}
        if what == "wake":
            lane.wake()
        elif what == "flip":
            lane.flip(order["seeds"])
        elif what == "load":
            lane.load(self._shared)
        elif what == "capture":
            if not lane.prepare():
                return {"absent": True}
            found = lane.once()
            if order.get("calls"):
                found |= {"eager_us": lane.eager_us(), **lane.capture(order["calls"])}
            return found
        elif what == "slice":
            return {"bytes": lane.slice(order["call"], order["where"], self._shared)}
        elif what == "drop":
            del self._lanes[name], lane
            torch.cuda.empty_cache()
        return {"ok": True}


def candidate_make(entry: Callable[..., Any]) -> Make:
    """Calls of a candidate's entry, as the order's plan says."""

    def make(inputs: dict[str, torch.Tensor], order: dict[str, Any]) -> Callable[[], torch.Tensor]:
        plan = order["call"]

        def call() -> torch.Tensor:
            out = tensors.call(entry, plan, inputs)
            if type(out) is not torch.Tensor:
                raise TypeError(f"returns {type(out).__name__} and not a tensor")
            return out

        return call

    return make
