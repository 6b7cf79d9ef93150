"""What limits a candidate: from recorded facts of a measured lab and of an estimated one."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from kernel_lab.engine import bottleneck as b
from kernel_lab.engine.facts import Speed, WorkloadTime
from kernel_lab.engine.lab_config import LabConfig
from kernel_lab.engine.ledger.store import Ledger
from kernel_lab.engine.profiles import load_gpu, load_model
from kernel_lab.engine.proposers.base import ChampionFacts
from kernel_lab.engine.requests import Requests
from kernel_lab.tui.cli import main

ROOT = Path(__file__).resolve().parents[2]


def recorded(name: str, gpu: str, number: int) -> list[b.Bottleneck]:
    ledger = Ledger.recording(ROOT / "tui" / "recordings" / f"{name}.db")
    row = ledger.experiment(number)
    assert row is not None
    requests = Requests(ledger, LabConfig(gpu), load_gpu(gpu), load_model("llama-3.1-8b"), "estimated")
    return b.bottlenecks(requests.facts(row), ledger.view().workloads["gqa_decode"])


def test_a_measured_seed_that_leaves_the_card_idle_is_bound_by_latency() -> None:
    found = {one.workload: one for one in recorded("h200-decode", "h200", 1)}
    one = found["decode-b1-s8k"]
    assert (one.limit, one.kind, one.source) == ("latency", "measured", "roofline")
    # 33.57 MB in 194.5 µs are 173 GB/s of the 4,481 GB/s that this card read.
    assert one.busy["dram"] == pytest.approx(0.0385, abs=0.0005)
    assert one.busy["tensor"] < 0.01
    assert one.waves is not None
    assert one.waves < 0.1
    assert one.reread == pytest.approx(1.007, abs=0.01)
    assert sum(one.weight for one in found.values()) == pytest.approx(1.0)


def test_an_estimated_champion_is_bound_by_what_the_model_says() -> None:
    found = recorded("rtx3060-decode", "rtx3060", 6)
    assert {one.source for one in found} == {"model"}
    assert b.limits_by_weight(found) == {"memory": pytest.approx(1.0)}
    by_name = {one.workload: one for one in found}
    assert by_name["decode-b32-s2k"].busy["dram"] == pytest.approx(0.99, abs=0.01)
    assert by_name["decode-b1-s8k"].busy["tensor"] == pytest.approx(0.14, abs=0.01)
    told = b.describe(found)
    assert told.startswith("Limits by weight: memory 100% (estimated by the time model).")
    assert "~819.7 µs, ~98 % of the roof" in told


def facts(us: float, *, launches: int = 1, dram_bytes: float = 0.0) -> ChampionFacts:
    """One measured workload that moves 100 MB and does 4.096e11 operations, on round ceilings."""
    row = WorkloadTime("w", "k", 1.0, us, 0.0, "TB/s", 0.0, "dram")
    launched = [{"kernel": "k", "time_us": us, "dram_bytes": dram_bytes}] * launches
    return ChampionFacts(
        speed=Speed("measured", {}, {}, (row,)),
        parts={"w": {"parts": {"launches": launched}}},
        flops={"w": 4.096e11},
        moved_bytes={"w": 1e8},
        roofs={"read_gbs": 1000.0, "matmul_tflops": {"bf16": 1000.0}, "exp_gops": 10_000.0},
    )


SHAPE = {"id": "w", "dtype": "bf16", "D": 128}


def test_shares_are_the_least_work_over_measured_ceilings() -> None:
    one = b.bottlenecks(facts(1000.0), [SHAPE])[0]
    assert one.busy == pytest.approx({"dram": 0.1, "tensor": 0.4096, "exp": 0.08})
    assert one.limit == "latency"


@pytest.mark.parametrize(
    ("given", "limit", "resource"),
    [
        (facts(500.0), "compute", "tensor"),
        (replace(facts(150.0), flops={}), "memory", "dram"),
        (replace(facts(1000.0, dram_bytes=7e8), flops={}), "memory", "dram"),  # read seven times over
        (replace(facts(3.0, launches=2), flops={}, moved_bytes={}), "launch", "launch"),
        (replace(facts(1000.0), parts={}, flops={}, moved_bytes={}, roofs={}), "latency", "latency"),
    ],
)
def test_what_is_busy_most_of_the_time_is_the_limit(given: ChampionFacts, limit: str, resource: str) -> None:
    one = b.bottlenecks(given, [SHAPE])[0]
    assert (one.limit, one.resource) == (limit, resource)


def test_launch_costs_and_limits_are_those_of_the_time_model() -> None:
    sys.path.insert(0, str(ROOT / "engine" / "harness"))
    try:
        from model import predict  # type: ignore[import-not-found]
    finally:
        sys.path.pop(0)
    assert b.LAUNCH_US == predict.LAUNCH_US == predict.FIRST_LAUNCH_US
    parts = {"pipes_us": {}, "dram_us": 0.0, "l2_us": 0.0, "schedule_us": 2.0}
    for resource in ("tensor", "exp", "issue", "smem"):
        assert predict._bound(2.0, {**parts, "pipes_us": {resource: 2.0}}) in b.LIMITS
    assert predict._bound(2.0, {**parts, "dram_us": 2.0}) == "dram"


def test_the_command_prints_the_champion_of_a_recorded_lab(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from kernel_lab.engine.lab_config import write_config

    lab = tmp_path / "lab"
    lab.mkdir()
    (lab / "lab.db").write_bytes((ROOT / "tui" / "recordings" / "h200-decode.db").read_bytes())
    write_config(lab, LabConfig("h200", device="measured", tasks=("gqa_decode",)))
    assert main(["bottleneck", "--lab", str(lab), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["champions"][0]
    assert (found["candidate"], found["source"]) == ("#2", "roofline")
    assert found["limits"] == {"latency": pytest.approx(1.0)}
    assert len(found["workloads"]) == 7
    assert main(["bottleneck", "--lab", str(lab)]) == 0
    out = capsys.readouterr().out
    assert "measured times against this card's measured ceilings" in out
    assert "decode-b32-s2k" in out
    assert main(["bottleneck", "--lab", str(lab), "--task", "nope"]) == 2
    assert main(["bottleneck", "some.py", "--lab", str(lab)]) == 2
    assert "--task" in capsys.readouterr().err
