"""The task of a candidate file: by its entry function where `--task` does not tell."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kernel_lab.engine.errors import CandidateInvalid, UsageError
from kernel_lab.engine.tasks import load_task
from kernel_lab.tui.entries import task_of

KernelLab = Callable[..., Any]
DECODE = "def decode(q):\n    return q\n"
ATTENTION = "def attention(q):\n    return q\n"


@pytest.mark.parametrize(("source", "task"), [(DECODE, "gqa_decode"), (ATTENTION, "gqa_prefill")])
def test_the_entry_function_tells_the_task(source: str, task: str) -> None:
    assert task_of(source, None).name == task
    assert task_of(source, task).name == task


def test_a_file_for_two_tasks_asks_which_one() -> None:
    with pytest.raises(UsageError, match="gqa_decode and gqa_prefill: say which with --task"):
        task_of(DECODE + ATTENTION, None)
    assert task_of(DECODE + ATTENTION, "gqa_prefill").name == "gqa_prefill"


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("x = 1\n", r"define `decode` \(gqa_decode\) or `attention` \(gqa_prefill\)"),
        ("def decode(:\n", "syntax error: line 1"),
        ("", "empty"),
    ],
)
def test_a_file_for_no_task_says_what_it_lacks(source: str, said: str) -> None:
    with pytest.raises(CandidateInvalid, match=said):
        task_of(source, None)


def test_a_task_that_the_file_is_not_for_names_the_one_that_it_is_for() -> None:
    with pytest.raises(CandidateInvalid, match="the file has `attention`, so say `--task gqa_prefill`"):
        task_of(ATTENTION, "gqa_decode")


def test_a_lab_knows_its_own_tasks_alone() -> None:
    with pytest.raises(UsageError, match="use one of gqa_decode"):
        task_of(ATTENTION, "gqa_prefill", ["gqa_decode"])


@pytest.mark.parametrize("command", ["check", "bench"])
def test_a_wrong_task_is_invalid_on_the_command_line(
    command: str, kernel_lab: KernelLab, tmp_path: Path
) -> None:
    (tmp_path / "mine.py").write_text(load_task("gqa_decode").seed_source)
    answer = kernel_lab(command, tmp_path / "mine.py", "--task", "gqa_prefill", "--json")
    found = json.loads(answer.out)
    assert (answer.status, found["verdict"]) == (1, "invalid")
    assert "say `--task gqa_decode`" in found["reasons"][0]["detail"]


def test_bench_of_nothing_says_what_it_needs(kernel_lab: KernelLab) -> None:
    answer = kernel_lab("bench")
    assert answer.status == 2
    assert answer.line == "bench what? name a file, or an operator: --task gqa_decode or gqa_prefill"
