"""Shapes and seeds that a candidate cannot know before it is frozen."""

from __future__ import annotations

from typing import Any

from kernel_lab.engine.judge.cases import (
    frozen_seed,
    hidden_cases,
    long_cases,
    model_cases,
    sampled_cases,
    seeded_cases,
)

HIDDEN = {
    "B": {"min": 1, "max": 24},
    "Hkv": {"min": 1, "max": 8},
    "group": [1, 4, 5],
    "Sq": [1, 4],
    "Sk": {"min": 1, "max": 5000},
    "D": [64, 80],
    "causal": [True],
    "layout": ["strided"],
    "distribution": ["needle"],
    "static": {"B": {"min": 1, "max": 3}, "Sk": {"min": 1, "max": 160}},
}


def test_a_seed_depends_on_every_part() -> None:
    seeds = {frozen_seed(0, 1, "a"), frozen_seed(0, 2, "a"), frozen_seed(0, 1, "b"), frozen_seed(1, 1, "a")}
    assert len(seeds) == 4
    assert frozen_seed(0, 1, "a") == frozen_seed(0, 1, "a")
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_parts_cannot_be_shifted_into_each_other() -> None:
    assert frozen_seed(0, "1", "23") != frozen_seed(0, "12", "3")


def test_hidden_shapes_stay_in_their_ranges_and_differ_by_seed() -> None:
    cases = [case for seed in range(50) for case in hidden_cases(HIDDEN, "gqa_decode", seed, 4)]
    assert {case["B"] for case in cases} == {1, 2, 3}
    assert max(case["Sk"] for case in cases) <= 160
    assert all(case["Hq"] % case["Hkv"] == 0 and case["Hq"] // case["Hkv"] in (1, 4, 5) for case in cases)
    assert all(case["Sk"] >= case["Sq"] for case in cases)
    assert all(len(case["seq_lens"]) == case["B"] for case in cases)
    assert all(0 <= length <= case["Sk"] for case in cases for length in case["seq_lens"])
    assert any(0 in case["seq_lens"] for case in cases)
    assert len({case["Sk"] for case in cases}) > 50


def test_prefill_has_no_lengths() -> None:
    assert "seq_lens" not in hidden_cases(HIDDEN, "gqa_prefill", 0, 1)[0]


def test_each_case_has_a_seed_of_its_own_and_the_order_changes() -> None:
    cases = [{"id": f"c{n}"} for n in range(8)]
    first = seeded_cases(cases, "gqa_prefill", 1)
    assert {case["case"] for case in first} == {f"c{n}" for n in range(8)}
    assert len({case["seed"] for case in first}) == 8
    assert [c["case"] for c in first] != [c["case"] for c in seeded_cases(cases, "gqa_prefill", 2)]
    assert first == seeded_cases(cases, "gqa_prefill", 1)


def timed(**more: Any) -> dict[str, Any]:
    heads = {"Hq": 32, "Hkv": 8, "D": 128, "dtype": "bf16", "causal": True, "weight": 1.0}
    return {"id": "w", "task": "gqa_prefill", "B": 4, "Sq": 1024, "Sk": 1024, **heads, **more}


def test_the_heads_of_a_timed_shape_are_checked_whole_over_few_keys() -> None:
    prefill = model_cases([timed(), timed(id="x", Sq=2048, Sk=2048), timed(id="y", Hq=64)])
    assert [(c["id"], c["Hq"], c["Hkv"], c["D"]) for c in prefill] == [
        ("heads-32-8-128", 32, 8, 128),
        ("heads-64-8-128", 64, 8, 128),
    ]
    assert all((c["B"], c["Sq"], c["Sk"], c["dtype"]) == (1, 16, 40, "fp16") for c in prefill)
    (decode,) = model_cases([timed(Sq=1, Sk=8192, seq_lens=[8192] * 4)])
    assert (decode["Sq"], decode["seq_lens"]) == (1, [33])


def test_all_queries_of_a_timed_shape_meet_few_keys_of_one_head() -> None:
    cases = long_cases([timed(), timed(Sq=2048), timed(Sq=8), timed(Sq=16384)])
    assert [(c["id"], c["Hq"], c["Sk"]) for c in cases] == [("queries-1024", 1, 64), ("queries-2048", 1, 64)]


def test_samples_keep_the_shape_of_every_timed_launch_and_mostly_shorten_very_long_sequences() -> None:
    workloads = [timed(id=f"w{sk}", Sq=1, Sk=sk, B=2, seq_lens=[sk, 7]) for sk in (8192, 32768)]
    drawn = [case for seed in range(40) for case in sampled_cases(workloads, "gqa_decode", seed)]
    assert len(drawn) == 80 and all(case["sampled"] for case in drawn)
    assert {(case["id"], case["Sk"], case["Hq"]) for case in drawn} == {
        ("w8192", 8192, 32),
        ("w32768", 32768, 32),
    }
    lengths = {(case["Sk"], *case["seq_lens"]) for case in drawn}
    assert lengths == {(8192, 8192, 7), (32768, 32768, 7), (32768, 4096, 7)}
    whole = sum(case["seq_lens"][0] == 32768 for case in drawn)
    assert 3 <= whole <= 20
