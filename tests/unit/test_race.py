"""A measured speed and its decision from the samples of a race; a whole lab on a made-up card."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fake_device import FakeDevice
from kernel_lab.engine.facts import Check
from kernel_lab.engine.judge.measured import MeasuredDevice, Race
from kernel_lab.engine.judge.race import RaceScore, decide_measured, disturbed, threshold_for
from kernel_lab.engine.tasks import TaskSpec
from test_loop import TASK, Script, make_lab, make_loop, run, statuses

WORKLOADS = [
    {"id": "short", "bucket": "short", "weight": 1.0, "task": TASK, "dtype": "bf16"},
    {"id": "long", "bucket": "long", "weight": 3.0, "task": TASK, "dtype": "bf16"},
]
FLOPS = {"short": 1e10, "long": 4e10}
BYTES = {"short": 1e6, "long": 4e6}
ROOFS = {"read_gbs": 4000.0, "matmul_tflops": {"bf16": 700.0}}


def raced(gains: Mapping[str, float], rounds: int = 60, noise: float = 0.01, us: float = 100.0) -> RaceScore:
    rng = random.Random(5)
    score = RaceScore(WORKLOADS, ["champion", "fa2"])
    for _ in range(rounds):
        score.add(
            [
                {
                    "workload": name,
                    "us": {
                        "candidate": us / gain * math.exp(rng.gauss(0, noise)),
                        "champion": us * math.exp(rng.gauss(0, noise)),
                        "fa2": 2 * us,
                    },
                }
                for name, gain in gains.items()
            ]
        )
    return score


def test_a_gain_of_three_percent_is_kept_with_its_interval() -> None:
    speed = raced({"short": 1.03, "long": 1.03}).speed(FLOPS, BYTES, ROOFS)
    low, high = speed.ci["champion"]
    assert 1.005 < low < 1.03 < high < 1.05
    assert speed.kind == "measured"
    assert speed.score["fa2"] == pytest.approx(2.06, rel=0.01)
    decision = decide_measured(speed)
    assert decision.status == "keep"
    assert f"[{low:.3f}, {high:.3f}]" in decision.reasons[0].detail


def test_an_equal_kernel_is_not_kept() -> None:
    decision = decide_measured(raced({"short": 1.0, "long": 1.0}).speed(FLOPS, BYTES, ROOFS))
    assert (decision.status, decision.reasons[0].probe) == ("discard", "threshold")


def test_a_bucket_that_loses_is_not_bought_with_another_that_wins() -> None:
    decision = decide_measured(raced({"short": 0.95, "long": 1.2}).speed(FLOPS, BYTES, ROOFS))
    assert (decision.status, decision.reasons[0].probe) == ("discard", "bucket_floor")


def test_faster_than_the_measured_roof_is_held() -> None:
    speed = raced({"short": 1.2, "long": 1.2}, us=50.0).speed(FLOPS, BYTES, ROOFS)
    assert speed.per_workload[1].roof_percent > 100  # 4e10 FLOP in 42 µs are 960 TFLOP/s
    assert decide_measured(speed).status == "held"


def test_a_race_is_over_when_more_rounds_would_change_nothing() -> None:
    assert raced({"short": 1.2, "long": 1.2}, rounds=14).settled()
    assert raced({"short": 0.8, "long": 0.8}, rounds=10).settled()
    assert not raced({"short": 1.005, "long": 1.005}, rounds=30).settled()


class FakeCard(FakeDevice, MeasuredDevice):
    """Races by the fake device's formula, with noise."""

    def __init__(self) -> None:
        super().__init__()
        self.roofs = ROOFS
        self.raced: list[list[str]] = []

    async def race(
        self,
        task: TaskSpec,
        contestants: Mapping[str, str],
        workloads: Sequence[Mapping[str, Any]],
        seed: int,
        stop: Callable[[RaceScore], bool],
    ) -> Race:
        self.raced.append(sorted(contestants))
        rng = random.Random(seed)
        score = RaceScore(workloads, [*(name for name in contestants if name != "candidate"), "fa2"])
        times = {
            name: (await self.screen(task, text, workloads)).time_us for name, text in contestants.items()
        }
        for _ in range(40):
            samples = []
            for workload in workloads:
                name = workload["id"]
                us = {who: times[who][name] * math.exp(rng.gauss(0, 0.01)) for who in times}
                samples.append({"workload": name, "us": {**us, "fa2": 150.0}})
            score.add(samples)
            if stop(score):
                break
        check = Check("speed", "timed", "compare", "pass")
        return Race("ok", "", score, (check,), {"rounds": score.rounds})


def test_a_lab_on_a_card_keeps_what_two_races_agree_on(tmp_path: Path) -> None:
    lab = make_lab(tmp_path / "lab", device="measured")
    device = FakeCard()
    run(lab, Script([{"SKIP": True}, {"DESCRIPTORS": True}]), device)
    assert statuses(lab.ledger) == ["seed", "keep", "discard"]
    row = lab.ledger.experiments()[1]
    assert row.score_kind == "measured"
    assert row.score["champion"] == pytest.approx(1.6, rel=0.06)
    assert row.ci["champion"][0] > 1.5
    assert row.score["seed"] == row.score["champion"]  # the champion was the seed: it raced once
    assert lab.ledger.view().device_kind == "measured"
    assert device.raced == [["candidate", "itself"], ["candidate", "champion"], ["candidate", "champion"]]
    assert row.reasons[0].detail.startswith("measured ")


@pytest.mark.parametrize(
    ("itself", "threshold"),
    [(None, 1.005), (1.0, 1.005), (1.0016, 1.005), (1.002, 1.002**3), (1 / 1.01, 1.01**3), (math.nan, 1.005)],
)
def test_a_card_whose_equal_kernels_differ_asks_for_more(itself: float | None, threshold: float) -> None:
    assert threshold_for(itself) == pytest.approx(threshold)


def test_the_seed_races_against_itself_and_sets_the_threshold(tmp_path: Path) -> None:
    lab = make_lab(tmp_path / "lab", device="measured", budget=1)
    device = FakeCard()
    loop = make_loop(lab, Script([{"SKIP": True}]), device)
    asyncio.run(loop.run())
    seed = lab.ledger.experiment(1)
    assert seed is not None
    assert seed.score["itself"] == pytest.approx(1.0, abs=0.02)
    threshold = threshold_for(seed.score["itself"])
    assert {judge.threshold for judge in loop._judges.values()} == {threshold}
    again = make_loop(lab, Script([]), device)
    asyncio.run(again.run())
    assert {judge.threshold for judge in again._judges.values()} == {threshold}


def test_a_race_that_another_program_disturbed_is_run_again_and_then_held(tmp_path: Path) -> None:
    lab = make_lab(tmp_path / "lab", device="measured")
    device = FakeCard()
    race, seeds = device.race, []

    async def with_company(task: Any, contestants: Any, workloads: Any, seed: int, stop: Any) -> Race:
        found = await race(task, contestants, workloads, seed, stop)
        seeds.append(seed)
        company = [{"process_count": 6}, {"process_count": 6 + ("champion" in contestants)}]
        return replace(found, facts={"rounds": company})

    device.race = with_company  # type: ignore[method-assign]
    run(lab, Script([{"SKIP": True}]), device)
    row = lab.ledger.experiments()[1]
    assert (row.status, row.reasons[0].probe) == ("held", "other_program")
    assert len(seeds) == len(set(seeds)) == 5  # the seed's once, both races of #2 twice
    assert not disturbed({"rounds": [{"process_count": None}, {"process_count": 3}]})
    assert not disturbed({"rounds": 40})


def test_a_second_win_is_measured_against_champion_and_seed(tmp_path: Path) -> None:
    lab = make_lab(tmp_path / "lab", device="measured")
    device = FakeCard()
    run(lab, Script([{"SKIP": True}, {"TWO_LOOPS": True}]), device)
    row = lab.ledger.experiments()[2]
    assert row.status == "keep"
    assert row.score["champion"] == pytest.approx(1.1, rel=0.06)
    assert row.score["seed"] == pytest.approx(1.76, rel=0.06)
    assert device.raced[-1] == ["candidate", "champion", "seed"]


def test_what_is_estimated_to_lose_clearly_is_never_put_on_the_card(tmp_path: Path) -> None:
    lab = make_lab(tmp_path / "lab", device="measured", trials=1)
    device = FakeCard()
    run(lab, Script([{"DESCRIPTORS": True}, {"SKIP": True}]), device)
    assert lab.ledger.experiments()[1].status == "discard"
    assert len(device.raced) == 3
