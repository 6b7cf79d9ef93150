"""Steering from another terminal: obeyed, refused or queued, and said which."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from kernel_lab.engine import commands as c
from kernel_lab.engine.control import Control
from kernel_lab.engine.lab import EngineLock, open_lab
from kernel_lab.engine.tasks import load_task

KernelLab = Callable[..., Any]


@pytest.fixture
def running_lab(recorded_lab: Path) -> Iterator[Path]:
    """The recorded lab with what obeys commands in a real engine, in a thread."""
    ready, ended = threading.Event(), threading.Event()

    async def serve() -> None:
        with EngineLock(recorded_lab), closing(open_lab(recorded_lab)) as lab:
            control = Control(lab.ledger, lambda task: "decode", "wins")
            serving = asyncio.create_task(control.serve())
            ready.set()
            await asyncio.to_thread(ended.wait)
            serving.cancel()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    assert ready.wait(10)
    yield recorded_lab
    ended.set()
    thread.join(10)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["say", "try", "split KV"], "idea 2 is noted"),
        (["say", "use exp2", "--always"], "idea 2 is noted"),
        (["say", "branch here", "--from", "2"], "idea 2 is noted"),
        (["approve", "4"], "#4 is approved"),
        (["reject", "4", "--why", "too risky"], "#4 is rejected"),
        (["veto", "2", "--why", "smells", "--category", "cheat"], "#2 is vetoed"),
        (["mode", "ask"], "the mode is ask"),
        (["pause"], "the lab pauses after the running experiment"),
        (["stop"], "the engine stops after the running experiment"),
        (["stop", "--now"], "the engine stops now"),
        (["ideas", "--withdraw", "1"], "idea 1 is withdrawn"),
    ],
)
def test_a_running_engine_obeys_and_its_answer_is_printed(
    arguments: list[str], said: str, kernel_lab: KernelLab, running_lab: Path
) -> None:
    answer = kernel_lab(*arguments)
    beside = f"lab {running_lab} (the last used one; --lab names another)\n"
    assert (answer.status, answer.out.strip(), answer.err) == (0, said, beside)
    assert kernel_lab("resume", "--lab", running_lab).err == ""


def test_kill_is_refused_where_nothing_runs(kernel_lab: KernelLab, running_lab: Path) -> None:
    answer = kernel_lab("kill")
    assert (answer.status, answer.line) == (2, "no experiment is running: nothing to end")


def test_what_was_said_is_in_the_ledger(kernel_lab: KernelLab, running_lab: Path) -> None:
    kernel_lab("say", "start", "there", "--from", "#2")
    ideas = json.loads(kernel_lab("ideas", "--json").out)["ideas"]
    assert (ideas[-1]["text"], ideas[-1]["scope"], ideas[-1]["from_experiment"]) == ("start there", "from", 2)


def test_an_idea_that_waits_is_changed_and_moved_and_a_used_one_is_not(
    kernel_lab: KernelLab, running_lab: Path
) -> None:
    kernel_lab("say", "pack the heads")
    kernel_lab("say", "then split")
    assert kernel_lab("ideas", "--edit", "2", "pack all heads").out.strip() == "idea 2 is changed"
    assert kernel_lab("ideas", "--move", "3", "1").out.startswith("idea 3 is number 1 of ")
    ideas = json.loads(kernel_lab("ideas", "--json").out)["ideas"]
    waiting = [idea["text"] for idea in ideas if not idea["used_by"]]
    assert waiting == ["then split", "pack all heads"]
    assert "was used by #2 already: say it anew" in kernel_lab("ideas", "--edit", "1", "x").line
    for wrong in (["--move", "3", "0"], ["--move", "x", "1"], ["--edit", "-1", "x"]):
        assert kernel_lab("ideas", *wrong).status == 2


def test_a_refusal_is_an_error_with_the_engines_own_words(kernel_lab: KernelLab, running_lab: Path) -> None:
    answer = kernel_lab("veto", "3", "--why", "x")
    assert answer.status == 2
    assert answer.line.startswith("#3 is incorrect, not a kept or held win")
    refused = kernel_lab("keep", "1", "--json")
    assert refused.status == 2
    assert json.loads(refused.out)["state"] == "refused"


def test_json_says_what_came_of_a_command(kernel_lab: KernelLab, running_lab: Path) -> None:
    found = json.loads(kernel_lab("mode", "auto", "--json").out)
    assert found["command"] == "set_mode" and found["state"] == "obeyed"
    assert found["result"] == "the mode is auto" and found["lab"] == str(running_lab)


def test_without_an_engine_a_command_waits_and_says_so(kernel_lab: KernelLab, recorded_lab: Path) -> None:
    answer = kernel_lab("say", "later")
    assert answer.status == 0 and answer.out.startswith("queued: no engine runs")
    assert json.loads(kernel_lab("pause", "--json").out)["state"] == "queued"
    with closing(open_lab(recorded_lab, readonly=True)) as lab:
        waiting = [row.command for row in lab.ledger.pending_commands()]
    assert waiting == [c.Say("later"), c.Pause()]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["keep", "3"], "#3 is incorrect: only held, vetoed, rejected wins can be kept by hand"),
        (["veto", "3", "--why", "x"], "#3 is incorrect, not a kept or held win"),
        (["ideas", "--withdraw", "7"], "there is no open idea 7"),
        (["reject", "2", "--why", "x"], "nothing is asked about #2"),
    ],
)
def test_what_an_engine_would_refuse_is_not_queued_for_one(
    arguments: list[str], said: str, kernel_lab: KernelLab, recorded_lab: Path
) -> None:
    answer = kernel_lab(*arguments)
    assert answer.status == 2 and said in answer.line
    with closing(open_lab(recorded_lab, readonly=True)) as lab:
        assert not lab.ledger.pending_commands()


def test_a_candidate_is_handed_in_for_the_task_of_its_entry_function(
    kernel_lab: KernelLab, recorded_lab: Path, tmp_path: Path
) -> None:
    source = load_task("gqa_decode").seed_source
    (tmp_path / "mine.py").write_text(source)
    answer = kernel_lab("submit", tmp_path / "mine.py", "--what", "My own", "--idea", "1")
    assert answer.status == 0 and answer.out.startswith("queued: no engine runs")
    plain = kernel_lab("submit", tmp_path / "mine.py", "--task", "gqa_decode", "--json")
    assert json.loads(plain.out)["command"] == "submit"
    with closing(open_lab(recorded_lab, readonly=True)) as lab:
        first, second = (row.command for row in lab.ledger.pending_commands())
    assert first == c.Submit("gqa_decode", source, "My own", (1,))
    assert isinstance(second, c.Submit) and second.description.startswith("Grouped-query attention")


@pytest.mark.parametrize(
    ("task", "more", "status", "said"),
    [
        ("gqa_prefill", [], 1, "there is no entry function decode"),
        ("gqa_decode", ["--idea", "9"], 2, "there is no open idea 9"),
        (
            "gqa_decode",
            ["--task", "gqa_prefill"],
            2,
            "this lab has no task 'gqa_prefill': use one of gqa_decode",
        ),
    ],
)
def test_a_candidate_that_the_lab_cannot_judge_is_not_queued(
    task: str,
    more: list[str],
    status: int,
    said: str,
    kernel_lab: KernelLab,
    recorded_lab: Path,
    tmp_path: Path,
) -> None:
    (tmp_path / "mine.py").write_text(load_task(task).seed_source)
    answer = kernel_lab("submit", tmp_path / "mine.py", *more)
    assert answer.status == status and said in answer.line
    with closing(open_lab(recorded_lab, readonly=True)) as lab:
        assert not lab.ledger.pending_commands()


@pytest.mark.parametrize("arguments", [["stop"], ["stop", "--now"], ["kill"]])
def test_stop_and_kill_never_wait_for_an_engine_to_come(
    arguments: list[str], kernel_lab: KernelLab, recorded_lab: Path
) -> None:
    answer = kernel_lab(*arguments)
    assert answer.status == 2 and "no engine runs" in answer.line
    with closing(open_lab(recorded_lab, readonly=True)) as lab:
        assert not lab.ledger.pending_commands()


def test_an_approval_is_tied_to_the_text_that_was_asked_about(
    kernel_lab: KernelLab, recorded_lab: Path
) -> None:
    kernel_lab("approve", "4")
    with closing(open_lab(recorded_lab, readonly=True)) as lab:
        (waiting,) = lab.ledger.pending_commands()
        asked = lab.ledger.open_questions()[0].source_sha
    assert waiting.command == c.Approve(4, asked)


def test_approving_what_nobody_asks_names_what_waits(kernel_lab: KernelLab, recorded_lab: Path) -> None:
    answer = kernel_lab("approve", "2")
    assert answer.status == 2
    assert answer.line == "nothing is asked about #2: what waits for you: #4"


def test_an_edited_text_is_looked_at_before_it_is_sent(
    kernel_lab: KernelLab, recorded_lab: Path, tmp_path: Path
) -> None:
    edited = tmp_path / "edited.py"
    edited.write_text("def decode(:\n")
    answer = kernel_lab("approve", "4", "--with", edited)
    assert answer.status == 1 and "line 1" in answer.line
    with closing(open_lab(recorded_lab, readonly=True)) as lab:
        assert not lab.ledger.pending_commands()


@pytest.mark.parametrize(
    "arguments",
    [["keep", "77"], ["veto", "77", "--why", "x"], ["say", "x", "--from", "77"], ["approve", "77"]],
)
def test_an_unknown_experiment_is_refused_before_anything_is_sent(
    arguments: list[str], kernel_lab: KernelLab, recorded_lab: Path
) -> None:
    answer = kernel_lab(*arguments)
    assert answer.status == 2 and "there is no experiment 77" in answer.line
    with closing(open_lab(recorded_lab, readonly=True)) as lab:
        assert not lab.ledger.pending_commands()
