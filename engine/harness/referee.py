"""Trusted: makes the inputs of a check, computes what is right, and compares. It never loads a candidate.

The inputs lie in memory shared with the candidate's process; the referee keeps its own copy of each and
looks afterwards whether the shared one is still the same. References are computed after the candidate has
answered, from the referee's copy. What the candidate's process reports about itself is a claim; what lies
in the shared memory is evidence.

Each case is one call, and with probes up to five, in an order drawn from the seed over all cases:

    main      contents 0 at place A
    repeat    contents 0 at place B, the programs of each launch from the last to the first: the same bits
    idle      contents 0 at place B while no kernel runs: anything but right
    renewed   contents 1 at place A: right again, and not the bits of `main`
    changed   contents 1 at place A with one element changed, after scratch that the candidate keeps was
              spoiled: right again, and not the bits of `renewed`
"""

from __future__ import annotations

import functools
import mmap
import os
import random
import time
from typing import Any

import probes
import sampled
import tensors
import torch
from compare import Comparison, compare, tolerance_for
from wire import Wire

SEED_STRIDE = 1_000_003
ELEMENT_TRIES = 3
GUARD_BYTES = 256 << 10
"""Nothing lies for so long behind each region: a block of keys read beyond the last one ends here."""
SHAPE_BYTES = 1 << 30
"""Inputs of a shape that is asked for its launches alone take address space in the candidate's process."""


class Contents:
    """One set of inputs with its reference; computed when asked for."""

    def __init__(self, reference: Any, case: dict[str, Any], inputs: dict[str, torch.Tensor]) -> None:
        self._reference = reference
        self._case = case
        self.inputs = inputs
        self._answers: tuple[torch.Tensor, torch.Tensor] | None = None

    def answers(self) -> tuple[torch.Tensor, torch.Tensor]:
        """The float64 reference, and the baseline's answer in the dtype."""
        if self._answers is None:
            right = self._reference.reference(self.inputs, self._case)
            base = self._reference.baseline_emulation(self.inputs, self._case)
            self._answers = right, base
        return self._answers


class Step:
    """One call that the candidate will answer."""

    def __init__(self, number: int, case: int, kind: str, place: str) -> None:
        self.number = number
        self.case = case
        self.kind = kind
        self.place = place
        self.regions: list[dict[str, int]] = []
        self.out: dict[str, int] = {}
        self.held: dict[str, int] = {}
        self.answer = torch.empty(0)
        self.intact = True
        self.right: bool | None = None
        self.report: dict[str, Any] = {}


class Referee:
    def __init__(self, specification: dict[str, Any], descriptor: int, pattern: int | None = None) -> None:
        self._spec = specification
        self._reference = tensors.load_reference(specification["task_dir"])
        self._cases: list[dict[str, Any]] = specification["cases"]
        self._gate: str = specification["gate"]
        self._descriptor = descriptor
        self._contents: dict[tuple[int, str], Contents] = {}
        self._random = random.Random(int(specification["seed"]))  # noqa: S311 (an order, no secret)
        self.steps = self._order()
        self._layouts = [self._layout(index) for index in range(len(self._cases))]
        self.sampled = sampled.Sampled(specification, self._reference, self._random, pattern)
        self._map = self._lay_out()

    # ---- the plan ---------------------------------------------------------------------------------

    def _order(self) -> list[Step]:
        """All calls, shuffled over the cases; those of one case stay in their order."""
        probed = set(probes.chosen_cases(self._cases, self._random)) if self._spec["probes"] else set()
        queues = []
        for index in range(len(self._cases)):
            kinds = [("main", "A")]
            if index in probed:
                kinds += [("repeat", "B"), ("idle", "B"), ("renewed", "A"), ("changed", "A")]
            queues.append([(index, kind, place) for kind, place in kinds])
        order = [index for index, queue in enumerate(queues) for _ in queue]
        self._random.shuffle(order)
        return [Step(number, *queues[index].pop(0)) for number, index in enumerate(order)]

    def _layout(self, index: int) -> dict[str, Any]:
        inputs = self._inputs(index, "main").inputs
        return {
            "layout": tensors.layouts(inputs),
            "call": tensors.call_of(self._reference, inputs, self._cases[index]),
        }

    def _lay_out(self) -> mmap.mmap:
        """Give every input place, answer and held answer its own pages."""
        end = 0

        def region(size: int) -> dict[str, int]:
            nonlocal end
            found = {"offset": end, "bytes": size}
            end += -(-max(size, 1) // tensors.ALIGNMENT) * tensors.ALIGNMENT + GUARD_BYTES
            return found

        places: dict[tuple[int, str], list[dict[str, int]]] = {}
        for step in self.steps:
            layout = self._layouts[step.case]["layout"]
            sizes = {one["storage"]: one["storage_bytes"] for one in layout.values()}
            at = (step.case, step.place)
            if at not in places:
                places[at] = [region(sizes[storage]) for storage in sorted(sizes)]
            step.regions = places[at]
            first = next(iter(self._inputs(step.case, "main").inputs.values()))
            size = first.numel() * first.element_size()
            step.out, step.held = region(size), region(size)
        for sample in self.sampled.samples:
            sample["out"] = region(sampled.result_bytes(sample))
        os.ftruncate(self._descriptor, end)
        return mmap.mmap(self._descriptor, end)

    def plan(self) -> list[dict[str, Any]]:
        """What the candidate's process is told, step by step."""
        before: Step | None = None
        told = []
        for step in self.steps:
            told.append({
                "case": self.name(step.case),  # for the host alone
                "regions": step.regions, "out": step.out, "held": before.held if before else None,
                "idle": step.kind == "idle", "spoil": step.kind == "changed",
                "backwards": step.kind == "repeat",
                **self._layouts[step.case],
            })  # fmt: skip
            before = step
        return told

    def probed(self) -> list[int]:
        """The cases that are called more than once."""
        return sorted({step.case for step in self.steps if step.kind == "repeat"})

    @functools.cached_property
    def empty_calls(self) -> list[dict[str, Any]]:
        """Calls for tensors without contents: those of the probed cases, then those of shapes that are asked
        for their launches alone."""
        plans = [self._empty_call(self._inputs(n, "main").inputs, self._cases[n]) for n in self.probed()]
        for shape in self._spec["shapes"]:
            inputs = tensors.meta_inputs(self._reference, shape)
            size = sum(x.untyped_storage().nbytes() for x in inputs.values())
            if self._spec["probes"] and size <= SHAPE_BYTES:
                plans.append(self._empty_call(inputs, shape))
        return plans

    def _empty_call(self, inputs: dict[str, torch.Tensor], case: dict[str, Any]) -> dict[str, Any]:
        first = next(iter(inputs.values()))
        return {
            "case": str(case.get("case") or case.get("id")),
            "shape_only": bool(case.get("shape_only")),
            "layout": tensors.layouts(inputs),
            "call": tensors.call_of(self._reference, inputs, case),
            "out": {"shape": list(first.shape), "dtype": str(first.dtype).removeprefix("torch.")},
        }

    def name(self, index: int) -> str:
        case = self._cases[index]
        return str(case.get("case") or case.get("id") or index)

    # ---- inputs -----------------------------------------------------------------------------------

    def _inputs(self, index: int, kind: str) -> Contents:
        """The contents of a step; `repeat` and `idle` share those of `main`."""
        kind = "main" if kind in ("repeat", "idle") else kind
        if (index, kind) not in self._contents:
            case = self._cases[index]
            if kind == "changed":
                self._contents[index, kind] = self._one_changed(index)
            else:
                seed = int(case["seed"]) + (SEED_STRIDE if kind == "renewed" else 0)
                made = self._reference.make_inputs(case, seed=seed, device="cpu")
                self._contents[index, kind] = Contents(self._reference, case, made)
        return self._contents[index, kind]

    def _one_changed(self, index: int) -> Contents:
        """The contents of `renewed` with one element changed so that the right answer changes clearly.

        Elements are drawn at random first; where none of those matters (all weight lies on one key, say), one
        that does is looked for by halves.
        """
        renewed, case = self._inputs(index, "renewed"), self._cases[index]
        right, base = renewed.answers()
        names = [name for name, tensor in renewed.inputs.items() if tensor.dtype.is_floating_point]

        def with_changed(name: str, box: list[slice]) -> dict[str, torch.Tensor]:
            inputs = clone(renewed.inputs)
            part = inputs[name][tuple(box)]
            part.copy_(torch.where(part < 0, 8.0 - part, -8.0 - part))
            return inputs

        def matters(inputs: dict[str, torch.Tensor]) -> bool:
            return not self._compare(right, self._reference.reference(inputs, case), base, case).ok

        for _ in range(ELEMENT_TRIES):
            name = self._random.choice(names)
            at = [self._random.randrange(size) for size in renewed.inputs[name].shape]
            inputs = with_changed(name, [slice(n, n + 1) for n in at])
            if matters(inputs):
                return Contents(self._reference, case, inputs)
        self._random.shuffle(names)
        for name in names:
            box: list[slice] | None = [slice(0, size) for size in renewed.inputs[name].shape]
            while box is not None and any(part.stop - part.start > 1 for part in box):
                halves = self._halves(box)
                box = next((half for half in halves if matters(with_changed(name, half))), None)
            if box is not None:
                return Contents(self._reference, case, with_changed(name, box))
        return Contents(self._reference, case, inputs)

    def _halves(self, box: list[slice]) -> list[list[slice]]:
        """A box cut through its longest side, in random order."""
        side = max(range(len(box)), key=lambda n: box[n].stop - box[n].start)
        low, high = box[side].start, box[side].stop
        middle = (low + high) // 2
        halves = [[*box[:side], cut, *box[side + 1 :]] for cut in (slice(low, middle), slice(middle, high))]
        self._random.shuffle(halves)
        return halves

    def stage(self, step: Step) -> None:
        """Fill the step's inputs; what stands where its answers will go cannot be taken for them."""
        self._bytes(step.out).fill_(0xFF)
        self._bytes(step.held).fill_(0xFF)
        for storage, region in zip(self._storages(step), step.regions, strict=True):
            self._bytes(region).copy_(storage)

    def _storages(self, step: Step) -> list[torch.Tensor]:
        """The raw bytes of the step's own inputs, a tensor for each storage."""
        seen: dict[int, torch.Tensor] = {}
        for tensor in self._inputs(step.case, step.kind).inputs.values():
            storage = tensor.untyped_storage()
            seen.setdefault(storage._cdata, torch.empty(0, dtype=torch.uint8).set_(storage))
        return list(seen.values())

    def bytes_of(self, region: dict[str, int]) -> torch.Tensor:
        """A copy of what the candidate's process left there."""
        return self._bytes(region).clone()

    def _bytes(self, region: dict[str, int]) -> torch.Tensor:
        return torch.frombuffer(self._map, dtype=torch.uint8, count=region["bytes"], offset=region["offset"])

    # ---- judging ----------------------------------------------------------------------------------

    def collect(self, step: Step, report: dict[str, Any]) -> None:
        """Take the answer out of the shared memory, and look at the inputs."""
        step.report = report
        step.answer = self._bytes(step.out).clone()
        step.intact = all(
            torch.equal(self._bytes(region), storage)
            for storage, region in zip(self._storages(step), step.regions, strict=True)
        )

    def _compare(
        self, out: torch.Tensor, right: torch.Tensor, base: torch.Tensor, case: dict[str, Any]
    ) -> Comparison:
        counts = self._reference.row_key_counts(case)
        return compare(out, right, base, counts, tolerance_for(self._spec["tolerance"], case["dtype"]))

    def judge(self, step: Step) -> dict[str, Any]:
        """The check of one call, as the fields of a Check."""
        started = time.monotonic()
        case = self._cases[step.case]
        contents = self._inputs(step.case, step.kind)
        first = next(iter(contents.inputs.values()))
        name = self.name(step.case)
        name = name if step.kind == "main" else f"{name}:{step.kind}"
        check = {"gate": self._gate, "case": name, "probe": "compare", "error": None, "limit": None}
        said = (step.report["shape"], "torch." + step.report["dtype"])
        if said != (list(first.shape), str(first.dtype)):
            text = f"returns {said[0]} {said[1]}, not {list(first.shape)} {first.dtype}"
            return {**check, "status": "fail", "detail": text, "seconds": step.report["seconds"]}
        out = step.answer.view(first.dtype).reshape(first.shape)
        right, base = contents.answers()
        found = self._compare(out, right, base, case)
        step.right = found.ok
        if step.kind == "idle":
            text = "right although no kernel ran" if found.ok else "wrong while no kernel runs, as it must be"
            return {
                **check, "probe": "idle_kernels", "status": "fail" if found.ok else "pass", "detail": text,
                "seconds": round(step.report["seconds"] + time.monotonic() - started, 4),
            }  # fmt: skip
        status, detail = ("pass" if found.ok else "fail"), f"{found.rule}: {found.detail}"
        if found.ok and step.kind == "main" and (passing := self._controls(contents, case)):
            status = "unproven"
            detail = f"this case proves nothing: the wrong answer {', '.join(passing)} passes too"
        seconds = step.report["seconds"] + time.monotonic() - started
        return {
            **check, "status": status, "detail": detail, "seconds": round(seconds, 4),
            "error": found.error if found.error == found.error else None, "limit": found.limit,
        }  # fmt: skip

    def _controls(self, contents: Contents, case: dict[str, Any]) -> list[str]:
        """Wrong answers that would pass as right: there must be none."""
        right, base = contents.answers()
        wrong = self._reference.wrong_answers(contents.inputs, case)
        return [name for name, answer in wrong.items() if self._compare(answer, right, base, case).ok]

    def verdicts(self, changed: list[str], elsewhere: list[Any], shapes: list[Any]) -> list[dict[str, Any]]:
        """The probes' checks over all calls. `elsewhere`: what the `empty_calls` launch without contents, and
        `shapes` what the last of them launch in the interpreter."""
        helds = [self._bytes(step.held).clone() for step in self.steps]
        probed = self.probed()
        others = dict(zip(probed, elsewhere, strict=False))
        names = [call["case"] for call in self.empty_calls[len(probed) :]]
        pairs = list(zip(names, shapes, elsewhere[len(probed) :], strict=False))
        return probes.verdicts(self._gate, self._cases, self.steps, helds, changed, others, pairs)


def clone(inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Copies that lie as the originals do, storages shared as they were."""
    storages: dict[int, torch.Tensor] = {}
    made = {}
    for name, tensor in inputs.items():
        storage = tensor.untyped_storage()
        if storage._cdata not in storages:
            flat = torch.empty(0, dtype=tensor.dtype).set_(storage)
            storages[storage._cdata] = flat.clone()
        flat = storages[storage._cdata].view(tensor.dtype)
        made[name] = flat.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
    return made


def run(wire: Wire, specification: dict[str, Any], descriptors: list[int]) -> int:
    torch.set_num_threads(1)
    try:
        referee = Referee(specification, *descriptors)
        wire.send(plan=referee.plan())
        wire.send(empty_calls=referee.empty_calls)
        wire.send(samples=referee.sampled.samples)
        while True:
            message = wire.receive()
            if "collect" in message:
                referee.collect(referee.steps[message["collect"]], message["report"])
            if "stage" in message:
                referee.stage(referee.steps[message["stage"]])
                wire.send(staged=message["stage"])
            if "judge" in message:
                wire.send(check=referee.judge(referee.steps[message["judge"]]))
            if "sampled" in message:
                number, report = message["sampled"], message["report"]
                values = referee.bytes_of(referee.sampled.samples[number]["out"])
                wire.send(check=referee.sampled.judge(number, report, values))
            if "finish" in message:
                wire.send(checks=referee.verdicts(message["finish"], message["elsewhere"], message["shapes"]))
                return 0
    except EOFError:
        return 0
    except Exception as failure:  # noqa: BLE001 (a task's own code can fail in any way)
        import traceback

        traceback.print_exc()
        wire.send(failed=f"the referee failed: {type(failure).__name__}: {failure}")
        return 0
