"""A small lab as an engine would have left it, for tests of what reads it."""

from __future__ import annotations

from pathlib import Path

import pytest
from kernel_lab.engine import events as e
from kernel_lab.engine.facts import Check, Launch, Prediction, Reason, Speed, WorkloadTime
from kernel_lab.engine.lab import LabConfig, create_lab, remember_lab
from kernel_lab.engine.ledger.records import sha256

SEED = "SPACE = {}\nCONFIG = {'*': {'BLOCK': 64}}\n"
FASTER = "SPACE = {}\nCONFIG = {'*': {'BLOCK': 128}}\n"
HOSTILE = "Fold the scale\tinto exp2\nand \x1b[31mmore\x1b[0m"


def _speed(vs_seed: float, vs_fa2: float) -> Speed:
    row = WorkloadTime(
        "decode-b1-s8k", "b1_long", 1.0, 91.5, 0.37, "TB/s", 91.0, "dram", {"seed": vs_seed, "fa2": vs_fa2}
    )
    scores = {"fa2": vs_fa2, "seed": vs_seed, "champion": vs_seed}
    return Speed("estimated", scores, {}, (row,))


def _started(number: int, parent: int | None, text: str, source: str) -> list[e.Event]:
    return [
        e.ExperimentStarted(number, "gqa_decode", parent, "seed" if parent is None else "search"),
        e.Proposed(number, sha256(source.encode()), text, "Fewer passes", Prediction(12.0, "dram"), "exp2"),
    ]


@pytest.fixture
def recorded_lab(own_world: Path, tmp_path: Path) -> Path:
    """Seed #1, kept #2, incorrect #3, and #4 whose keep waits for a person; no engine runs."""
    folder = tmp_path / "lab"
    slow, fast = sha256(SEED.encode()), sha256(FASTER.encode())
    launch = Launch("decode-b1-s8k", "split", (8, 32, 1), 4, 65536, 128, 0, "HMMA", 1, 0.083, 91.5, 1.0)
    failed = Check("correctness", "odd-lengths", "values", "fail", "row 3", 0.5, 0.01)
    idea = e.IdeaSaid(1, "try split KV", "next", None, "person")
    created = e.LabCreated(
        "lab", "static", "rtx3060", "llama-3.1-8b", ("gqa_decode",), {"gpu": "rtx3060"}, {"gqa_decode": []}
    )
    happened: list[e.Event] = [
        created,
        e.EngineStarted("0.1.0", {"torch": "2.13.0"}),
        *_started(1, None, "The kernel that everything is compared with.", SEED),
        e.SpeedJudged(1, _speed(1.0, 0.7)),
        e.ExperimentFinished(1, "seed", (), slow),
        e.ChampionChanged("gqa_decode", 1, None, "the seed"),
        idea,
        *_started(2, 1, HOSTILE, FASTER),
        e.IdeaUsed(1, 2),
        e.Screened(2, fast, (launch,), {"decode-b1-s8k": 91.5}),
        e.TrialFinished(2, 1, "b1_long", {"BLOCK": 128}, "ok", 1.3, {"decode-b1-s8k": 91.5}),
        e.TrialsSettled(2, fast, {"b1_long": {"BLOCK": 128}}),
        e.Checked(2, Check("correctness", "odd-lengths", "values", "pass", "", 0.001, 0.01), fast),
        e.GateFinished(2, "correctness", True, None, source_sha=fast),
        e.SpeedJudged(2, _speed(1.31, 0.92)),
        e.ExperimentFinished(2, "keep", (), fast),
        e.ChampionChanged("gqa_decode", 2, 1, "estimated 1.310 × the champion"),
        *_started(3, 2, "Drop the mask", SEED),
        e.Checked(3, failed, slow),
        e.ExperimentFinished(3, "incorrect", (Reason("correctness", "values", "odd-lengths: row 3"),), slow),
        *_started(4, 2, "Two stages", SEED),
        e.ApprovalRequested(4, "keep", slow, "estimated 1.05 × the champion"),
        e.EngineStopped("stop", "stopped by a person"),
    ]
    config = LabConfig(gpu="rtx3060", tasks=("gqa_decode",), budget=12)
    create_lab(folder, config, happened, blobs=[SEED.encode(), FASTER.encode()]).close()
    remember_lab(folder)
    return folder
