"""The seed kernels: right in Triton's interpreter under every switch, and within the limits of cards."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from kernels_runner import KERNELS

RUNNER = Path(__file__).with_name("kernels_runner.py")
Rows = list[dict[str, Any]]


def task_file(task: str) -> dict[str, Any]:
    return tomllib.loads((KERNELS / task / "task.toml").read_text())


def ask(mode: str, request: dict[str, Any], folder: Path) -> Rows:
    path = folder / "request.json"
    path.write_text(json.dumps(request))
    environment = {**os.environ, "TRITON_CACHE_DIR": str(folder / "cache"), "TRITON_DEFAULT_FP_FUSION": "1"}
    environment["TRITON_INTERPRET"] = "1" if mode == "interpret" else "0"
    command = [sys.executable, str(RUNNER), mode, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=280)
    assert done.returncode == 0, done.stderr[-2000:]
    rows: Rows = json.loads(done.stdout.splitlines()[-1])
    return rows


def static_cases(task: str) -> list[dict[str, Any]]:
    return [{**case, "dtype": "fp16"} for case in task_file(task)["static_case"]]


ALL_ON = {"EXP2": True, "SKIP": True, "TWO_LOOPS": True, "PACK_GQA": True}
# All switches over every case; each alone, or few together, over every third or fourth.
SETTINGS: dict[str, list[dict[str, Any]]] = {
    "gqa_prefill": [
        {**ALL_ON, "ORDER": "group", "LONGEST_FIRST": True},
        {"step": 4},
        {
            "SKIP": True,
            "ORDER": "heads",
            "LONGEST_FIRST": True,
            "BLOCK_M": 32,
            "BLOCK_N": 128,
            "first": 1,
            "step": 4,
        },
        {"TWO_LOOPS": True, "EXP2": True, "ORDER": "group", "BLOCK_M": 128, "first": 2, "step": 4},
        {"PACK_GQA": True, "ORDER": "heads", "BLOCK_N": 64, "first": 3, "step": 4},
        {**ALL_ON, "DESCRIPTORS": True, "arch": 90, "BLOCK_M": 128, "BLOCK_N": 64, "step": 3},
    ],
    "gqa_decode": [
        {**ALL_ON, "SPLIT_WAVES": 2},
        {"step": 4},
        {"SKIP": True, "SPLIT_WAVES": 1, "ORDER": "splits", "BLOCK_N": 32, "first": 1, "step": 4},
        {"TWO_LOOPS": True, "EXP2": True, "SPLIT_WAVES": 1, "BLOCK_N": 128, "first": 2, "step": 4},
        {"PACK_GQA": True, "ORDER": "splits", "SPLIT_WAVES": 4, "BLOCK_N": 32, "first": 3, "step": 4},
        {**ALL_ON, "DESCRIPTORS": True, "arch": 90, "SPLIT_WAVES": 2, "step": 3},
    ],
}


@pytest.mark.parametrize("task", ["gqa_prefill", "gqa_decode"])
def test_every_switch_is_right_on_every_edge(task: str, tmp_path: Path) -> None:
    request = {
        "task": task,
        "workloads": static_cases(task),
        "settings": SETTINGS[task],
        "tolerance": task_file(task)["tolerance"],
    }
    rows = ask("interpret", request, tmp_path)
    assert len(rows) > 2 * len(request["workloads"])
    assert [row for row in rows if row["wrong"]] == []


def drawn_workload(task: str, rng: random.Random, number: int) -> dict[str, Any]:
    """A workload from the hidden ranges, with the replacements for the interpreter."""
    hidden = task_file(task)["hidden"]
    ranges = {**hidden, **hidden["static"]}
    w: dict[str, Any] = {"id": f"hidden-{number}", "dtype": "fp16"}
    for key, values in ranges.items():
        if key != "static":
            w[key] = (
                rng.choice(values) if isinstance(values, list) else rng.randint(values["min"], values["max"])
            )
    w["Hq"] = w["Hkv"] * w.pop("group")
    if task == "gqa_decode":
        w["seq_lens"] = [rng.choice([0, 1, w["Sk"], rng.randint(0, w["Sk"])]) for _ in range(w["B"])]
    return w


@pytest.mark.parametrize("task", ["gqa_prefill", "gqa_decode"])
def test_random_settings_are_right_on_random_shapes(task: str, tmp_path: Path) -> None:
    rng = random.Random(3)
    space = space_of(task)
    settings = [{name: rng.choice(v) for name, v in space.items()} | {"arch": 90} for _ in range(4)]
    workloads = [drawn_workload(task, rng, number) for number in range(4)]
    tolerance = task_file(task)["tolerance"]
    request = {"task": task, "workloads": workloads, "settings": settings, "tolerance": tolerance}
    rows = ask("interpret", request, tmp_path)
    assert [row for row in rows if row["wrong"]] == []


def space_of(task: str) -> dict[str, list[Any]]:
    from kernel_lab.engine.candidate import parse

    entry = task_file(task)["entry"]
    return parse((KERNELS / task / "candidate.py").read_text(), entry).space


LLAMA = {"Hq": 32, "Hkv": 8, "D": 128, "dtype": "bf16", "causal": True}
QWEN_27B = {"Hq": 24, "Hkv": 4, "D": 256, "dtype": "bf16", "causal": True}
SHAPES: dict[str, dict[str, int]] = {
    "gqa_prefill": {"B": 2, "Sq": 2048, "Sk": 2048},
    "gqa_decode": {"B": 1, "Sq": 1, "Sk": 8192},
}
SM86_BYTES = 101376
SM90_BYTES = 232448


@pytest.mark.parametrize("task", ["gqa_prefill", "gqa_decode"])
def test_the_seed_fits_an_rtx_3060_without_spills(task: str, tmp_path: Path) -> None:
    workloads = [{"id": "w", **heads, **SHAPES[task]} for heads in (LLAMA, QWEN_27B)]
    rows = ask(
        "compile", {"task": task, "arch": 86, "sms": 28, "settings": [{}], "workloads": workloads}, tmp_path
    )
    assert len(rows) == 2
    for row in rows:
        assert row["shared_bytes"] <= SM86_BYTES
        assert row["stack_bytes"] == 0
        assert row["tensor_cores"]
        assert not row["tma"]


@pytest.mark.parametrize("task", ["gqa_prefill", "gqa_decode"])
def test_descriptors_become_tma_on_an_h200(task: str, tmp_path: Path) -> None:
    setting: dict[str, Any] = {**ALL_ON, "DESCRIPTORS": True}
    if task == "gqa_decode":
        setting["SPLIT_WAVES"] = 2
    workloads = [{"id": "w", **LLAMA, **SHAPES[task]}]
    request = {"task": task, "arch": 90, "sms": 132, "settings": [setting], "workloads": workloads}
    rows = ask("compile", request, tmp_path)
    kernels = [row["kernel"] for row in rows]
    assert kernels == (["attention_kernel"] if task == "gqa_prefill" else ["decode_kernel", "combine_kernel"])
    assert rows[0]["tma"]
    assert rows[0]["shared_bytes"] <= SM90_BYTES
