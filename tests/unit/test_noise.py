"""The keep rule on noise recorded on a real card: a kernel raced against itself, 40 rounds a workload.

`tests/data/noise/h200-aa.json` holds the log ratios; `tests/gpu/try_card.py --only aa` records them again.
"""

from __future__ import annotations

import functools
import json
import math
import random
from pathlib import Path
from typing import Any

import pytest
from kernel_lab.engine.judge.race import RaceScore, decide_measured
from kernel_lab.engine.profiles import load_gpu, load_model
from kernel_lab.engine.tasks import load_task, workload_matrix

NOISE = json.loads((Path(__file__).parents[1] / "data" / "noise" / "h200-aa.json").read_text())["rounds"]
ROOFS = {"read_gbs": 1e9, "matmul_tflops": {"bf16": 1e9}}
ROUNDS = 60


@functools.cache
def matrix(task: str) -> list[dict[str, Any]]:
    """The shapes that were recorded: all of the matrix."""
    workloads, _ = workload_matrix(load_task(task), load_model("llama-3.1-8b"), load_gpu("h200"))
    assert all(workload["id"] in NOISE for workload in workloads)
    return workloads


def raced(task: str, gain: float, rng: random.Random) -> str:
    """The decision of one race whose candidate is `gain` times as fast as the champion."""
    workloads = matrix(task)
    score = RaceScore(workloads, ["champion"])
    for _ in range(ROUNDS):
        sign = rng.choice((1, -1))  # which of the two equal kernels is called the candidate
        samples = []
        for workload in workloads:
            log = sign * rng.choice(NOISE[workload["id"]]) + math.log(gain)
            samples.append(
                {"workload": workload["id"], "us": {"candidate": 100.0, "champion": 100 * math.exp(log)}}
            )
        score.add(samples)
        if score.settled():
            break
    ids = {workload["id"]: 1.0 for workload in workloads}
    return decide_measured(score.speed(ids, ids, ROOFS)).status


@pytest.mark.parametrize("task", ["gqa_prefill", "gqa_decode"])
def test_equal_kernels_are_not_kept(task: str) -> None:
    rng = random.Random(1)
    assert [raced(task, 1.0, rng) for _ in range(100)].count("keep") == 0


@pytest.mark.parametrize("task", ["gqa_prefill", "gqa_decode"])
@pytest.mark.parametrize(("gain", "share"), [(1.015, 0.8), (1.03, 0.95)])
def test_planted_gains_are_kept(task: str, gain: float, share: float) -> None:
    rng = random.Random(2)
    assert [raced(task, gain, rng) for _ in range(50)].count("keep") >= 50 * share
