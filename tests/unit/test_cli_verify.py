"""`verify` re-checks a lab or a receipt: what was changed, and which keeps survive being judged again."""

from __future__ import annotations

import contextlib
import json
import shutil
import sqlite3
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from fake_device import FakeDevice
from kernel_lab.engine.judge.judge import Judge
from kernel_lab.engine.tasks import TaskSpec, workload_matrix
from kernel_lab.tui.choices import Device
from test_loop import Script, make_lab, run

Cli = Any


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> FakeDevice:
    """What `verify` judges with, in place of a host."""
    fake = FakeDevice()

    @contextlib.asynccontextmanager
    async def judges(tasks: Sequence[TaskSpec], device: Device) -> AsyncIterator[dict[str, Judge]]:
        yield {
            task.name: Judge(fake, task, workload_matrix(task, device.model, device.gpu)[0]) for task in tasks
        }

    monkeypatch.setattr("kernel_lab.tui.cli_judge.judges", judges)
    monkeypatch.setattr("kernel_lab.tui.machine.require_compiler", lambda: None)
    return fake


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    lab = make_lab(tmp_path_factory.mktemp("verify") / "lab")
    run(lab, Script([{"SKIP": True}, {"TWO_LOOPS": True}]), FakeDevice())
    lab.close()
    return lab.path


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    """A lab with seed #1 and keeps #2 and #3."""
    return Path(shutil.copytree(made, tmp_path / "lab"))


def test_a_recording_is_verified_by_its_name(
    kernel_lab: Cli, folder: Path, tmp_path: Path, device: FakeDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(folder / "lab.db", tmp_path / "some-card.db")
    monkeypatch.setattr("kernel_lab.tui.sources.RECORDINGS", tmp_path)
    said = kernel_lab("verify", "some-card", "--json")
    assert said.status == 0, said.err
    answer = json.loads(said.out)
    assert answer["intact"] and [keep["experiment"] for keep in answer["keeps"]] == [2, 3]
    assert kernel_lab("verify", "other-card").status == 2
    assert "the recordings are some-card" in kernel_lab("replay", "other-card").err


def test_every_keep_of_an_honest_lab_survives(kernel_lab: Cli, folder: Path, device: FakeDevice) -> None:
    said = kernel_lab("verify", folder)
    assert said.status == 0, said.err
    assert "events are as they were written" in said.out
    assert "#2 gqa_prefill  survives  ~1.600× what it had to beat (recorded 1.600×)" in said.out
    assert "2 of 2 keeps survive here" in said.out


def test_json_holds_the_same(kernel_lab: Cli, folder: Path, device: FakeDevice) -> None:
    answer = json.loads(kernel_lab("verify", folder, "--json", "--seed", "7").out)
    assert (answer["intact"], answer["fault"], answer["kind"], answer["seed"]) == (True, None, "lab", 7)
    assert [(k["experiment"], k["outcome"]) for k in answer["keeps"]] == [(2, "survives"), (3, "survives")]
    assert all(keep["checks"] > 5 for keep in answer["keeps"])


def test_a_keep_that_fails_a_gate_now_falls(kernel_lab: Cli, folder: Path, device: FakeDevice) -> None:
    device.failing = {'"TWO_LOOPS": True': "confirm"}
    said = kernel_lab("verify", folder)
    assert said.status == 1
    assert "#3 gqa_prefill  falls" in said.out and "confirm compare: hidden-" in said.out
    assert "1 of 2 keeps survive" in said.out


def test_a_keep_that_cannot_be_checked_here_is_unproven(
    kernel_lab: Cli, folder: Path, device: FakeDevice
) -> None:
    device.unproven = '"TWO_LOOPS": True'
    said = kernel_lab("verify", folder)
    assert said.status == 1 and "#3 gqa_prefill  unproven" in said.out


def test_a_keep_that_is_not_faster_on_another_card_falls(
    kernel_lab: Cli, folder: Path, device: FakeDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fake_device.GAIN", {"SKIP": 1.6, "TWO_LOOPS": 1.0})
    said = kernel_lab("verify", folder, "--gpu", "h200")
    assert said.status == 1 and "H200 SXM" in said.err
    assert "#2 gqa_prefill  survives" in said.out and "#3 gqa_prefill  falls" in said.out


def test_one_receipt_alone_is_enough(
    kernel_lab: Cli, folder: Path, device: FakeDevice, tmp_path: Path
) -> None:
    shown = kernel_lab("show", "3", "--receipt", "--lab", folder)
    assert shown.status == 0
    assert shown.out == (folder / "runs" / "3" / "receipt.json").read_text()
    file = tmp_path / "r.json"
    file.write_text(shown.out)
    said = kernel_lab("verify", file)
    assert said.status == 0 and "1 of 1 keeps survive" in said.out
    assert kernel_lab("show", "1", "--receipt", "--lab", folder).status == 0
    file.write_text(shown.out.replace('"rtx3060"', '"h200"', 1))
    said = kernel_lab("verify", file, "--json")
    assert said.status == 1
    assert json.loads(said.out)["fault"]["event"] == 1


def test_a_measured_receipt_is_unproven_where_there_is_no_card(
    kernel_lab: Cli, folder: Path, device: FakeDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dataclasses import replace

    from kernel_lab.engine.judge import rejudge

    win_of = rejudge.win_of
    monkeypatch.setattr(rejudge, "win_of", lambda receipt: replace(win_of(receipt), kind="measured"))
    said = kernel_lab("verify", folder)
    assert said.status == 1
    assert (
        "unproven" in said.out and "it was measured on a card; here its speed is only estimated" in said.out
    )


def test_a_changed_lab_proves_nothing_and_the_field_is_named(
    kernel_lab: Cli, folder: Path, device: FakeDevice
) -> None:
    with contextlib.closing(sqlite3.connect(folder / "lab.db")) as connection:
        seq, body = connection.execute(
            "SELECT seq, body FROM events WHERE type = 'speed_judged' AND experiment = 3"
        ).fetchone()
        changed = body.replace('"kind":"estimated"', '"kind":"Estimated"')
        connection.execute("UPDATE events SET body = ? WHERE seq = ?", (changed, seq))
        connection.commit()
    said = kernel_lab("verify", folder)
    assert said.status == 1
    assert f"BROKEN: event {seq} (speed_judged) is not what was written: field speed.kind" in said.out
    assert device.screened == 0


def test_a_changed_receipt_in_the_lab_is_named(kernel_lab: Cli, folder: Path, device: FakeDevice) -> None:
    path = folder / "runs" / "2" / "receipt.json"
    path.write_text(path.read_text().replace('"by":"', '"by":"x', 1).replace("estimated", "measured", 1))
    said = kernel_lab("verify", folder)
    assert said.status == 1 and "BROKEN: runs/2/receipt.json: event " in said.out


def test_a_ledger_file_alone_is_verified_too(kernel_lab: Cli, folder: Path, device: FakeDevice) -> None:
    assert kernel_lab("verify", folder / "lab.db").status == 0


def test_a_task_in_a_receipt_is_never_taken_for_a_path(tmp_path: Path) -> None:
    from kernel_lab.engine.errors import UsageError
    from kernel_lab.tui.cli_verify import _task

    (tmp_path / "gqa_evil").mkdir()
    with pytest.raises(UsageError, match="no task"):
        _task(str(tmp_path / "gqa_evil"), ())


@pytest.mark.parametrize("name", ["nothing-here", "/dev/null", "/"])
def test_what_is_nothing_to_verify_is_told_in_one_line(kernel_lab: Cli, name: str) -> None:
    said = kernel_lab("verify", name)
    assert said.status == 2 and said.line
