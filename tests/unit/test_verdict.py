"""Scores and keep rules on estimates."""

from __future__ import annotations

import math

import pytest
from kernel_lab.engine.facts import Check
from kernel_lab.engine.judge import verdict

WORKLOADS = [
    {"id": "short", "bucket": "short", "weight": 1.0, "task": "gqa_prefill"},
    {"id": "long", "bucket": "long", "weight": 3.0, "task": "gqa_prefill"},
]
FLOPS = {"short": 2e9, "long": 8e9}
BYTES = {"short": 1e6, "long": 4e6}


def speed(short_us: float, long_us: float, roof: float = 50.0) -> verdict.Speed:
    return verdict.score_speed(
        "estimated",
        WORKLOADS,
        {"short": short_us, "long": long_us},
        {"champion": {"short": 100.0, "long": 400.0}, "fa2": {"short": 50.0, "long": 800.0}},
        {name: {"bound": "tensor", "roof_percent": roof} for name in FLOPS},
        FLOPS,
        BYTES,
    )


def test_a_score_is_the_weighted_geometric_mean_of_the_ratios() -> None:
    judged = speed(50.0, 200.0)
    assert judged.score["champion"] == pytest.approx(2.0)
    assert judged.score["fa2"] == pytest.approx((1.0**1 * 4.0**3) ** 0.25)
    assert judged.per_workload[0].rate == pytest.approx(40.0)  # 2e9 FLOP in 50 µs
    assert judged.per_workload[0].rate_unit == "TFLOP/s"
    assert judged.ci == {}


def test_decode_is_reported_as_a_read_rate() -> None:
    workload = [{"id": "d", "bucket": "b", "weight": 1.0, "task": "gqa_decode"}]
    judged = verdict.score_speed("estimated", workload, {"d": 10.0}, {}, {"d": {}}, {"d": 1e6}, {"d": 2e7})
    assert (judged.per_workload[0].rate, judged.per_workload[0].rate_unit) == (pytest.approx(2.0), "TB/s")


@pytest.mark.parametrize(
    ("short_us", "long_us", "status", "probe"),
    [
        (90.0, 380.0, "keep", "threshold"),
        (100.0, 400.0, "discard", "threshold"),
        (99.9, 399.9, "discard", "threshold"),
        (104.0, 300.0, "discard", "bucket_floor"),
        (103.0, 300.0, "keep", "threshold"),
    ],
)
def test_a_keep_needs_a_gain_over_the_whole_and_no_bucket_that_loses(
    short_us: float, long_us: float, status: str, probe: str
) -> None:
    decision = verdict.decide_estimated(speed(short_us, long_us))
    assert (decision.status, decision.reasons[0].probe) == (status, probe)


def test_faster_than_the_roof_is_held_however_large_the_gain() -> None:
    decision = verdict.decide_estimated(speed(10.0, 40.0, roof=104.0))
    assert decision.status == "held"
    assert "104 %" in decision.reasons[0].detail


def test_an_empty_matrix_has_no_score() -> None:
    assert math.isnan(verdict.geometric_mean({}, {}))


def check(probe: str, status: str = "fail", error: float | None = None) -> Check:
    return Check("correctness", "case", probe, status, "why", error, 1.0)  # type: ignore[arg-type]


def test_the_worst_failure_is_named_first() -> None:
    reasons = verdict.failed([check("a", error=2.0), check("b", error=9.0), check("c", status="pass")])
    assert [reason.probe for reason in reasons] == ["b", "a"]
    assert verdict.failed([check("nan", error=float("nan")), check("b", error=9.0)])[0].probe == "nan"


def test_what_cannot_run_is_held_and_never_passes() -> None:
    status, reasons = verdict.judge_checks("correctness", "ok", "", [check("compare", "unproven")])
    assert (status, reasons[0].probe) == ("held", "unproven")
    assert "1 of 1 checks could not run here" in reasons[0].detail


def test_no_answer_is_a_failure() -> None:
    assert verdict.judge_checks("correctness", "ok", "", [])[0] == "crash"
    assert verdict.judge_checks("correctness", "timeout", "case: 30 s", [])[0] == "timeout"


def test_a_failed_probe_is_what_the_host_says_it_is() -> None:
    bad = [check("compare")]
    assert verdict.judge_checks("correctness", "ok", "", bad)[0] == "incorrect"
    assert verdict.judge_checks("integrity", "cheat", "same_bits", bad)[0] == "cheat"
    assert verdict.judge_checks("correctness", "ok", "", [check("compare", "pass")])[0] is None
