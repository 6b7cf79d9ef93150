"""Shapes and seeds that a candidate cannot know before it is frozen."""

from __future__ import annotations

from kernel_lab.engine.judge.cases import frozen_seed, hidden_cases, seeded_cases

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
