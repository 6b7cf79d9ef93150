"""`kernel-lab labs` renames, prunes and deletes, and deletes nothing without a word more."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from kernel_lab.engine import paths
from kernel_lab.engine.events import ExperimentFinished, ExperimentStarted
from kernel_lab.engine.lab import create_lab, is_lab
from kernel_lab.engine.lab_config import LabConfig
from kernel_lab.tui import cli


@pytest.fixture
def folder(own_world: Path) -> Path:
    path = paths.labs_dir() / "first"
    made = create_lab(path, LabConfig(gpu="rtx3060"))
    made.ledger.append(
        [ExperimentStarted(1, "gqa_decode", None, "search"), ExperimentFinished(1, "discard", (), None)]
    )
    made.close()
    run = path / "runs" / "1"
    run.mkdir(parents=True)
    (run / "log").write_text("x" * 700)
    return path


def test_rename_prune_and_delete(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["labs", "--rename", "first", "second"]) == 0
    second = folder.with_name("second")
    assert capsys.readouterr().out == f"renamed: {second}\n" and is_lab(second)
    assert cli.main(["labs", "--prune", "second", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"lab": str(second), "pruned": 1, "bytes": 700}
    assert cli.main(["labs", "--delete", "second"]) == 2
    assert "say --yes too" in capsys.readouterr().err and is_lab(second)
    assert cli.main(["labs", "--delete", "second", "--yes"]) == 0
    assert not second.exists()


def test_a_wrong_name_and_a_lone_yes_are_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["labs", "--delete", "frist", "--yes"]) == 2
    assert "did you mean first" in capsys.readouterr().err
    assert cli.main(["labs", "--yes"]) == 2
    assert "--yes goes with --delete" in capsys.readouterr().err
    assert cli.main(["labs", "--rename", "first", "../up"]) == 2
    assert "is no name for a lab" in capsys.readouterr().err and is_lab(folder)
    assert cli.main(["labs"]) == 0
    assert "first" in capsys.readouterr().out
