"""The seed kernels and the baselines on a real card: right on every edge, graph-capturable, deterministic.

Beside the card, with torch, triton and pytest alone, pytest needs `--noconftest`.
"""

from __future__ import annotations

import importlib.util
import random
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]

KERNELS = Path(__file__).parents[2] / "kernels"
ENTRIES = {"gqa_prefill": "attention", "gqa_decode": "decode"}
TASKS = sorted(ENTRIES)
ALL_ON = {"EXP2": True, "SKIP": True, "TWO_LOOPS": True, "PACK_GQA": True}
SETTINGS: dict[str, list[dict[str, Any]]] = {
    "gqa_prefill": [
        {},
        {**ALL_ON, "ORDER": "group", "LONGEST_FIRST": True},
        {**ALL_ON, "DESCRIPTORS": True},
        {"DESCRIPTORS": True, "ORDER": "heads", "TWO_LOOPS": True},
    ],
    "gqa_decode": [
        {},
        {**ALL_ON, "SPLIT_WAVES": 2, "num_warps": 2},
        {**ALL_ON, "DESCRIPTORS": True, "SPLIT_WAVES": 4, "ORDER": "splits"},
        {"DESCRIPTORS": True, "SPLIT_WAVES": 1},
    ],
}


def load(task: str, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"{task}_{name}_gpu", KERNELS / task / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def task_file(task: str) -> dict[str, Any]:
    return tomllib.loads((KERNELS / task / "task.toml").read_text())


def candidate(task: str, setting: dict[str, Any]) -> Any:
    """The seed's entry with `setting` over every bucket."""
    module = load(task, "candidate")
    module.CONFIG = {name: {**entry, **setting} for name, entry in module.CONFIG.items()}
    return getattr(module, ENTRIES[task])


def excess(task: str, reference: ModuleType, inputs: Any, w: dict[str, Any], out: Any) -> float:
    """How far the largest error is beyond what the tolerance of task.toml allows; 0 or less passes."""
    tolerance = task_file(task)["tolerance"][w["dtype"]]
    right = reference.reference(inputs, w, dtype=torch.float64)
    base = (reference.baseline_emulation(inputs, w).double() - right).abs().max()
    limit = tolerance["factor"] * base + tolerance["floor_abs"] + tolerance["floor_rel"] * right.abs().max()
    error = (out.double() - right).abs().max()
    return float("inf") if error.isnan() else float(error - limit)


def hidden_workloads(task: str, count: int) -> list[dict[str, Any]]:
    rng = random.Random(11)
    workloads = []
    for number in range(count):
        w: dict[str, Any] = {"id": f"hidden-{number}", "dtype": rng.choice(["fp16", "bf16"])}
        for key, values in task_file(task)["hidden"].items():
            if key != "static":
                listed = isinstance(values, list)
                w[key] = rng.choice(values) if listed else rng.randint(values["min"], values["max"])
        w["Hq"] = w["Hkv"] * w.pop("group")
        if task == "gqa_decode":
            w["seq_lens"] = [rng.choice([0, 1, w["Sk"], rng.randint(0, w["Sk"])]) for _ in range(w["B"])]
        workloads.append(w)
    return workloads


@pytest.mark.parametrize("setting", [0, 1, 2, 3])
@pytest.mark.parametrize("task", TASKS)
def test_seed_is_right_on_edges_and_hidden_shapes(task: str, setting: int) -> None:
    reference, entry = load(task, "reference"), candidate(task, SETTINGS[task][setting])
    edges = [{**case, "dtype": d} for case in task_file(task)["static_case"] for d in ("fp16", "bf16")]
    wrong = {}
    for w in edges + hidden_workloads(task, 16):
        inputs = reference.make_inputs(w, seed=9, device="cuda")
        over = excess(task, reference, inputs, w, reference.call(entry, inputs, w))
        if over > 0:
            wrong[f"{w['id']} {w['dtype']}"] = over
    assert wrong == {}


def ordinary(task: str) -> dict[str, Any]:
    shape = {"B": 2, "Hq": 32, "Hkv": 8, "D": 128, "dtype": "bf16", "causal": True, "Sk": 2000}
    lengths = {"gqa_prefill": {"Sq": 1000}, "gqa_decode": {"Sq": 1, "seq_lens": [1999, 700]}}[task]
    return {"id": "ordinary", **shape, **lengths}


@pytest.mark.parametrize("task", TASKS)
def test_seed_is_captured_in_a_graph_and_repeats_its_bits(task: str) -> None:
    reference, w = load(task, "reference"), ordinary(task)
    for setting in SETTINGS[task]:
        entry = candidate(task, setting)
        inputs = reference.make_inputs(w, seed=1, device="cuda")
        eager = reference.call(entry, inputs, w)
        for _ in range(20):
            assert torch.equal(reference.call(entry, inputs, w), eager)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            captured = reference.call(entry, inputs, w)
        # New contents at the same addresses; what the graph left before must not survive.
        fresh = reference.make_inputs(w, seed=2, device="cuda")
        for name, x in fresh.items():
            inputs[name].copy_(x)
        captured.fill_(float("nan"))
        graph.replay()
        assert torch.equal(captured, reference.call(entry, fresh, w))


@pytest.mark.parametrize("task", TASKS)
def test_seed_reaches_beyond_32_bit_offsets(task: str) -> None:
    if torch.cuda.mem_get_info()[0] < 16 * 2**30:
        pytest.skip("needs 16 GB of free memory")
    reference = load(task, "reference")
    for setting in SETTINGS[task]:
        entry = candidate(task, setting)
        w = {**ordinary(task), "B": 1, "Sk": 512, "dtype": "fp16"}
        w.update({"seq_lens": [500]} if task == "gqa_decode" else {"Sq": 256})
        inputs = reference.make_inputs(w, seed=3, device="cuda")
        expected = reference.call(entry, inputs, w)
        # Rows of k so far apart that the last lies beyond 2^31 elements.
        name = "k" if task == "gqa_prefill" else "k_cache"
        step = 2**31 // 480 // 8 * 8
        room = torch.empty(step * 512 + w["D"] * w["Hkv"], dtype=torch.float16, device="cuda")
        far = room.as_strided(inputs[name].shape, (0, w["D"], step, 1))
        far.copy_(inputs[name])
        assert torch.equal(reference.call(entry, {**inputs, name: far}, w), expected)
        del room, far


@pytest.mark.parametrize("task", TASKS)
def test_baselines_answer_the_operator(task: str) -> None:
    reference, baselines = load(task, "reference"), load(task, "baselines")
    if task == "gqa_prefill":
        kinds = [{"Sq": 2000}, {"Sq": 512}, {"Sq": 512, "causal": False}]
    else:
        kinds = [{"seq_lens": None}, {"seq_lens": None, "Sq": 4}, {}, {"Sq": 4}]
    calls = next(iter(task_file(task)["baseline"]))["call"]
    for name, missing in baselines.available().items():
        if missing is not None:
            continue
        for change in kinds:
            w = {**ordinary(task), **change}
            inputs = reference.make_inputs(w, seed=4, device="cuda")
            run = baselines.make(name, w, inputs)
            if run is None:
                assert name == "cudnn", f"fa2 has no call for {baselines.kind_of(w)}: {calls}"
                continue
            assert excess(task, reference, inputs, w, run()) <= 0
