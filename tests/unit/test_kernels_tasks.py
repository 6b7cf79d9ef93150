"""task.toml, the seed candidates and the baselines say the same things."""

from __future__ import annotations

import inspect
import itertools
import random
from typing import Any

import pytest
from kernel_lab.engine.candidate import Candidate, parse
from kernel_lab.engine.tasks import bucket_of, load_task
from kernels_runner import KERNELS, load

TASKS = ["gqa_decode", "gqa_prefill"]
EDGES = [1, 2, 4, 5, 8, 64, 128, 129, 256, 1023, 1024, 1025, 2048, 2049, 8192]


def seed(task: str) -> Candidate:
    return parse((KERNELS / task / "candidate.py").read_text(), load_task(task).entry)


@pytest.mark.parametrize("task", TASKS)
def test_bucket_of_the_seed_mirrors_task_toml(task: str) -> None:
    spec, bucket = load_task(task), load(task, "candidate").bucket
    wanted = set(inspect.signature(bucket).parameters)
    rng = random.Random(0)
    reached = set()
    shapes = [
        dict(zip(("B", "Sq", "Sk", "D"), shape, strict=True)) for shape in itertools.product(EDGES, repeat=4)
    ]
    for dims in rng.sample(shapes, 4000):
        for causal in (True, False) if task == "gqa_prefill" else (True,):
            w: dict[str, Any] = {"id": "w", "Hq": 32, "Hkv": 8, "dtype": "bf16", "causal": causal, **dims}
            name = bucket(**{key: value for key, value in w.items() if key in wanted})
            assert name == bucket_of(spec, w), w
            reached.add(name)
    assert reached == {b.name for b in spec.buckets}


@pytest.mark.parametrize("task", TASKS)
def test_the_seed_has_every_structural_switch_off(task: str) -> None:
    candidate = seed(task)
    start = candidate.config["*"]
    assert set(start) == set(candidate.space)
    for name, values in candidate.space.items():
        if set(values) == {False, True}:
            assert start[name] is False
            assert all(entry.get(name, False) is False for entry in candidate.config.values())
    off = {"gqa_prefill": {"ORDER": "rows"}, "gqa_decode": {"ORDER": "heads", "SPLIT_WAVES": 0}}[task]
    assert off.items() <= start.items()


@pytest.mark.parametrize("task", TASKS)
def test_the_seed_stays_readable(task: str) -> None:
    lines = (KERNELS / task / "candidate.py").read_text().splitlines()
    assert len(lines) <= 400


@pytest.mark.parametrize("task", TASKS)
def test_workload_weights_sum_to_one(task: str) -> None:
    assert sum(template.weight for template in load_task(task).workloads) == pytest.approx(1.0)


@pytest.mark.parametrize("task", TASKS)
def test_static_cases_keep_the_edges(task: str) -> None:
    cases = [dict(case) for case in load_task(task).static_cases]
    assert {case["D"] for case in cases} >= {64, 80, 96, 128, 256}
    assert {case["Hq"] // case["Hkv"] for case in cases} >= {1, 4, 5, 6, 7, 8, 16}
    assert {case["layout"] for case in cases} == {"contiguous", "strided", "offset"}
    assert len({case["distribution"] for case in cases}) == 9
    if task == "gqa_decode":
        lengths = [n for case in cases for n in case["seq_lens"]]
        assert 0 in lengths
        assert 1 in lengths
        assert any(n < case["Sk"] for case in cases for n in case["seq_lens"])
    else:
        assert any(case["Sq"] > case["Sk"] for case in cases)
        assert any(1 < case["Sq"] < case["Sk"] for case in cases)


def baseline_call(spec: Any, name: str) -> dict[str, str]:
    return next(dict(b.call) for b in spec.baselines if b.name == name)


@pytest.mark.parametrize("task", TASKS)
def test_baselines_name_a_call_for_every_kind_of_workload(task: str) -> None:
    spec, baselines = load_task(task), load(task, "baselines")
    kinds = set()
    for t in spec.workloads:
        w = {"Sq": t.Sq, "Sk": t.Sk, "causal": t.causal, "B": t.B}
        if task == "gqa_decode":
            w["seq_lens"] = [t.Sk // 2] * t.B if t.seq_lens == "ragged" else None
        kinds.add(baselines.kind_of(w))
    for name in ("fa2", "cudnn"):
        assert set(baseline_call(spec, name)) == kinds


@pytest.mark.parametrize("task", TASKS)
def test_a_machine_without_a_card_says_why_baselines_are_absent(task: str) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("this machine has a card")
    assert load(task, "baselines").available() == {"fa2": "no CUDA device", "cudnn": "no CUDA device"}
