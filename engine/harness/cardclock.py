"""Trusted: a timed race. Inputs, orders, the clock beside the clock, and the comparison of timed answers.

Each contestant has a process and a CUDA context of its own and one line to this process; one of them works at
a time. A round visits every workload in random order. There, twice, all contestants get the same new contents
and poisoned answers, and each replays its graph once: in random order first, then in the reverse of it. A
replay is timed by the contestant's device events, which are claims, and from order to answer by this
process's own clock. Afterwards a random slice of one answer, unknown until then, is fetched and compared; how
long that takes is looked at too, for work that was put off until somebody looks.

The clock is told by the host, round by round, whether to go on.
"""

from __future__ import annotations

import math
import random
import time
from typing import Any

import cardcontents
import carddevice
import cardline
import cardreport
import tensors
import torch
from cardcontents import Slice
from carddevice import Shared, storages_of
from cardline import Line, Lost
from cardtasks import Baseline
from compare import Comparison, compare, tolerance_for
from wire import Wire

BLOCK_US = 5000.0
"""Device time that a block of the fastest contestant should last."""
SLOWEST_BLOCKS = 8.0
"""A slow contestant's block may last so many times BLOCK_US."""
OUTPUT_BYTES = 2 << 30
SETS_MOST = 64
CALLS_MOST = 512


class Track:
    """One workload of the race."""

    def __init__(self, workload: dict[str, Any], reference: Any, sets: int) -> None:
        self.workload = workload
        self.name = str(workload["id"])
        self.structured = cardcontents.is_structured(workload)
        inputs = tensors.meta_inputs(reference, {**workload, "distribution": "normal"})
        self.layout = tensors.layouts(inputs)
        self.call = tensors.call_of(reference, inputs, workload)
        self.set_bytes = sum({one["storage"]: one["storage_bytes"] for one in self.layout.values()}.values())
        self.sets_count = sets
        self.sets: list[dict[str, torch.Tensor]] = []
        self.calls = 0
        self.racing: list[str] = []
        self.captured: dict[str, dict[str, Any]] = {}
        first = next(iter(self.layout.values()))
        self.out_shape, self.out_dtype = first["shape"], first["dtype"]
        self.out_bytes = int(torch.Size(first["shape"]).numel() * getattr(torch, first["dtype"]).itemsize)


class Race:
    def __init__(self, specification: dict[str, Any], descriptors: list[int]) -> None:
        self._spec = specification
        self._random = random.Random(int(specification["seed"]))  # noqa: S311 (orders, no secret)
        self._reference = tensors.load_reference(specification["task_dir"])
        self._fa2 = Baseline(specification["task_dir"], "fa2")
        self._sources: list[str] = specification["sources"]
        self._seconds: dict[str, float] = specification["deadline_s"]
        self.report = cardreport.Report()
        l2_bytes = torch.cuda.get_device_properties(0).L2_cache_size
        self._tracks = []
        for workload in specification["workloads"]:
            moved = max(1.0, float(self._reference.moved_bytes(workload)))
            sets = max(2, min(SETS_MOST, math.ceil(2.5 * l2_bytes / moved)))
            self._tracks.append(Track(workload, self._reference, sets))
        size = max(max(t.sets_count * t.set_bytes, t.out_bytes) for t in self._tracks)
        cardline.resize(descriptors[0], size)
        self._shared = Shared(descriptors[0])
        self._lines = {
            name: Line(name, descriptor, specification["nonces"][name])
            for name, descriptor in zip(specification["names"], descriptors[1:], strict=True)
        }

    @property
    def bytes(self) -> int:
        return self._shared.bytes

    def shapes(self) -> list[dict[str, Any]]:
        """How the inputs of each workload lie, and how an entry is called on them."""
        return [{"layout": track.layout, "call": track.call} for track in self._tracks]

    def _ask(self, name: str, phase: str, **order: Any) -> dict[str, Any]:
        line = self._lines[name]
        line.tell(**order)
        return line.hear(self._seconds[phase])

    # ---- making ready -----------------------------------------------------------------------------

    def prepare(self) -> None:
        """Stage contents at new addresses everywhere and capture all graphs."""
        for track in self._tracks:
            with self.report.phase("stage"):
                self._stage(track)
            with self.report.phase("capture"):
                self._capture(track)

    def _stage(self, track: Track) -> None:
        seeds = [self._random.getrandbits(31) for _ in range(track.sets_count)]
        track.sets = []
        offset = 0
        for seed in seeds:
            inputs = self._reference.make_inputs(track.workload, seed=seed, device="cuda")
            for storage in storages_of(inputs):
                self._shared.at(offset, storage.numel()).copy_(storage, non_blocking=True)
                offset += storage.numel()
            track.sets.append(inputs)
        torch.cuda.synchronize()
        shift = self._random.randrange(1, 1 << 14) * 2048
        for name in self._lines:
            self._ask(
                name, "stage", do="make", lane=track.name, layout=track.layout, call=track.call,
                sets=track.sets_count, shift_bytes=shift, structured=track.structured,
            )  # fmt: skip
            self._ask(name, "stage", do="load", lane=track.name)

    def _warm(self, track: Track, name: str) -> float:
        """One replay that does not count, per call; the contents are as before after two of these."""
        self._ask(name, "block", do="flip", lane=track.name, seeds=[0] * track.sets_count)
        return float(self._ask(name, "block", do="go", lane=track.name)["us"])

    def _capture(self, track: Track) -> None:
        track.racing = []
        us: dict[str, float] = {}
        for name, found in self._ask_all(list(self._lines), track, track.sets_count).items():
            if found.get("absent"):
                self._ask(name, "stage", do="drop", lane=track.name)
                continue
            track.racing.append(name)
            track.captured[name] = found
            us[name] = max(0.5, self._warm(track, name) / track.sets_count)
        track.calls = self._calls(track, us)
        if track.calls != track.sets_count:
            track.captured |= self._ask_all(track.racing, track, track.calls)
        for name in track.racing:
            self.report.captured(track, name, track.captured[name])
            self._warm(track, name)

    def _ask_all(self, names: list[str], track: Track, calls: int) -> dict[str, dict[str, Any]]:
        """Let these capture so many calls, all at a time."""
        for name in names:
            self._lines[name].tell(do="capture", lane=track.name, calls=calls)
        return {name: self._lines[name].hear(self._seconds["compile"]) for name in names}

    def _calls(self, track: Track, us: dict[str, float]) -> int:
        """Calls in a graph: all sets as often as each other."""
        wanted = min(BLOCK_US / min(us.values()), SLOWEST_BLOCKS * BLOCK_US / max(us.values()))
        wanted = min(wanted, OUTPUT_BYTES / track.out_bytes, CALLS_MOST)
        return max(1, round(wanted / track.sets_count)) * track.sets_count

    # ---- a round ----------------------------------------------------------------------------------

    def round(self) -> list[dict[str, Any]]:
        """One visit to every workload: times in microseconds a call, by device and by this clock."""
        samples = []
        for track in self._random.sample(self._tracks, len(self._tracks)):
            order = self._random.sample(track.racing, len(track.racing))
            us: dict[str, list[float]] = {name: [] for name in order}
            host_us: dict[str, list[float]] = {name: [] for name in order}
            for names in (order, order[::-1]):
                with self.report.phase("renew"):
                    self._renew(track)
                fetched = []
                for name in names:
                    with self.report.phase("block"):
                        taken, bracket = self._block(track, name)
                    us[name].append(taken / track.calls)
                    host_us[name].append(bracket / track.calls)
                    if name in self._sources:
                        with self.report.phase("fetch"):
                            fetched.append((name, *self._fetch(track, name)))
                with self.report.phase("compare"):
                    for name, part, answer in fetched:
                        self._compare(track, name, part, answer)
            samples.append({
                "workload": track.name,
                "us": {name: round(math.sqrt(a * b), 4) for name, (a, b) in us.items()},
                "host_us": {name: round(math.sqrt(a * b), 4) for name, (a, b) in host_us.items()},
                "halves": {name: [round(value, 4) for value in pair] for name, pair in us.items()},
                "order": order,
            })  # fmt: skip
        return samples

    def _renew(self, track: Track) -> None:
        seeds = [self._random.getrandbits(62) for _ in track.sets]
        for inputs, seed in zip(track.sets, seeds, strict=True):
            cardcontents.flip(inputs, seed, track.structured)
        torch.cuda.synchronize()
        for name in track.racing:
            started = time.perf_counter()
            self._ask(name, "block", do="flip", lane=track.name, seeds=seeds)
            self.report.renewed(track.name, name, (time.perf_counter() - started) * 1e6)

    def _block(self, track: Track, name: str) -> tuple[float, float]:
        """Microseconds of one replay: as the contestant's device says, and by this process's clock."""
        line = self._lines[name]
        self._ask(name, "block", do="wake", lane=track.name)
        started = time.perf_counter()
        line.tell(do="go", lane=track.name)
        reply = line.hear(self._seconds["block"])
        bracket = (time.perf_counter() - started) * 1e6
        taken = max(1e-3, float(reply["us"]))
        self.report.block(track.name, name, taken, bracket)
        return taken, bracket

    def _fetch(self, track: Track, name: str) -> tuple[Slice, torch.Tensor]:
        """A random slice of the answer of a random call, which nobody knew before."""
        call = self._random.randrange(track.calls)
        part = cardcontents.random_slice(track.sets[call % track.sets_count], track.workload, self._random)
        started = time.perf_counter()
        self._ask(name, "block", do="slice", lane=track.name, call=call, where=part.where)
        self.report.fetched(track.name, name, (time.perf_counter() - started) * 1e6)
        shape = [1, part.heads[1] - part.heads[0], *track.out_shape[2:]]
        return part, self._answer(track, shape)

    def _answer(self, track: Track, shape: list[int]) -> torch.Tensor:
        dtype = getattr(torch, track.out_dtype)
        size = int(torch.Size(shape).numel()) * dtype.itemsize
        return self._shared.at(0, size).to("cuda").view(dtype).reshape(shape)

    def _compare(self, track: Track, name: str, part: Slice, answer: torch.Tensor) -> None:
        found = self._judge(part.inputs, part.workload, answer)
        self.report.compared(track.name, name, found)

    def _judge(
        self, inputs: dict[str, torch.Tensor], workload: dict[str, Any], answer: torch.Tensor
    ) -> Comparison:
        small = self._reference.flops(workload) < 1e10
        dtype = torch.float64 if small else cardcontents.exact_dtype()
        right = self._reference.reference(inputs, workload, dtype=dtype)
        base = self._fa2.answer(inputs, workload)
        if base is None:
            base = self._reference.baseline_emulation(inputs, workload)
        counts = self._reference.row_key_counts(workload)
        tolerance = tolerance_for(self._spec["tolerance"], workload["dtype"])
        return compare(answer, right, base, counts, tolerance)

    # ---- the end ----------------------------------------------------------------------------------

    def whole(self) -> None:
        """Compare a whole answer of every workload and source."""
        for track in self._tracks:
            self._renew(track)
            call = self._random.randrange(track.calls)
            for name in (name for name in track.racing if name in self._sources):
                self._block(track, name)
                self._ask(name, "block", do="slice", lane=track.name, call=call, where=None)
                answer = self._answer(track, list(track.out_shape))
                found = self._judge(track.sets[call % track.sets_count], track.workload, answer)
                self.report.compared(track.name, name, found, whole=True)

    def forget(self) -> None:
        """Give all memory back, everywhere."""
        for track in self._tracks:
            for name in track.racing:
                self._ask(name, "stage", do="drop", lane=track.name)
            track.sets = []
        torch.cuda.empty_cache()

    def stop(self) -> None:
        for name in self._lines:
            self._ask(name, "stage", do="stop")

    def facts(self) -> dict[str, Any]:
        return self.report.facts(self._spec["gate"], self._sources) | {
            "calls": {track.name: track.calls for track in self._tracks},
            "sets": {track.name: track.sets_count for track in self._tracks},
            "pinned": self._shared.pinned,
        }


def run(wire: Wire, specification: dict[str, Any], descriptors: list[int]) -> int:
    torch.set_num_threads(1)
    try:
        carddevice.begin(specification)
        torch.backends.cuda.matmul.allow_tf32 = False
        race = Race(specification, descriptors)
        wire.send(sized=race.bytes, shapes=race.shapes())
        wire.receive()
        _rounds(wire, specification, race)
    except EOFError:
        return 0
    except Lost as lost:
        wire.send(lost={"who": lost.name, "hung": lost.hung})
    except Exception as failure:  # noqa: BLE001 (a task's own code can fail in any way)
        import traceback

        traceback.print_exc()
        wire.send(failed=f"the clock failed: {type(failure).__name__}: {failure}")
    return 0


def _rounds(wire: Wire, specification: dict[str, Any], race: Race) -> None:
    started = time.monotonic()
    race.prepare()
    wire.send(prepared=round(time.monotonic() - started, 3))
    number = 0
    every = int(specification["reallocate_every"])
    while "stop" not in (wire.receive()):
        if every and number and number % every == 0:
            race.forget()
            race.prepare()
        number += 1
        started = time.monotonic()
        samples = race.round()
        wire.send(round=number, samples=samples, seconds=round(time.monotonic() - started, 4))
    if specification["whole"]:
        race.whole()
    race.stop()
    wire.send(result=race.facts())
