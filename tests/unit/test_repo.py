"""The git view: what follows from the ledger, whatever happens to the repository or the user's settings."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from kernel_lab.engine import events as e
from kernel_lab.engine.facts import Prediction
from kernel_lab.engine.ledger import repo
from kernel_lab.engine.ledger.records import sha256
from kernel_lab.engine.ledger.store import Ledger
from ledger_data import created, life, source, sources


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    """Seed #1, keeps #2 and #4 on it, discards #3 and #5."""
    ledger = Ledger.create(tmp_path / "lab.db", [created()], blobs=sources(range(1, 10)))
    ledger.append(life(1, parent=None, status="seed"))
    ledger.append(life(2, parent=1, status="keep", champion=1))
    ledger.append(life(3, parent=2))
    ledger.append(life(4, parent=2, status="keep", champion=2))
    ledger.append(life(5, parent=4))
    return ledger


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "repo"


def git(folder: Path, *arguments: str) -> str:
    return subprocess.run(
        ["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=True
    ).stdout.strip()


def refs(folder: Path) -> dict[str, str]:
    listed = git(folder, "for-each-ref", "--format=%(refname) %(objectname)")
    return dict(line.split(" ") for line in listed.splitlines())  # type: ignore[misc]


def line(folder: Path, ref: str) -> list[str]:
    return git(folder, "log", "--reverse", "--format=%s", ref).splitlines()


def test_keeps_form_a_line_and_every_other_candidate_has_a_ref(ledger: Ledger, folder: Path) -> None:
    assert repo.sync(ledger, folder) is None
    assert line(folder, "champion/gqa_decode") == [
        "#1 seed: Try block 1",
        "#2 keep: Try block 2",
        "#4 keep: Try block 4",
    ]
    assert set(refs(folder)) == {
        "refs/heads/champion/gqa_decode",
        "refs/experiments/3",
        "refs/experiments/5",
        repo.WRITTEN,
    }
    assert line(folder, "refs/experiments/3")[-1] == "#3 discard: Try block 3"
    assert git(folder, "ls-tree", "--name-only", "refs/experiments/5") == "candidate.py\nresult.json"
    assert git(folder, "show", "refs/experiments/5:candidate.py") == source(5).decode().strip()
    result = json.loads(git(folder, "show", "champion/gqa_decode:result.json"))
    assert (result["id"], result["status"], result["score"]["fa2"]) == (4, "keep", 0.9)
    assert git(folder, "symbolic-ref", "HEAD") == "refs/heads/champion/gqa_decode"
    assert git(folder, "fsck", "--strict") == ""
    for n in range(1, 6):
        ref = f"refs/experiments/{n}" if n in (3, 5) else None
        commit = repo.commit_of(ledger, n)
        assert commit is not None
        assert git(folder, "cat-file", "-t", commit) == "commit"
        assert ref is None or refs(folder)[ref] == commit
    assert repo.commit_of(ledger, 99) is None


def test_a_second_sync_writes_nothing(ledger: Ledger, folder: Path) -> None:
    repo.sync(ledger, folder)
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    assert repo.sync(ledger, folder) is None
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


@pytest.mark.parametrize(
    "harm", ["deleted", "no objects", "a torn commit", "a lost ref", "a file", "no git folder"]
)
def test_whatever_is_lost_is_made_again_with_the_same_ids(ledger: Ledger, folder: Path, harm: str) -> None:
    repo.sync(ledger, folder)
    before = refs(folder)
    if harm == "deleted":
        shutil.rmtree(folder)
    elif harm == "no objects":
        shutil.rmtree(folder / "objects")
    elif harm == "a torn commit":
        commit = before["refs/experiments/3"]
        torn = folder / "objects" / commit[:2] / commit[2:]
        torn.chmod(0o644)
        torn.write_bytes(b"torn")
    elif harm == "a lost ref":
        (folder / "refs" / "experiments" / "3").unlink()
    elif harm == "a file":
        shutil.rmtree(folder)
        folder.write_text("in the way")
    else:
        (folder / "HEAD").unlink()
    repo._checked.clear()  # as in a new engine
    assert repo.sync(ledger, folder) is None
    assert refs(folder) == before
    assert git(folder, "fsck", "--strict") == ""


def test_a_half_written_repository_is_finished(
    ledger: Ledger, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed between the objects and the refs."""

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(repo, "_wanted", killed)
        with pytest.raises(KeyboardInterrupt):
            repo.sync(ledger, folder)
    assert refs(folder) == {}
    assert repo.sync(ledger, folder) is None
    assert len(refs(folder)) == 4


def test_a_veto_takes_the_champion_and_all_after_it_off_the_line(ledger: Ledger, folder: Path) -> None:
    repo.sync(ledger, folder)
    ledger.append(
        [
            e.StatusRevised(2, "vetoed", "ann", "reads\nthe clock", "cheat"),
            e.ChampionChanged("gqa_decode", 1, 4, "veto"),
        ]
    )
    assert repo.sync(ledger, folder) is None
    assert line(folder, "champion/gqa_decode") == ["#1 seed: Try block 1"]
    assert line(folder, "refs/experiments/2")[-2:] == ["#2 keep: Try block 2", "#2 vetoed: Try block 2"]
    assert "Why: person cheat: reads the clock" in git(
        folder, "log", "-1", "--format=%b", "refs/experiments/2"
    )
    assert set(refs(folder)) >= {"refs/experiments/2", "refs/experiments/4"}
    # What was built on it is judged again and stands on the clean line, with a commit of its own there.
    ledger.append([e.ChampionChanged("gqa_decode", 4, 1, "judged again on #1")])
    assert repo.sync(ledger, folder) is None
    assert line(folder, "champion/gqa_decode") == ["#1 seed: Try block 1", "#4 keep: Try block 4"]
    assert "refs/experiments/4" not in refs(folder)
    ledger.rebuild()
    shutil.rmtree(folder)
    before = [row.commit for row in ledger.experiments()]
    repo.sync(ledger, folder)
    assert [row.commit for row in ledger.experiments()] == before
    assert git(folder, "fsck", "--strict") == ""


def test_a_hold_that_is_kept_later_moves_to_the_line(ledger: Ledger, folder: Path) -> None:
    ledger.append(life(6, parent=4, status="held"))
    repo.sync(ledger, folder)
    assert line(folder, "refs/experiments/6")[-1] == "#6 held: Try block 6"
    ledger.append(
        [e.StatusRevised(6, "keep", "ann", "real"), e.ChampionChanged("gqa_decode", 6, 4, "kept by ann")]
    )
    repo.sync(ledger, folder)
    assert line(folder, "champion/gqa_decode")[-1] == "#6 keep: Try block 6"
    assert "refs/experiments/6" not in refs(folder)


def test_texts_of_others_stay_texts(ledger: Ledger, folder: Path) -> None:
    evil = "fast\n\nSigned-off-by: you\x1b]0;title\x07 \u202etxt \0 \udc80" + "x" * 10_000
    ledger.append(
        [
            e.ExperimentStarted(6, "gqa_decode", 4, "search"),
            e.Proposed(6, sha256(source(6)), evil, evil, Prediction(None, evil), evil),
            e.ExperimentFinished(6, "discard", (), None),
        ]
    )
    assert repo.sync(ledger, folder) is None
    raw = subprocess.run(
        ["git", "-C", str(folder), "log", "-1", "--format=%B", "refs/experiments/6"],
        capture_output=True,
        check=True,
    ).stdout
    text = raw.decode()
    assert all(char.isprintable() or char == "\n" for char in text)
    assert not any(line.startswith("Signed-off-by") for line in text.splitlines())
    assert max(len(line) for line in text.splitlines()) < 2100
    assert len(text.splitlines()[0]) <= 120


def test_the_users_git_has_no_part_in_it(
    ledger: Ledger, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    hooks = home / "hooks"
    hooks.mkdir(parents=True)
    (hooks / "reference-transaction").write_text("#!/bin/sh\ntouch " + str(tmp_path / "ran") + "\nexit 1\n")
    (hooks / "reference-transaction").chmod(0o755)
    (home / ".gitconfig").write_text(
        f"[core]\n\thooksPath = {hooks}\n[init]\n\tdefaultBranch = evil\n\ttemplateDir = {home}\n"
        "[user]\n\tname = Somebody\n[i18n]\n\tcommitEncoding = latin-1\n[commit]\n\tgpgSign = true\n"
    )
    other = tmp_path / "other"
    subprocess.run(["git", "init", "--quiet", str(other)], check=True)
    with monkeypatch.context() as patch:
        patch.setenv("HOME", str(home))
        patch.delenv("GIT_CONFIG_GLOBAL", raising=False)
        patch.setenv("GIT_DIR", str(other / ".git"))
        patch.setenv("GIT_WORK_TREE", str(other))
        patch.setenv("GIT_INDEX_FILE", str(other / "index"))
        patch.setenv("GIT_DEFAULT_HASH", "sha256")
        patch.setenv("GIT_CONFIG_PARAMETERS", f"'core.hooksPath={hooks}'")
        assert repo.sync(ledger, folder) is None
        ledger.append(life(6, parent=4))
        assert repo.sync(ledger, folder) is None
    assert not (tmp_path / "ran").exists()
    assert git(other, "for-each-ref") == ""
    assert git(folder, "log", "-1", "--format=%an <%ae> %cn", "champion/gqa_decode") == (
        "kernel-lab <kernel-lab@localhost> kernel-lab"
    )
    assert "refs/experiments/6" in refs(folder)


def test_refs_of_the_user_stay(ledger: Ledger, folder: Path) -> None:
    repo.sync(ledger, folder)
    git(folder, "branch", "mine", "champion/gqa_decode")
    ledger.append([e.StatusRevised(2, "vetoed", "ann", "no")])
    repo.sync(ledger, folder)
    assert line(folder, "mine")[-1] == "#4 keep: Try block 4"


def test_without_git_the_lab_goes_on(ledger: Ledger, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import git as gitpython

    def missing(*_: object, **__: object) -> None:
        raise gitpython.GitCommandNotFound("git", "not on the PATH")

    monkeypatch.setattr(gitpython.Git, "execute", missing)
    problem = repo.sync(ledger, folder)
    assert problem is not None
    assert "\n" not in problem
    monkeypatch.undo()
    assert repo.sync(ledger, folder) is None
    assert len(refs(folder)) == 4


def test_a_repository_that_cannot_be_written_is_told(ledger: Ledger, tmp_path: Path) -> None:
    problem = repo.sync(ledger, ledger.path / "folder")
    assert problem is not None
    assert "\n" not in problem


def test_many_experiments_are_packed_and_one_more_stays_quick(ledger: Ledger, folder: Path) -> None:
    ledger.connection.execute("PRAGMA synchronous = OFF")
    for n in range(6, 6 + repo.LOOSE_REFS + 50):
        ledger.append([*life(n, parent=4, checks=0, trials=0)], blobs=sources([n]))
    assert repo.sync(ledger, folder) is None
    assert len(refs(folder)) == repo.LOOSE_REFS + 54
    assert sum(len(files) for _, _, files in os.walk(folder)) < 60
    ledger.append(life(999, parent=4), blobs=sources([999]))
    begin = os.times()
    assert repo.sync(ledger, folder) is None
    spent = sum(os.times()[:4]) - sum(begin[:4])
    assert spent < 0.5
    assert git(folder, "log", "-1", "--format=%s", "refs/experiments/999") == "#999 discard: Try block 999"
