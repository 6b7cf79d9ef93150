"""Whole labs: rename, delete, prune; never under a running engine, never what is no lab."""

from __future__ import annotations

from pathlib import Path

import pytest
from kernel_lab.engine import paths
from kernel_lab.engine.errors import LabBusy, LabFolderError, UsageError
from kernel_lab.engine.events import ChampionChanged, ExperimentFinished, ExperimentStarted
from kernel_lab.engine.lab import create_lab, is_lab, last_lab, open_lab, remember_lab
from kernel_lab.engine.lab_config import LabConfig
from kernel_lab.engine.lab_manage import delete_lab, prune_lab, rename_lab
from kernel_lab.engine.ledger.lock import EngineLock


@pytest.fixture
def folder(own_world: Path) -> Path:
    path = paths.labs_dir() / "first"
    with_lab = create_lab(path, LabConfig(gpu="rtx3060"))
    statuses = ("seed", "discard", "keep", "incorrect", "held", "vetoed")
    for number, status in enumerate(statuses, 1):
        with_lab.ledger.append(
            [
                ExperimentStarted(number, "gqa_decode", 1 if number > 1 else None, "search"),
                ExperimentFinished(number, status, (), None),
            ]
        )
        run = path / "runs" / str(number)
        run.mkdir(parents=True)
        (run / "log").write_text("x" * 1_000)
    with_lab.ledger.append([ChampionChanged("gqa_decode", 3, 1, "won")])
    with_lab.close()
    return path


def test_a_renamed_lab_opens_under_its_new_name_and_stays_the_last_used(folder: Path) -> None:
    remember_lab(folder)
    target = rename_lab(folder, "second")
    assert target == folder.with_name("second") and is_lab(target) and not folder.exists()
    assert last_lab() == target
    open_lab(target).close()
    assert rename_lab(target, "second") == target


@pytest.mark.parametrize("name", ["", "..", "a/b", "-x", "a b", "x" * 81, "evil\x1b[0m", "~"])
def test_a_name_that_is_none_is_refused(folder: Path, name: str) -> None:
    with pytest.raises(UsageError, match="is no name for a lab"):
        rename_lab(folder, name)
    assert is_lab(folder)


def test_nothing_is_written_over(folder: Path) -> None:
    other = folder.with_name("other")
    other.write_text("mine")
    with pytest.raises(LabFolderError, match="is there already"):
        rename_lab(folder, "other")
    assert other.read_text() == "mine" and is_lab(folder)


def test_prune_frees_what_was_not_kept_and_leaves_ledger_and_champions(folder: Path) -> None:
    (folder / "runs" / "4" / "ptx").write_text("y" * 500)
    assert prune_lab(folder) == (3, 3_500)
    assert sorted(run.name for run in (folder / "runs").iterdir()) == ["1", "3", "5"]
    with_lab = open_lab(folder)
    assert len(with_lab.ledger.experiments()) == 6
    with_lab.close()
    assert prune_lab(folder) == (0, 0)


def test_prune_follows_no_link_out_of_the_lab(folder: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("mine")
    run = folder / "runs" / "2"
    (run / "log").unlink()
    run.rmdir()
    run.symlink_to(outside)
    prune_lab(folder)
    assert (outside / "precious").read_text() == "mine"


def test_delete_takes_the_whole_folder_and_only_that(folder: Path) -> None:
    beside = folder.with_name("beside")
    beside.mkdir()
    delete_lab(folder)
    assert [entry.name for entry in folder.parent.iterdir()] == ["beside"]


def test_what_is_no_lab_or_a_link_to_one_is_left_alone(folder: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(folder)
    with pytest.raises(LabFolderError, match="is a link"):
        delete_lab(link)
    plain = tmp_path / "plain"
    plain.mkdir()
    for work in (delete_lab, prune_lab, lambda path: rename_lab(path, "new")):
        with pytest.raises(LabFolderError, match="is not a lab"):
            work(plain)
    assert plain.is_dir() and is_lab(folder)


def test_a_lab_whose_engine_runs_is_left_as_it_is(folder: Path) -> None:
    with EngineLock(folder):
        for work in (delete_lab, prune_lab, lambda path: rename_lab(path, "new")):
            with pytest.raises(LabBusy, match="stop its engine first"):
                work(folder)
    assert is_lab(folder) and (folder / "runs" / "2").is_dir()
