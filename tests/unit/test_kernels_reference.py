"""The references of both tasks: the formula, its cost, its inputs, and controls that a compare must fail."""

from __future__ import annotations

import math
import tomllib
from typing import Any

import pytest
import torch
from kernel_lab.engine.harness.compare import compare, tolerance_for
from kernels_runner import KERNELS, load

PREFILL = load("gqa_prefill", "reference")
DECODE = load("gqa_decode", "reference")
REFERENCES = {"gqa_prefill": PREFILL, "gqa_decode": DECODE}
TASKS = sorted(REFERENCES)
FILES = {task: tomllib.loads((KERNELS / task / "task.toml").read_text()) for task in TASKS}
CASES = [(task, case["id"]) for task in TASKS for case in FILES[task]["static_case"]]

SMALL: dict[str, list[dict[str, Any]]] = {
    "gqa_prefill": [
        {"B": 2, "Hq": 4, "Hkv": 2, "Sq": 5, "Sk": 9, "D": 64, "dtype": "fp16", "causal": True},
        {"B": 1, "Hq": 5, "Hkv": 1, "Sq": 9, "Sk": 4, "D": 80, "dtype": "bf16", "causal": True},
        {
            "B": 1,
            "Hq": 3,
            "Hkv": 3,
            "Sq": 4,
            "Sk": 7,
            "D": 64,
            "dtype": "fp16",
            "causal": False,
            "scale": 0.3,
        },
    ],
    "gqa_decode": [
        {"B": 3, "Hq": 4, "Hkv": 2, "Sq": 1, "Sk": 9, "D": 64, "dtype": "fp16", "seq_lens": [0, 1, 8]},
        {"B": 3, "Hq": 7, "Hkv": 1, "Sq": 4, "Sk": 9, "D": 96, "dtype": "bf16", "seq_lens": [2, 9, 0]},
        {"B": 1, "Hq": 2, "Hkv": 2, "Sq": 2, "Sk": 6, "D": 64, "dtype": "fp16", "scale": 0.3},
    ],
}
SMALL_CASES = [(task, w) for task in TASKS for w in SMALL[task]]


def static_case(task: str, name: str) -> dict[str, Any]:
    return next({**case, "dtype": "fp16"} for case in FILES[task]["static_case"] if case["id"] == name)


def visible(task: str, w: dict[str, Any], b: int, i: int, j: int) -> bool:
    """The definition: does query i of sequence b see key j?"""
    if task == "gqa_prefill":
        return not w["causal"] or j <= i + w["Sk"] - w["Sq"]
    length = w["Sk"] if w.get("seq_lens") is None else w["seq_lens"][b]
    return j < length and j <= length - w["Sq"] + i


def cache_names(task: str) -> tuple[str, str]:
    return ("k", "v") if task == "gqa_prefill" else ("k_cache", "v_cache")


@pytest.mark.parametrize(("task", "w"), SMALL_CASES)
def test_reference_is_the_formula(task: str, w: dict[str, Any]) -> None:
    reference = REFERENCES[task]
    inputs = reference.make_inputs(w, seed=3, device="cpu")
    q = inputs["q"].double()
    k, v = (inputs[name].double() for name in cache_names(task))
    out = reference.reference(inputs, w)
    assert out.dtype == torch.float64
    scale = w.get("scale") or 1 / math.sqrt(w["D"])
    for b in range(w["B"]):
        for h in range(w["Hq"]):
            kv_head = h // (w["Hq"] // w["Hkv"])
            for i in range(w["Sq"]):
                keys = [j for j in range(w["Sk"]) if visible(task, w, b, i, j)]
                expected = torch.zeros(w["D"], dtype=torch.float64)
                if keys:
                    weights = [math.exp(scale * float(q[b, h, i] @ k[b, kv_head, j])) for j in keys]
                    for weight, j in zip(weights, keys, strict=True):
                        expected += weight / sum(weights) * v[b, kv_head, j]
                torch.testing.assert_close(out[b, h, i], expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("task", "w"), SMALL_CASES)
def test_rows_of_a_head_as_a_workload_of_their_own_have_the_same_answer(task: str, w: dict[str, Any]) -> None:
    module = REFERENCES[task]
    inputs = module.make_inputs(w, seed=3, device="cpu", dtype=torch.float64)
    whole, counts = module.reference(inputs, w), module.row_key_counts(w)
    for b in range(w["B"]):
        for head in range(w["Hq"]):
            for first, last in ((0, w["Sq"]), (w["Sq"] // 2, w["Sq"] // 2 + 1), (0, 1)):
                part, small = module.part(inputs, w, b, head, first, last)
                assert torch.equal(module.row_key_counts(small)[0], counts[b, first:last])
                expected = whole[b, head, first:last]
                assert torch.allclose(module.reference(part, small)[0, 0], expected, atol=1e-12)
                emulated = module.baseline_emulation(part, small)[0, 0]
                assert torch.allclose(emulated.double(), expected, atol=1e-2)


def test_lengths_are_the_only_integers_that_inputs_hold() -> None:
    assert PREFILL.integer_inputs(SMALL["gqa_prefill"][0]) == {}
    assert DECODE.integer_inputs(SMALL["gqa_decode"][0]) == {"seq_lens": [0, 1, 8]}
    assert DECODE.integer_inputs(SMALL["gqa_decode"][2]) == {"seq_lens": [6]}


@pytest.mark.parametrize(("task", "w"), SMALL_CASES)
def test_cost_is_what_a_count_of_pairs_gives(task: str, w: dict[str, Any]) -> None:
    reference = REFERENCES[task]
    pairs = [
        [sum(visible(task, w, b, i, j) for j in range(w["Sk"])) for i in range(w["Sq"])]
        for b in range(w["B"])
    ]
    assert reference.row_key_counts(w).tolist() == pairs
    # A multiplication and an addition for each of D elements, for q·k and for p·v.
    assert reference.flops(w) == w["Hq"] * sum(map(sum, pairs)) * 2 * w["D"] * 2
    lengths = [w["Sk"]] * w["B"] if w.get("seq_lens") is None else w["seq_lens"]
    elements = 2 * w["B"] * w["Hq"] * w["Sq"] * w["D"] + 2 * w["Hkv"] * sum(lengths) * w["D"]
    assert reference.moved_bytes(w) == 2 * elements + (4 * w["B"] if task == "gqa_decode" else 0)


@pytest.mark.parametrize(("task", "name"), CASES)
def test_wrong_answers_fail_and_the_baseline_passes(task: str, name: str) -> None:
    reference = REFERENCES[task]
    w = static_case(task, name)
    for dtype in ("fp16", "bf16"):
        w = {**w, "dtype": dtype}
        inputs = reference.make_inputs(w, seed=5, device="cpu")
        right, baseline = reference.reference(inputs, w), reference.baseline_emulation(inputs, w)
        counts, tolerance = reference.row_key_counts(w), tolerance_for(FILES[task]["tolerance"], dtype)
        assert baseline.dtype == inputs["q"].dtype
        assert compare(baseline, right, baseline, counts, tolerance).ok
        wrong = reference.wrong_answers(inputs, w)
        assert {"zeros", "input_copy"} <= set(wrong)
        assert len(wrong) >= 3
        passed = [n for n, x in wrong.items() if compare(x, right, baseline, counts, tolerance).ok]
        assert passed == []


@pytest.mark.parametrize("task", TASKS)
def test_wrong_answers_of_an_ordinary_case_are_all_there(task: str) -> None:
    name = {"gqa_prefill": "odd-lengths", "gqa_decode": "group4"}[task]
    w = {**static_case(task, name), "Hq": 4, "Hkv": 2}
    wrong = REFERENCES[task].wrong_answers(REFERENCES[task].make_inputs(w, seed=1, device="cpu"), w)
    common = {
        "zeros",
        "input_copy",
        "mean_v",
        "last_window",
        "tail_block_dropped",
        "unscaled",
        "heads_interleaved",
    }
    own = {"gqa_prefill": {"no_mask", "aligned_top_left"}, "gqa_decode": {"first_half", "garbage_read"}}[task]
    assert common | own <= set(wrong)


@pytest.mark.parametrize("task", TASKS)
def test_float32_is_exact_enough_and_inputs_stay(task: str) -> None:
    reference = REFERENCES[task]
    w = {**SMALL[task][0], "Sk": 300, "Sq": 8}
    if task == "gqa_decode":
        w["seq_lens"] = [0, 123, 300]
    inputs = reference.make_inputs(w, seed=2, device="cpu")
    before = {name: x.clone() for name, x in inputs.items()}
    low = reference.reference(inputs, w, dtype=torch.float32)
    torch.testing.assert_close(low.double(), reference.reference(inputs, w), rtol=1e-5, atol=1e-6)
    reference.wrong_answers(inputs, w)
    for name, x in inputs.items():
        assert torch.equal(x.nan_to_num(), before[name].nan_to_num())


@pytest.mark.parametrize("task", TASKS)
def test_layouts_hold_the_same_values_elsewhere(task: str) -> None:
    reference = REFERENCES[task]
    w = SMALL[task][0]
    plain = reference.make_inputs(w, seed=4, device="cpu")
    for layout in ("strided", "offset"):
        views = reference.make_inputs({**w, "layout": layout}, seed=4, device="cpu")
        for name in ("q", *cache_names(task)):
            x = views[name]
            assert torch.equal(x.nan_to_num(), plain[name].nan_to_num())
            assert x.stride(-1) == 1
            assert x.data_ptr() % 16 == 0
            assert all(stride * 2 % 16 == 0 for stride in x.stride()[:-1])
            assert x.untyped_storage().nbytes() > x.numel() * 2
            assert x.is_contiguous() == (layout == "offset")
    with pytest.raises(ValueError, match="layout"):
        reference.make_inputs({**w, "layout": "sideways"}, seed=4, device="cpu")


@pytest.mark.parametrize("task", TASKS)
def test_seeds_and_distributions_give_inputs_of_their_own(task: str) -> None:
    reference = REFERENCES[task]
    w = {**SMALL[task][0], "Sk": 64}
    if task == "gqa_decode":
        w["seq_lens"] = [64, 1, 0]
    one, again, other = (reference.make_inputs(w, seed=s, device="cpu")["q"] for s in (1, 1, 2))
    assert torch.equal(one, again)
    assert not torch.equal(one, other)
    seen = []
    for distribution in reference.DISTRIBUTIONS:
        inputs = reference.make_inputs({**w, "distribution": distribution}, seed=1, device="cpu")
        parts = [inputs[name][0] for name in ("q", *cache_names(task))]
        assert all(x.isfinite().all() for x in parts)
        assert not any(all(map(torch.equal, parts, others)) for others in seen)
        seen.append(parts)
    assert set(reference.DISTRIBUTIONS) == set(FILES[task]["hidden"]["distribution"])
    assert set(reference.LAYOUTS) == set(FILES[task]["hidden"]["layout"])


def test_cache_beyond_the_lengths_is_nan() -> None:
    w = SMALL["gqa_decode"][0]
    inputs = DECODE.make_inputs(w, seed=1, device="cpu")
    assert inputs["seq_lens"].tolist() == [0, 1, 8]
    assert inputs["seq_lens"].dtype == torch.int32
    for name in ("k_cache", "v_cache"):
        for b, length in enumerate([0, 1, 8]):
            assert inputs[name][b, :, length:].isnan().all()
            assert inputs[name][b, :, :length].isfinite().all()


def test_a_needle_is_found_far_from_the_queries() -> None:
    w = static_case("gqa_decode", "long-needle")
    inputs = DECODE.make_inputs(w, seed=6, device="cpu")
    out = DECODE.reference(inputs, w)
    values = inputs["v_cache"][0, 0, : w["seq_lens"][0] // 16 + 1].double()
    nearest = (values[None] - out[0, :, 0, None]).abs().amax(-1).min(1).values
    assert float(nearest.max()) < 0.01
