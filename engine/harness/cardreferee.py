"""Trusted: inputs, references and comparison of a check on the card. It never loads a candidate.

As the referee of the interpreter, with a CUDA context of its own. Contents pass through one region of shared
host memory, call after call; the candidate's process copies them to its card memory and back, so that what it
did to them shows. Each case is one call, and with probes up to seven:

    main      contents 0 at place A
    repeat    contents 0 at place B: the same bits
    idle      contents 0 at place B while no kernel runs: anything but right
    renewed   contents 1 at place A: right again, and not the bits of `main`
    changed   contents 1 at place A with one element changed, after scratch that the candidate keeps was
              spoiled: right again, and not the bits of `renewed`
    captured  contents 0 at place C, where the call is captured in a graph, poisoned, and replayed: right
    replayed  contents 1 at place C, the same graph, poisoned: right again

The limits of an answer's error come from FlashAttention-2 on this card where it has a call for the case.
"""

from __future__ import annotations

import os
import random
import time
from typing import Any

import cardcontents
import carddevice
import cardprobes
import probes
import tensors
import torch
from carddevice import clone, storages_of
from cardtasks import Baseline
from compare import Comparison, compare, tolerance_for
from wire import Wire

SEED_STRIDE = 1_000_003
ELEMENT_TRIES = 8
CONTROLS_FLOPS = {torch.float64: 1e13, torch.float32: 4e11}
"""A case with more work is not tried with wrong answers; by the dtype that the card is fast enough for."""


class Contents:
    """One set of inputs on the card, with its answers; computed when asked for."""

    def __init__(self, owner: Referee, case: dict[str, Any], inputs: dict[str, torch.Tensor]) -> None:
        self._owner = owner
        self._case = case
        self.inputs = inputs
        self._answers: tuple[torch.Tensor, torch.Tensor] | None = None

    def answers(self) -> tuple[torch.Tensor, torch.Tensor]:
        """The exact answer, and the baseline's in the dtype."""
        if self._answers is None:
            small = self._owner.reference.flops(self._case) < 1e10
            dtype = torch.float64 if small else cardcontents.exact_dtype()
            right = self._owner.reference.reference(self.inputs, self._case, dtype=dtype)
            self._answers = right, self._owner.baseline(self.inputs, self._case)
        return self._answers


class Step:
    """One call that the candidate will answer."""

    def __init__(self, number: int, case: int, kind: str, place: int) -> None:
        self.number = number
        self.case = case
        self.kind = kind
        self.place = place
        self.last = False
        self.answer = torch.empty(0)
        """A digest of the answer's bits, once it is judged."""
        self.held: torch.Tensor | None = None
        """The same of this answer as it was after the next eager call."""
        self.whole: torch.Tensor | None = None
        self.intact = True
        self.right: bool | None = None
        self.report: dict[str, Any] = {}

    @property
    def graph(self) -> bool:
        return self.kind in ("captured", "replayed")


class Referee:
    def __init__(self, specification: dict[str, Any], descriptor: int) -> None:
        self._spec = specification
        self.reference = tensors.load_reference(specification["task_dir"])
        self._fa2 = Baseline(specification["task_dir"], "fa2")
        self._cases: list[dict[str, Any]] = specification["cases"]
        self._gate: str = specification["gate"]
        self._random = random.Random(int(specification["seed"]))  # noqa: S311 (an order, no secret)
        self._contents: dict[tuple[int, str], Contents] = {}
        self._layouts = [self._layout(case) for case in self._cases]
        self.steps = self._order()
        self._lay_out(descriptor)
        self._held_step: Step | None = None

    def baseline(self, inputs: dict[str, torch.Tensor], case: dict[str, Any]) -> torch.Tensor:
        """FlashAttention-2's answer, or what it would compute."""
        answer = self._fa2.answer(inputs, case)
        if answer is None:
            answer = self.reference.baseline_emulation(inputs, case)
        return answer

    # ---- the plan ---------------------------------------------------------------------------------

    def _order(self) -> list[Step]:
        """All calls, shuffled over the cases; those of one case stay in their order."""
        probed = set(probes.chosen_cases(self._cases, self._random)) if self._spec["probes"] else set()
        queues = []
        for index in range(len(self._cases)):
            a, b, c = 3 * index, 3 * index + 1, 3 * index + 2
            kinds = [("main", a)]
            if index in probed:
                kinds += [("repeat", b), ("idle", b), ("renewed", a), ("changed", a)]
                kinds += [("captured", c), ("replayed", c)]
            queues.append([(index, kind, place) for kind, place in kinds])
        order = [index for index, queue in enumerate(queues) for _ in queue]
        self._random.shuffle(order)
        steps = [Step(number, *queues[index].pop(0)) for number, index in enumerate(order)]
        for step in {step.place: step for step in steps}.values():
            step.last = True
        return steps

    def _layout(self, case: dict[str, Any]) -> dict[str, Any]:
        inputs = tensors.meta_inputs(self.reference, {**case, "distribution": "normal"})
        return {
            "layout": tensors.layouts(inputs),
            "call": tensors.call_of(self.reference, inputs, case),
        }

    def _lay_out(self, descriptor: int) -> None:
        """One region for inputs, one for an answer and one for the answer before."""
        inputs_bytes = answer_bytes = 0
        for layout in self._layouts:
            sizes = self._sizes(layout)
            inputs_bytes = max(inputs_bytes, sum(_padded(size) for size in sizes))
            first = next(iter(layout["layout"].values()))
            count = torch.Size(first["shape"]).numel()
            answer_bytes = max(answer_bytes, _padded(count * getattr(torch, first["dtype"]).itemsize))
        self._out_at, self._held_at = inputs_bytes, inputs_bytes + answer_bytes
        os.ftruncate(descriptor, inputs_bytes + 2 * answer_bytes)
        self._shared = carddevice.Shared(descriptor)

    @staticmethod
    def _sizes(layout: dict[str, Any]) -> list[int]:
        sizes = {one["storage"]: one["storage_bytes"] for one in layout["layout"].values()}
        return [sizes[number] for number in sorted(sizes)]

    def _regions(self, step: Step) -> list[dict[str, int]]:
        found, offset = [], 0
        for size in self._sizes(self._layouts[step.case]):
            found.append({"offset": offset, "bytes": size})
            offset += _padded(size)
        return found

    def _answer_bytes(self, step: Step) -> int:
        first = next(iter(self._layouts[step.case]["layout"].values()))
        return int(torch.Size(first["shape"]).numel()) * int(getattr(torch, first["dtype"]).itemsize)

    def plan(self) -> list[dict[str, Any]]:
        """What the candidate's process is told, step by step; `case` and `kind` are for the host alone."""
        told = []
        held_bytes = 0
        for step in self.steps:
            size = self._answer_bytes(step)
            told.append({
                "case": self.name(step.case), "kind": step.kind, "place": step.place, "last": step.last,
                "graph": step.graph, "idle": step.kind == "idle", "spoil": step.kind == "changed",
                "regions": self._regions(step),
                "out": {"offset": self._out_at, "bytes": size},
                "held": {"offset": self._held_at, "bytes": held_bytes},
                **self._layouts[step.case],
            })  # fmt: skip
            if not step.graph:
                held_bytes = size
        return told

    def name(self, index: int) -> str:
        case = self._cases[index]
        return str(case.get("case") or case.get("id") or index)

    # ---- inputs -----------------------------------------------------------------------------------

    def _inputs(self, index: int, kind: str) -> Contents:
        kind = {"repeat": "main", "idle": "main", "captured": "main", "replayed": "renewed"}.get(kind, kind)
        if (index, kind) not in self._contents:
            case = self._cases[index]
            if kind == "changed":
                self._contents[index, kind] = self._one_changed(index)
            else:
                seed = int(case["seed"]) + (SEED_STRIDE if kind == "renewed" else 0)
                made = self.reference.make_inputs(case, seed=seed, device="cuda")
                self._contents[index, kind] = Contents(self, case, made)
        return self._contents[index, kind]

    def _one_changed(self, index: int) -> Contents:
        """The contents of `renewed` with one element changed so that the right answer changes clearly."""
        renewed, case = self._inputs(index, "renewed"), self._cases[index]
        right, _ = renewed.answers()
        names = [name for name, tensor in renewed.inputs.items() if tensor.dtype.is_floating_point]
        for _ in range(ELEMENT_TRIES):
            inputs = clone(renewed.inputs)
            target = inputs[self._random.choice(names)]
            at = tuple(self._random.randrange(size) for size in target.shape)
            old = float(target[at])
            if old != old:
                continue
            target[at] = -old + (8.0 if old < 0 else -8.0)
            changed = Contents(self, case, inputs)
            new_right, new_base = changed.answers()
            if not self._compare(right, new_right, new_base, case).ok:
                return changed
        return changed

    def stage(self, step: Step) -> None:
        """Fill the step's inputs; what stands where its answer will go cannot be taken for it."""
        self._shared.at(self._out_at, self._answer_bytes(step)).fill_(0xFF)
        for storage, region in zip(self._storages(step), self._regions(step), strict=True):
            self._shared.at(region["offset"], region["bytes"]).copy_(storage)

    def _storages(self, step: Step) -> list[torch.Tensor]:
        return storages_of(self._inputs(step.case, step.kind).inputs)

    # ---- judging ----------------------------------------------------------------------------------

    def collect(self, step: Step, report: dict[str, Any]) -> None:
        """Take the answer out of the shared memory, and look at the inputs."""
        step.report = report
        step.whole = self._shared.at(self._out_at, self._answer_bytes(step)).to("cuda")
        step.answer = carddevice.digest(step.whole)
        step.intact = all(
            torch.equal(self._shared.at(region["offset"], region["bytes"]).to("cuda"), storage)
            for storage, region in zip(self._storages(step), self._regions(step), strict=True)
        )
        if step.graph:
            return
        if self._held_step is not None:
            held = self._shared.at(self._held_at, self._answer_bytes(self._held_step))
            self._held_step.held = carddevice.digest(held.to("cuda"))
        self._held_step = step

    def _compare(
        self, out: torch.Tensor, right: torch.Tensor, base: torch.Tensor, case: dict[str, Any]
    ) -> Comparison:
        counts = self.reference.row_key_counts(case)
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
        whole, step.whole = step.whole, None
        if "failed" in step.report:
            text = f"cannot be captured in a graph: {step.report['failed']}"
            return {**check, "probe": "graph_capture", "status": "fail", "detail": text, "seconds": 0.0}
        said = (step.report["shape"], "torch." + step.report["dtype"])
        if said != (list(first.shape), str(first.dtype)):
            text = f"returns {said[0]} {said[1]}, not {list(first.shape)} {first.dtype}"
            return {**check, "status": "fail", "detail": text, "seconds": step.report["seconds"]}
        assert whole is not None  # noqa: S101 (collected before it is judged)
        out = whole.view(first.dtype).reshape(first.shape)
        right, base = contents.answers()
        found = self._compare(out, right, base, case)
        step.right = found.ok
        if step.kind == "idle":
            self._forget(step)
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
        self._forget(step)
        return {
            **check, "status": status, "detail": detail, "seconds": round(seconds, 4),
            "error": found.error if found.error == found.error else None, "limit": found.limit,
        }  # fmt: skip

    def _forget(self, step: Step) -> None:
        """Free a case's contents when its last call is judged."""
        if all(other.right is not None for other in self.steps if other.case == step.case):
            for key in [key for key in self._contents if key[0] == step.case]:
                del self._contents[key]
            torch.cuda.empty_cache()

    def _controls(self, contents: Contents, case: dict[str, Any]) -> list[str]:
        """Wrong answers that would pass as right: there must be none."""
        if self.reference.flops(case) > CONTROLS_FLOPS[cardcontents.exact_dtype()]:
            return []
        right, base = contents.answers()
        wrong = self.reference.wrong_answers(contents.inputs, case)
        return [name for name, answer in wrong.items() if self._compare(answer, right, base, case).ok]

    def verdicts(self, changed: list[str]) -> list[dict[str, Any]]:
        """The probes' checks over all calls."""
        return cardprobes.verdicts(self._gate, self._cases, self.steps, changed)


def _padded(size: int) -> int:
    return -(-max(size, 1) // tensors.ALIGNMENT) * tensors.ALIGNMENT


def warm() -> None:
    """Let torch load what tensors without contents need, which takes seconds."""
    mask = torch.zeros(2, dtype=torch.bool, device="meta")
    torch.zeros(2, device="meta").masked_fill_(mask, 0.0)


def run(wire: Wire, specification: dict[str, Any], descriptors: list[int]) -> int:
    torch.set_num_threads(1)
    try:
        carddevice.begin(specification)
        torch.backends.cuda.matmul.allow_tf32 = False
        referee = Referee(specification, descriptors[0])
        wire.send(plan=referee.plan())
        while True:
            message = wire.receive()
            if "collect" in message:
                referee.collect(referee.steps[message["collect"]], message["report"])
                wire.send(collected=message["collect"])
            if "stage" in message:
                referee.stage(referee.steps[message["stage"]])
                wire.send(staged=message["stage"])
            if "judge" in message:
                wire.send(check=referee.judge(referee.steps[message["judge"]]))
            if "finish" in message:
                wire.send(checks=referee.verdicts(message["finish"]))
                return 0
    except EOFError:
        return 0
    except Exception as failure:  # noqa: BLE001 (a task's own code can fail in any way)
        import traceback

        traceback.print_exc()
        wire.send(failed=f"the referee failed: {type(failure).__name__}: {failure}")
        return 0
