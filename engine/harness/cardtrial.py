"""A candidate's process on the card: it answers one call after the other, or runs in a timed race.

As in the interpreter's trial, inputs come through memory shared with the referee and answers go back there.
Until it is told to lock itself, the process may start compilers; real contents come after that.
"""

from __future__ import annotations

import os
import re
import socket
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import candidatefile
import cardbuild
import carddevice
import cardlane
import census
import identity
import seccomp
import tensors
import torch
from candidatefile import Refused
from carddevice import Graph, Shared, laid_out, new_storages, poison
from cardlaunches import Launches
from wire import Wire, one_line

HELD = 16
"""Answers that stay alive, so that no later one may lie where they do."""
HELD_BYTES = 4 << 30


class Trial:
    def __init__(self, entry: Callable[..., Any], shared: Shared, launches: Launches, path: str) -> None:
        self._entry = entry
        self._shared = shared
        self._launches = launches
        self._path = path
        self._places: dict[int, list[torch.Tensor]] = {}
        self._graphs: dict[int, Graph] = {}
        self._held: deque[torch.Tensor] = deque(maxlen=HELD)
        self._kept = census.Kept()

    def warm(self, step: dict[str, Any], wire: Wire) -> None:
        """Compile what a call of this shape launches, on contents of no meaning; then wait for the card."""
        storages = new_storages(step["layout"])
        inputs = laid_out(step["layout"], storages)
        for x in inputs.values():
            x.normal_() if x.dtype.is_floating_point else x.zero_()
        try:
            tensors.call(self._entry, step["call"], inputs)
            wire.send(called=True)
            torch.cuda.synchronize()
        except BaseException as failure:
            raise refused(failure, self._path) from failure
        del storages, inputs
        torch.cuda.empty_cache()

    def step(self, step: dict[str, Any]) -> dict[str, Any]:
        """Load the contents, call, and bring the answer and the inputs back."""
        storages = self._places.setdefault(step["place"], [])
        if not storages:
            storages += new_storages(step["layout"])
        for storage, region in zip(storages, step["regions"], strict=True):
            storage.copy_(self._shared.at(region["offset"], region["bytes"]))
        inputs = laid_out(step["layout"], storages)
        try:
            report, out = self._graph(step, inputs) if step["graph"] else self._eager(step, inputs)
        except Refused:
            raise
        except BaseException as failure:
            raise refused(failure, self._path) from failure
        if out is not None:
            self._store(out, step["out"])
        for storage, region in zip(storages, step["regions"], strict=True):
            self._shared.at(region["offset"], region["bytes"]).copy_(storage)
        if step["last"]:
            self._places.pop(step["place"], None)
            self._graphs.pop(step["place"], None)
            torch.cuda.empty_cache()
        return report

    def _eager(self, step: dict[str, Any], inputs: dict[str, torch.Tensor]) -> tuple[dict[str, Any], Any]:
        if step["spoil"]:
            self._kept.poison({out.untyped_storage().data_ptr() for out in self._held})
        counted = census.Census(poison=True, kept=self._kept)
        self._launches.begin(idle=step["idle"])
        threads = threads_now()
        torch.cuda.synchronize()
        started = time.perf_counter()
        with counted:
            out = tensors.call(self._entry, step["call"], inputs)
        if type(out) is not torch.Tensor:
            raise Refused("invalid", f"returns {type(out).__name__} and not a tensor")
        if out.device.type != "cuda":
            raise Refused("invalid", f"returns a tensor on {out.device.type}")
        early = out.clone()
        torch.cuda.current_stream().synchronize()
        called = time.perf_counter()
        torch.cuda.synchronize()
        drained = time.perf_counter()
        same = torch.equal(carddevice.digest(early), carddevice.digest(out))
        report = {
            "seconds": called - started,
            "drain_us": (drained - called) * 1e6,
            "late": not same,
            "launches": self._launches.seen,
            "given": self._launches.given,
            "aten": dict(counted.counts),
            "foreign": counted.foreign(),
            "synchronising": counted.synchronising(),
            "poisoned": counted.poisoned,
            "threads": [threads, threads_now()],
            "shape": list(out.shape),
            "dtype": str(out.dtype).removeprefix("torch."),
            "aliases": [name for name, x in inputs.items() if overlap(out, x)],
            "shares_previous": any(overlap(out, earlier) for earlier in self._held),
        }
        if self._held:
            self._store(self._held[-1], step["held"])
        self._held.append(out)
        while len(self._held) > 1 and sum(held.nbytes for held in self._held) > HELD_BYTES:
            self._held.popleft()
        return report, early

    def _graph(self, step: dict[str, Any], inputs: dict[str, torch.Tensor]) -> tuple[dict[str, Any], Any]:
        """The answer of a replay. The first time at a place, the call is captured there."""
        started = time.perf_counter()
        self._launches.begin(idle=False)
        graph = self._graphs.get(step["place"])
        if graph is None:
            try:
                graph = Graph([lambda: tensors.call(self._entry, step["call"], inputs)])
            except Refused:
                raise
            except Exception as failure:  # noqa: BLE001 (whatever it is, the call cannot be captured)
                torch.cuda.synchronize()
                return {"failed": candidatefile.describe(failure, self._path)[:300]}, None
            self._graphs[step["place"]] = graph
        out = graph.outs[0]
        if type(out) is not torch.Tensor:
            raise Refused("invalid", f"returns {type(out).__name__} and not a tensor")
        poison(out)
        graph.replay()
        torch.cuda.synchronize()
        report = {
            "seconds": time.perf_counter() - started,
            "nodes": graph.nodes,
            "shape": list(out.shape),
            "dtype": str(out.dtype).removeprefix("torch."),
        }
        return report, out

    def _store(self, tensor: torch.Tensor, region: dict[str, int]) -> None:
        flat = tensor.detach().contiguous().view(torch.uint8).flatten()[: region["bytes"]]
        self._shared.at(region["offset"], flat.numel()).copy_(flat)


def run(wire: Wire, specification: dict[str, Any], descriptors: list[int]) -> int:
    path = specification["source_path"]
    try:
        built = cardbuild.build(path, specification["entry"], specification["build"])
        carddevice.begin(specification)
        shared = Shared(descriptors[0])
    except Exception as failure:  # noqa: BLE001 (the card is not usable from here: not the candidate's fault)
        wire.send(refused={"outcome": "error", "detail": one_line(f"no CUDA context: {failure}")})
        return 0
    launches = Launches(path)
    launches.install()
    snapshot = identity.Snapshot()
    line: Wire | None = None
    wire.send(phase="load")
    try:
        entry = candidatefile.load(path, specification["entry"])
        trial = Trial(entry, shared, launches, path)
        wire.send(ready=True, pinned=shared.pinned, built=built)
        while True:
            step = wire.receive()
            if "stop" in step:
                break
            if "warm" in step:
                trial.warm(step["warm"], wire)
                wire.send(warm=True)
            elif "lock" in step:
                if step["lock"]:
                    seccomp.install(programs=False, all_threads=True)
                wire.send(locked=True)
            elif "race" in step:
                line = Wire(socket.socket(fileno=descriptors[1]))
                line.trust(step["race"])
                launches.timed = True
                _race(cardlane.Contestant(line, shared, cardlane.candidate_make(entry)), path)
                wire.send(raced=True)
            else:
                wire.send(report=trial.step(step))
            candidatefile.flush()
    except Refused as failure:
        candidatefile.print_trace(failure.__cause__ or failure)
        wire.send(refused={"outcome": failure.outcome, "detail": failure.detail})
        if line is not None:
            line.send(refused=True)
        return 0
    except EOFError:
        return 0
    wire.send(changed=snapshot.changed()[:20])
    return 0


def _race(contestant: cardlane.Contestant, path: str) -> None:
    try:
        contestant.serve()
    except Refused:
        raise
    except BaseException as failure:
        raise refused(failure, path) from failure


def refused(failure: BaseException, path: str) -> Refused:
    """What an exception out of a call on the card means."""
    text = candidatefile.describe(failure, path)
    if "out of memory" in str(failure).lower() or type(failure).__name__ == "OutOfMemoryError":
        asked = re.search(r"Tried to allocate ([\d.]+ \w+)", str(failure))
        free = re.search(r"of which ([\d.]+ \w+) is free", str(failure))
        what = (
            f"asked for {asked[1]} of the card's memory"
            if asked
            else "asked for more memory than the card has"
        )
        left = f", {free[1]} were free" if free else ""
        line = re.search(r"\(line \d+\)$", text)
        return Refused("oom", f"{what}{left}{' ' + line[0] if line else ''}")
    return Refused(candidatefile.outcome_of(failure), text)


def overlap(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Whether two tensors' storages share memory."""
    a, b = left.untyped_storage(), right.untyped_storage()
    begin, other = a.data_ptr(), b.data_ptr()
    return bool(begin < other + b.nbytes() and other < begin + a.nbytes())


def threads_now() -> int:
    """Threads of this process."""
    return len(os.listdir("/proc/self/task")) if os.path.isdir("/proc/self/task") else 0  # noqa: PTH208, PTH112
