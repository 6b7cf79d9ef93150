"""The static time model end to end: it reacts as the card would, and never breaks on odd texts."""

from __future__ import annotations

import gzip
import json
import math
import random
from pathlib import Path
from typing import Any

import pytest
from kernel_lab.engine.harness import model

DATA = Path(__file__).parents[1] / "data" / "model"
SM = {"registers_sm": 65536, "l2_bytes": 3 * 2**20, "smem_sm_bytes": 102400, "warps_sm": 48, "ctas_sm": 16}
RTX3060: dict[str, Any] = {
    **SM,
    "arch": 86,
    "sms": 28,
    "boost_ghz": 1.777,
    "dram_gbs": 360.0,
    "dram_measured_gbs": None,
    "tensor_tflops": {"fp16": 25.5, "bf16": 25.5, "fp16_acc16": 51.0},
}
H200: dict[str, Any] = {
    **SM,
    "arch": 90,
    "sms": 132,
    "boost_ghz": 1.98,
    "dram_gbs": 4800.0,
    "dram_measured_gbs": 4300.0,
    "l2_bytes": 60 * 2**20,
    "smem_sm_bytes": 233472,
    "warps_sm": 64,
    "ctas_sm": 32,
    "tensor_tflops": {"fp16": 989.0, "bf16": 989.0},
}
B200: dict[str, Any] = {**H200, "arch": 100, "sms": 148, "tensor_tflops": {"bf16": 2250.0, "fp16": 2250.0}}
PREFILL = {
    "task": "gqa_prefill",
    "B": 1,
    "Hq": 32,
    "Hkv": 8,
    "Sq": 4096,
    "Sk": 4096,
    "D": 128,
    "dtype": "bf16",
}
TARGETS = {"sm86": RTX3060, "sm90": H200, "sm100": B200}
NAMES = sorted(path.name.removesuffix(".json.gz") for path in DATA.glob("*_sm*.json.gz"))


def load(name: str) -> dict[str, Any]:
    with gzip.open(DATA / f"{name}.json.gz", "rt") as file:
        launch: dict[str, Any] = json.load(file)
    return launch


def target_of(name: str) -> dict[str, Any]:
    return TARGETS[name.rsplit("_", 1)[1]]


def microseconds(launch: dict[str, Any], target: dict[str, Any], **workload: Any) -> float:
    return float(model.estimate([launch], target, {**PREFILL, "causal": True, **workload})["time_us"])


def with_value(launch: dict[str, Any], **values: int) -> dict[str, Any]:
    args = [{**a, "value": values[a["name"]]} if a["name"] in values else a for a in launch["args"]]
    return {**launch, "args": args}


@pytest.mark.parametrize("name", NAMES)
def test_every_kind_of_kernel_gets_a_time_a_bound_and_parts(name: str) -> None:
    found = model.estimate([load(name)], target_of(name), {**PREFILL, "causal": True})
    assert 1.0 < found["time_us"] < 1e6
    assert found["bound"] in {"tensor", "exp", "issue", "smem", "dram", "l2", "latency", "launch"}
    assert found["roof_percent"] > 0
    assert json.dumps(found)


@pytest.mark.parametrize("batch", [1, 4, 16])
@pytest.mark.parametrize("name", NAMES)
def test_a_schedule_is_never_faster_than_one_of_its_pipes(name: str, batch: int) -> None:
    launch = {**load(name), "grid": [32, 32 * batch, 1]}
    found = model.estimate([launch], target_of(name), {**PREFILL, "causal": True, "B": batch})
    [parts] = found["parts"]["launches"]
    assert parts["schedule_us"] >= max(parts["pipes_us"].values(), default=0.0)


def test_a_plain_loop_on_an_h200_is_near_the_measured_406_tflops() -> None:
    time_us = microseconds(load("naive_causal_sm90"), H200)
    rate = 2 * 32 * 4096 * 4096 * 128 / time_us / 1e6
    assert 0.65 * 406 < rate < 1.2 * 406


def test_a_3060_stays_below_its_fp32_accumulate_roof_and_comes_near_it() -> None:
    found = model.estimate([load("naive_causal_sm86")], RTX3060, {**PREFILL, "causal": True})
    assert 60 < found["roof_percent"] < 98
    assert found["bound"] == "tensor"


def test_causal_programs_that_stop_early_cost_about_half_of_full_ones() -> None:
    full, causal = ({**load(f"naive_{kind}_sm90"), "grid": [32, 128, 1]} for kind in ("full", "causal"))
    ratio = microseconds(full, H200, B=4) / microseconds(causal, H200, B=4)
    assert 1.35 < ratio < 2.2


def test_time_grows_with_the_keys_and_with_the_grid() -> None:
    launch = load("naive_full_sm90")
    half = microseconds(with_value(launch, Sk=2048), H200, Sk=2048)
    whole = microseconds(launch, H200)
    twice = microseconds({**launch, "grid": [32, 64, 1]}, H200, B=2)
    assert 1.8 < whole / half < 2.2
    assert 1.7 < twice / whole < 2.3


def test_half_the_sms_take_twice_the_time() -> None:
    launch = load("naive_full_sm90")
    slow = {**H200, "sms": 66, "tensor_tflops": {"bf16": 494.5}}
    assert 1.8 < microseconds(launch, slow) / microseconds(launch, H200) < 2.2


def test_a_grid_smaller_than_the_card_takes_as_long_as_one_cta() -> None:
    launch = load("naive_full_sm90")
    one = microseconds({**launch, "grid": [1, 1, 1]}, H200)
    many = microseconds({**launch, "grid": [4, 16, 1]}, H200)
    assert many < 1.35 * one


def test_a_loop_on_loaded_values_counts_as_if_it_ran_over_all_keys_and_says_so() -> None:
    launch = load("while_sm86")
    short = model.estimate([launch], RTX3060, {**PREFILL, "Sk": 1024, "Sq": 1})
    long = model.estimate([launch], RTX3060, {**PREFILL, "Sk": 16384, "Sq": 1})
    assert any("depends on data" in note for note in long["parts"]["assumed"])
    assert long["time_us"] > 4 * short["time_us"]


def test_a_loop_on_sequence_lengths_is_known_exactly() -> None:
    launch = load("while_sm86")
    args = [{**a, "tensor": "seq_lens"} if a["name"] == "n_ptr" else a for a in launch["args"]]
    launch = {**launch, "args": args}
    lengths = {"B": 64, "Sk": 1024, "Sq": 1, "seq_lens": [10] * 63 + [400]}
    found = model.estimate([launch], RTX3060, {**PREFILL, **lengths})
    trips = found["parts"]["launches"][0]["trips"]
    assert not found["parts"]["assumed"]
    assert trips["1"] == pytest.approx((63 * 5 + 200) / 64)
    assert trips["2"] == pytest.approx((63 * 2 + 67) / 64)


@pytest.mark.parametrize("name", NAMES)
def test_cut_off_texts_still_give_a_finite_positive_time(name: str) -> None:
    launch, target = load(name), target_of(name)
    dice = random.Random(name)
    for _ in range(6):
        cut = dict(launch)
        for text in ("ttir", "sass"):
            cut[text] = launch[text][: dice.randrange(len(launch[text]) + 1)]
        found = model.estimate([cut], target, {**PREFILL, "causal": True})
        assert math.isfinite(found["time_us"])
        assert found["time_us"] > 0


def test_nothing_at_all_still_gives_a_time() -> None:
    found = model.estimate([{"kernel": "k", "grid": [7]}], {"arch": 86}, {})
    assert math.isfinite(found["time_us"])
    assert found["time_us"] > 0
    assert model.estimate([], H200, PREFILL)["time_us"] > 0


def test_the_same_kernel_is_parsed_once() -> None:
    launch = load("naive_causal_sm90")
    assert model.parse(launch, H200) is model.parse(dict(launch), H200)
    assert model.parse(launch, H200) is not model.parse(launch, {**H200, "boost_ghz": 1.5})


def test_a_summary_survives_json() -> None:
    launch = load("naive_causal_sm90")
    summary = model.parse(launch, H200)
    workload = {**PREFILL, "causal": True}
    again = model.estimate_summary(json.loads(json.dumps(summary)), launch, H200, workload)
    assert again["time_us"] == model.estimate_launch(launch, H200, workload)["time_us"]
    assert len(json.dumps(summary)) < 20_000
