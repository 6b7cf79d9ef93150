"""The host's jobs on a real card: honest kernels pass, misbehaviour costs its own job, races are fair.

Beside the card, with torch, triton and pytest: `python -m pytest tests/gpu/test_card.py -q --noconftest`.
"""

from __future__ import annotations

import asyncio
import math
import statistics
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parent))

from try_card import (  # noqa: E402 (its folder is put on the path above)
    BAD,
    DEADLINES,
    ENTRIES,
    KERNELS,
    RACES,
    HostLink,
    bad_of,
    better_of,
    edge_cases,
    seed_of,
    task_of,
    workloads_of,
)

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.timeout(600),
    # Asked of the driver alone: this process makes no context.
    pytest.mark.skipif(not list(Path("/dev").glob("nvidia[0-9]*")), reason="no NVIDIA card"),
]


class Card:
    """A host beside the card, called from plain tests."""

    def __init__(self, folder: Path) -> None:
        self._loop = asyncio.new_event_loop()
        self._link = HostLink(sys.executable, folder / "cache", folder / "scratch")
        self._loop.run_until_complete(self._link.start())

    def call(self, job: str, **request: Any) -> Any:
        return self._loop.run_until_complete(self._link.call(job, **request))

    def check(self, task: str, source: str, cases: list[dict[str, Any]], **more: Any) -> Any:
        return self.call(
            "check", device="cuda", source=source, entry=ENTRIES[task], task_dir=str(KERNELS / task),
            gate="correctness", cases=cases, tolerance=task_of(task)["tolerance"], seed=5,
            deadline_s=DEADLINES, **{"probes": True, **more},
        )  # fmt: skip

    def race(self, task: str, sources: dict[str, str], rounds: int, **more: Any) -> Any:
        return self.call(
            "time", contestants=[{"name": name, "source": text} for name, text in sources.items()],
            workloads=workloads_of(task, RACES[task]), entry=ENTRIES[task], task_dir=str(KERNELS / task),
            tolerance=task_of(task)["tolerance"], seed=3, rounds=rounds, deadline_s=DEADLINES, **more,
        )  # fmt: skip

    def close(self) -> None:
        self._loop.run_until_complete(self._link.close())
        self._loop.close()


@pytest.fixture(scope="module")
def card() -> Iterator[Card]:
    with tempfile.TemporaryDirectory() as folder:
        made = Card(Path(folder))
        yield made
        made.close()


def ratios(facts: dict[str, Any], other: str) -> dict[str, list[float]]:
    """Log of other / candidate by workload, round by round."""
    found: dict[str, list[float]] = {}
    for one in facts["rounds"]:
        for sample in one["samples"]:
            us = sample["us"]
            found.setdefault(sample["workload"], []).append(math.log(us[other] / us["candidate"]))
    return found


@pytest.mark.parametrize("task", sorted(ENTRIES))
def test_seed_passes_every_edge_case_and_probe(card: Card, task: str) -> None:
    result = card.check(task, seed_of(task), edge_cases(task, ("fp16", "bf16")))
    assert [c for c in result.facts["checks"] if c["status"] != "pass"] == []
    assert result.outcome == "ok", result.detail
    probes = {c["probe"] for c in result.facts["checks"]}
    assert {
        "graph_replay",
        "graph_census",
        "streams",
        "new_contents",
        "one_element",
        "idle_kernels",
    } <= probes


@pytest.mark.parametrize("name", sorted(BAD))
def test_misbehaviour_costs_its_own_job_alone(card: Card, name: str) -> None:
    _, outcome, probes = BAD[name]
    result = card.check("gqa_decode", bad_of(name), edge_cases("gqa_decode")[:3])
    failed = {c["probe"] for c in result.facts.get("checks", ()) if c["status"] == "fail"}
    assert not outcome or result.outcome == outcome, result.detail
    assert not probes or failed & set(probes.split()), result.detail
    if result.outcome != "ok":
        assert result.facts["card"]["healthy"], result.facts["card"]
    after = card.check("gqa_decode", better_of("gqa_decode"), edge_cases("gqa_decode")[:1], probes=False)
    assert after.outcome == "ok", after.detail


def test_out_of_memory_is_told_in_a_clear_line(card: Card) -> None:
    result = card.check("gqa_decode", bad_of("200 GB"), edge_cases("gqa_decode")[:1])
    assert result.detail.startswith("asked for 200.00 GiB of the card's memory")


def test_hang_in_a_race_names_the_contestant(card: Card) -> None:
    sources = {"candidate": bad_of("endless loop"), "champion": better_of("gqa_decode")}
    result = card.race("gqa_decode", sources, 2, agree=False)
    assert result.outcome == "timeout", result.detail
    assert result.detail.startswith("candidate: ")
    assert result.facts["card"]["healthy"]


@pytest.mark.parametrize("task", sorted(ENTRIES))
def test_equals_race_equal_and_baselines_are_what_they_say(card: Card, task: str) -> None:
    sources = {"candidate": better_of(task) + "\n# the same\n", "champion": better_of(task)}
    result = card.race(task, sources, 12, baselines=["fa2"])
    assert result.outcome == "ok", result.detail
    checks = [c for name in sources for c in result.facts["compared"][name]]
    assert [c for c in checks if c["status"] != "pass"] == []
    for workload, logs in ratios(result.facts, "champion").items():
        assert abs(statistics.median(logs)) < 0.01, workload
    for workload, launches in result.facts["launches"]["fa2"].items():
        assert any("flash_fwd" in launch["kernel"] for launch in launches), workload
    for workload, row in result.facts["agree"]["fa2"].items():
        assert row["named"] and 0.85 < row["ratio"] < 1.15, workload


def test_better_configuration_wins_a_race(card: Card) -> None:
    sources = {"candidate": better_of("gqa_decode"), "champion": seed_of("gqa_decode")}
    result = card.race("gqa_decode", sources, 4, agree=False)
    for workload, logs in ratios(result.facts, "champion").items():
        assert min(logs) > math.log(1.5), workload
