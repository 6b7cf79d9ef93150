"""The ledger of ideas: predictions against results, by source, by lever and by predicted gain."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kernel_lab.engine import scores
from kernel_lab.engine.events import Proposed, SpeedJudged
from kernel_lab.engine.facts import Prediction
from kernel_lab.engine.proposers.base import PastExperiment
from kernel_lab.tui.cli import main
from proposer_requests import past
from test_loop import Script, make_lab, make_loop


def tried(
    number: int, proposer: str, lever: str, said: float | None, ratio: float | None, status: str
) -> PastExperiment:
    score = {} if ratio is None else {"champion": ratio}
    found = past(number, 1, lever, status=status, ratio=ratio)
    return replace(found, proposer=proposer, prediction=Prediction(said, None), score=score)


IDEAS = [
    past(1, None, "seed", status="seed"),
    tried(2, "anthropic", "split", 20.0, 1.30, "keep"),
    tried(3, "anthropic+search", "Split:long", 10.0, 0.90, "discard"),
    tried(4, "search", "tiles:long", 5.0, 1.10, "keep"),
    tried(5, "search", "tiles:short", 5.0, None, "oom"),
    tried(6, "folder:/tmp", "by_hand", None, 1.20, "vetoed"),
    tried(7, "search", "exp2", 1.0, 1.00, "running"),
]


def test_sources_get_the_credit_that_stands() -> None:
    records = {record.name: record for record in scores.by_source(IDEAS)}
    assert list(records) == ["agent", "search", "person"]
    agent = records["agent"]
    assert (agent.proposals, agent.with_speed, agent.kept, agent.predicted) == (2, 2, 1, 2)
    assert agent.gain == pytest.approx(1.3)
    assert agent.mean_predicted_percent == pytest.approx(15.0)
    assert agent.mean_result_percent == pytest.approx(10.0)
    assert agent.mean_error_points == pytest.approx(15.0)  # 10 too little, 20 too much
    assert agent.right_sign == pytest.approx(0.5)
    assert (records["search"].proposals, records["search"].with_speed) == (2, 1)
    person = records["person"]
    assert (person.kept, person.gain, person.predicted, person.mean_error_points) == (0, 1.0, 0, None)


def test_levers_are_told_by_family_and_calibration_by_predicted_gain() -> None:
    assert [(r.name, r.proposals) for r in scores.by_lever(IDEAS)] == [
        ("split", 2),
        ("tiles", 2),
        ("by_hand", 1),
    ]
    assert [(r.name, r.proposals, r.predicted) for r in scores.calibration(IDEAS)] == [
        ("2 to 10 %", 2, 1),
        ("10 to 50 %", 2, 2),
    ]
    odd = [
        tried(2, "search", "x", float("nan"), float("inf"), "discard"),
        tried(3, "x", "x", -3, 1, "discard"),
    ]
    assert [(r.name, r.predicted) for r in scores.calibration(odd)] == [("below 2 %", 1)]


def test_a_prediction_is_in_the_ledger_before_its_result_and_the_command_scores_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lab = make_lab(tmp_path / "lab", budget=2)
    script = Script([{"SKIP": True}, {"DESCRIPTORS": True}])
    script.trial_space = {}
    asyncio.run(make_loop(lab, script).run())
    events: list[Any] = [record.event for record in lab.ledger.records(experiment=2)]
    kinds = [type(event) for event in events]
    assert kinds.index(Proposed) < kinds.index(SpeedJudged)
    assert events[kinds.index(Proposed)].prediction == Prediction(5.0, "tensor")
    lab.close()
    assert main(["ideas", "--lab", str(lab.path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    (source,) = found["sources"]
    assert (source["name"], source["proposals"], source["kept"]) == ("script", 2, 1)
    assert source["gain"] == pytest.approx(1.6, rel=0.01)
    assert source["mean_result_percent"] == pytest.approx((60 - 10) / 2, abs=0.5)
    assert {lever["name"] for lever in found["levers"]} == {"skip", "descriptors"}
    assert main(["ideas", "--lab", str(lab.path)]) == 0
    out = capsys.readouterr().out
    assert "no ideas yet" in out
    assert "~1.600×" in out
