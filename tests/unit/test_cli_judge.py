"""What `check` and `bench` print and return for every kind of answer; the judge itself is not run here."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kernel_lab.engine.facts import Check, Launch, Reason, Speed, WorkloadTime
from kernel_lab.engine.judge import judge as judge_module
from kernel_lab.engine.judge.judge import CheckReport, GateResult
from kernel_lab.engine.judge.static import Screening
from kernel_lab.engine.tasks import load_task
from kernel_lab.tui import cli_judge, machine

KernelLab = Callable[..., Any]

LAUNCH = Launch("decode-b1-s8k", "split", (8, 32, 1), 4, 65536, 128, 0, "HMMA", 1, 0.083, 91.5, 1.0)
SPEED = Speed(
    "estimated",
    {"fa2": 0.92, "seed": 1.31},
    {},
    (
        WorkloadTime(
            "decode-b1-s8k", "b1", 1.0, 91.5, 0.37, "TB/s", 91.0, "dram", {"fa2": 0.92, "seed": 1.31}
        ),
    ),
)
PASSED = Check("correctness", "odd-lengths", "compare", "pass", "whole", 1e-4, 2e-4, 0.1)
UNPROVEN = Check("correctness", "bf16", "compare", "unproven", "the interpreter cannot do bf16")
FAILED = Check("correctness", "ragged", "compare", "fail", "row \x1b[31m3", 0.5, 1e-3)


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Callable[[CheckReport], None]:
    """Puts a report in the judge's mouth."""

    @contextlib.asynccontextmanager
    async def no_host(task: Any, device: Any) -> AsyncIterator[Any]:
        yield SimpleNamespace()

    monkeypatch.setattr(cli_judge, "_judge", no_host)
    monkeypatch.setattr(machine, "installed_version", lambda name: "9.9")

    def put(report: CheckReport) -> None:
        async def check_candidate(judge: Any, source: str, seed: int, on_check: Any = None) -> CheckReport:
            for check in report.checks:
                if on_check is not None:
                    on_check(check)
            return report

        monkeypatch.setattr(judge_module, "check_candidate", check_candidate)

    return put


@pytest.fixture
def seed_file(tmp_path: Path) -> Path:
    path = tmp_path / "seed.py"
    path.write_text(load_task("gqa_decode").seed_source)
    return path


def test_check_json_is_the_contract(
    kernel_lab: KernelLab, answers: Callable[[CheckReport], None], seed_file: Path
) -> None:
    answers(CheckReport("pass", (), (PASSED, UNPROVEN), (LAUNCH,), SPEED, {"torch": "2.13.0"}))
    answer = kernel_lab("check", seed_file, "--task", "gqa_decode", "--json")
    assert answer.status == 0, answer.err
    found = json.loads(answer.out)
    assert list(found) == ["verdict", "reasons", "checks", "launches", "speed", "environment"]
    assert found["verdict"] == "pass" and found["reasons"] == []
    assert found["checks"][1]["status"] == "unproven"
    assert found["launches"][0]["smem_bytes"] == 65536
    assert found["environment"] == {"torch": "2.13.0"}
    assert list(found["speed"]) == ["kind", "vs"] and found["speed"]["kind"] == "estimated"
    against = found["speed"]["vs"]["fa2"]
    assert list(against) == ["score", "ci", "per_shape"]
    assert against["score"] == 0.92 and against["ci"] is None
    assert against["per_shape"]["decode-b1-s8k"]["score"] == 0.92


def test_people_see_each_check_as_it_ends_and_what_could_not_be_proven(
    kernel_lab: KernelLab, answers: Callable[[CheckReport], None], seed_file: Path
) -> None:
    answers(CheckReport("pass", (), (PASSED, UNPROVEN), (LAUNCH,), SPEED, {}))
    lines = kernel_lab("check", seed_file, "--task", "gqa_decode").out.splitlines()
    assert lines[0].startswith("✓ correctness") and "error 1.00e-04 of 2.00e-04" in lines[0]
    assert lines[1].startswith("? correctness") and lines[1].endswith("the interpreter cannot do bf16")
    assert lines[-1] == "verdict: pass (1 checks could not run here and prove nothing)"


@pytest.mark.parametrize(
    "verdict", ["incorrect", "cheat", "oom", "timeout", "crash", "compile_error", "held"]
)
def test_a_candidate_that_is_turned_down_or_held_exits_1(
    verdict: str, kernel_lab: KernelLab, answers: Callable[[CheckReport], None], seed_file: Path
) -> None:
    reason = Reason("correctness", "compare", "ragged: row \x1b[31m3")
    answers(CheckReport(verdict, (reason,), (FAILED,), (), None, {}))
    answer = kernel_lab("check", seed_file, "--task", "gqa_decode")
    assert answer.status == 1
    assert answer.out.splitlines()[-1] == f"verdict: {verdict}"
    assert "correctness compare: ragged: row [31m3" in answer.out and "\x1b" not in answer.out


def test_a_host_that_failed_is_the_environments_fault(
    kernel_lab: KernelLab, answers: Callable[[CheckReport], None], seed_file: Path
) -> None:
    answers(CheckReport("error", (Reason("screen", "error", "no space"),), (), (), None, {}))
    answer = kernel_lab("check", seed_file, "--task", "gqa_decode", "--json")
    assert answer.status == 2 and answer.out == ""
    assert "no space" in answer.err and "kernel-lab doctor" in answer.err


def test_bench_shows_the_seed_of_a_task_without_a_file(
    kernel_lab: KernelLab,
    answers: Callable[[CheckReport], None],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    seen: list[str] = []

    class Device:
        async def environment(self) -> dict[str, str]:
            return {"torch": "2.13.0"}

    @contextlib.asynccontextmanager
    async def judge(task: Any, device: Any) -> AsyncIterator[Any]:
        yield SimpleNamespace(device=Device())

    async def bench_candidate(judge: Any, source: str) -> tuple[GateResult, Speed, Screening]:
        seen.append(source)
        return GateResult("screen", True), SPEED, Screening("ok", "", "", (LAUNCH,))

    monkeypatch.setattr(cli_judge, "_judge", judge)
    monkeypatch.setattr(judge_module, "bench_candidate", bench_candidate)
    answer = kernel_lab("bench", "--task", "gqa_decode")
    assert answer.status == 0, answer.err
    assert seen == [load_task("gqa_decode").seed_source]
    # Only the compiler has judged it, and the last line says no more than that.
    assert answer.out.splitlines()[-1] == "compiles for RTX 3060; values were not checked"
    (tmp_path / "mine.py").write_text(seen[0])
    mine = kernel_lab("bench", tmp_path / "mine.py")
    assert "task gqa_decode, by the file's function `decode`" in mine.err
    assert mine.out.splitlines()[-1].endswith(f"`kernel-lab check {tmp_path / 'mine.py'}` does")
    assert "~91.5" in answer.out and "estimated 0.920× against FA2" in answer.out
    assert (
        json.loads(kernel_lab("bench", "--task", "gqa_decode", "--json").out)["speed"]["kind"] == "estimated"
    )
