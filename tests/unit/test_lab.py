"""Which folders become labs, what lab.toml may say, who runs a lab, and finding labs again."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from kernel_lab.engine import events as e
from kernel_lab.engine import lab as labs
from kernel_lab.engine import paths
from kernel_lab.engine.errors import DiskFull, LabBusy, LabFolderError, LabNewer, LabReadOnly, UsageError
from kernel_lab.engine.lab import EngineLock, LabConfig, create_lab, engine_pid, open_lab, resolve_lab
from kernel_lab.engine.ledger import lock
from kernel_lab.engine.ledger.store import Ledger
from ledger_data import created, life, sources

CONFIG = LabConfig(gpu="rtx3060")


def content(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


# ---- folders ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("exists", [False, True])
def test_a_missing_or_empty_folder_becomes_a_lab(tmp_path: Path, exists: bool) -> None:
    folder = tmp_path / "a" / "lab"
    if exists:
        folder.mkdir(parents=True)
    lab = create_lab(folder, CONFIG, [created()])
    assert (lab.name, lab.config, lab.ledger.last_seq()) == ("lab", CONFIG, 1)
    lab.close()
    again = open_lab(folder)
    assert again.config == CONFIG
    assert again.ledger.verify() == 1
    with pytest.raises(LabFolderError, match="is a lab already"):
        create_lab(folder, CONFIG)


@pytest.mark.parametrize(
    "names",
    [["notes.txt"], [".hidden"], ["lab.toml"], ["lab.db"], ["engine.log"], [".git/config"], ["lab.toml/x"]],
)
def test_a_foreign_folder_is_left_as_it_is(tmp_path: Path, names: list[str]) -> None:
    folder = tmp_path / "theirs"
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("theirs")
    before = content(folder)
    with pytest.raises(LabFolderError, match="left as it is") as told:
        create_lab(folder, CONFIG)
    assert str(told.value).endswith("name an empty or a new folder")
    assert content(folder) == before
    with pytest.raises(LabFolderError, match="not a lab"):
        open_lab(folder)
    assert content(folder) == before


def test_a_file_in_the_place_of_a_folder_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("theirs")
    with pytest.raises(LabFolderError, match="is a file"):
        create_lab(tmp_path / "file", CONFIG)
    with pytest.raises(LabReadOnly, match="cannot be written"):
        create_lab(tmp_path / "file" / "below", CONFIG)
    with pytest.raises(LabFolderError, match="does not exist"):
        open_lab(tmp_path / "nowhere")


@pytest.mark.parametrize("step", ["write_config", "Ledger.create", "rename"])
def test_a_creation_that_was_killed_is_begun_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    folder = tmp_path / "lab"

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        if step == "write_config":
            patch.setattr(labs, "write_config", killed)
        elif step == "rename":
            patch.setattr(Path, "rename", killed)
        else:
            patch.setattr(Ledger, "_append", killed)
        with pytest.raises(KeyboardInterrupt):
            create_lab(folder, CONFIG, [created()])
    assert not labs.is_lab(folder)
    lab = create_lab(folder, CONFIG, [created()])
    assert lab.ledger.verify() == 1


def test_a_ledger_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    lab = create_lab(tmp_path / "lab", CONFIG)
    lab.ledger.connection.execute("PRAGMA user_version = 99")
    lab.close()
    with pytest.raises(LabNewer, match="update kernel-lab"):
        open_lab(tmp_path / "lab")


def test_a_lab_that_cannot_be_written_is_only_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "lab"
    create_lab(folder, CONFIG, [created()]).close()
    really = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK and really(path, mode))
    with pytest.raises(LabReadOnly, match="make its folder writable"):
        open_lab(folder)
    assert open_lab(folder, readonly=True).ledger.view().lab == "lab"


# ---- lab.toml --------------------------------------------------------------------------------------


def test_settings_come_back_as_they_were(tmp_path: Path) -> None:
    config = LabConfig(
        gpu="h200",
        model="qwen3-8b",
        tasks=("gqa_prefill",),
        proposer="folder",
        mode="ask",
        seed=7,
        budget=12,
        trials=3,
        hours=0.5,
        usd=2,
        tokens=100,
        from_file='C:\\odd "name" é.py',
        python="/usr/bin/python3",
    )
    labs.write_config(tmp_path, config)
    assert labs.read_config(tmp_path) == config
    assert LabConfig.from_dict(config.to_dict()) == config


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("gpu = 'rtx3060'\nbudget = -3\n", r"lab\.toml:2: budget is -3: give more than 0"),
        ("gpu = 'rtx3060'\n\nmode = 'yolo'\n", r"lab\.toml:3: mode is 'yolo': choose one of ask, wins, auto"),
        ("gpu = 'rtx3060'\ntrials = 'many'\n", r"lab\.toml:2: trials is 'many': give a whole number"),
        ("gpu = 'rtx3060'\nbudget = true\n", r"lab\.toml:2: budget is True"),
        ("gpu = 'rtx3060'\nhours = nan\n", r"lab\.toml:2: hours is nan: give more than 0"),
        ("gpu = 'rtx3060'\ntasks = []\n", r"lab\.toml:2: tasks is \[\]: name one task or more"),
        ("gpu = 'rtx3060'\ntasks = 'x'\n", r"lab\.toml:2: tasks is 'x': give a list of names"),
        ("gpu = 'rtx3060'\ntasks = ['a', 'a']\n", r"lab\.toml:2: tasks names a task twice"),
        ("gpu = 'rtx3060'\n[colour]\nx = 1\n", r"lab\.toml:2: colour is no setting of a lab: remove it"),
        ("model = 'x'\n", r"lab\.toml: gpu is missing"),
        ("gpu = 'a\\u001b[31m'\n".replace("'", '"'), r"lab\.toml:1: gpu is .* without control characters"),
        ("gpu = \n", r"lab\.toml is not TOML \(Invalid value \(at line 1"),
    ],
)
def test_wrong_settings_are_named_with_file_and_line(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "lab.toml").write_text(text)
    with pytest.raises(UsageError, match=said) as told:
        labs.read_config(tmp_path)
    assert told.value.exit_status == 2


def test_settings_nested_without_end_are_told(tmp_path: Path) -> None:
    create_lab(tmp_path / "a", LabConfig("rtx3060")).close()
    (tmp_path / "a" / "lab.toml").write_text("gpu = " + "[" * 100_000)
    with pytest.raises(UsageError, match="is not TOML"):
        open_lab(tmp_path / "a")


def test_a_lock_that_finds_no_space_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(DiskFull, match="free some space"):
        EngineLock(tmp_path).acquire()
    monkeypatch.undo()
    with EngineLock(tmp_path):
        assert engine_pid(tmp_path) == os.getpid()
        copy = Path(shutil.copytree(tmp_path, tmp_path.with_name("copy")))
        assert engine_pid(copy) is None, "the engine of a lab does not run its copy"
        moved = tmp_path.rename(tmp_path.with_name("moved"))
        assert engine_pid(moved) == os.getpid(), "it runs the lab wherever that is moved"
        moved.rename(tmp_path)


def test_a_name_too_long_for_a_path_is_no_lab(own_world: Path) -> None:
    with pytest.raises(UsageError, match="there is no lab"):
        resolve_lab("x" * 5000)
    with pytest.raises(LabReadOnly, match="name another folder"):
        create_lab(own_world / ("x" * 5000), LabConfig("rtx3060"))


def test_settings_that_are_no_text_are_told(tmp_path: Path) -> None:
    (tmp_path / "lab.toml").write_bytes(b"gpu = '\xff'\n")
    with pytest.raises(UsageError, match="not TOML"):
        labs.read_config(tmp_path)
    (tmp_path / "lab.toml").unlink()
    with pytest.raises(LabFolderError, match="cannot be read"):
        labs.read_config(tmp_path)


# ---- the lock --------------------------------------------------------------------------------------

HOLD = """
import sys, time
from pathlib import Path
from kernel_lab.engine.lab import EngineLock
EngineLock(Path(sys.argv[1])).acquire()
print("held", flush=True)
time.sleep(60)
"""


def test_a_second_engine_is_refused_by_name(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    create_lab(folder, CONFIG).close()
    assert engine_pid(folder) is None
    owner = subprocess.Popen([sys.executable, "-c", HOLD, str(folder)], stdout=subprocess.PIPE)
    try:
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"held\n"
        assert engine_pid(folder) == owner.pid
        with pytest.raises(LabBusy) as told:
            EngineLock(folder).acquire()
        assert str(told.value) == (
            f"lab mine is already run by process {owner.pid}: open it with `kernel-lab open mine`"
        )
        reader = open_lab(folder, readonly=True)
        assert reader.ledger.view().engine_alive
    finally:
        owner.kill()
    deadline = time.monotonic() + 10
    while engine_pid(folder) is not None and time.monotonic() < deadline:
        time.sleep(0.01)  # not reaped yet: a zombie owns nothing
    assert engine_pid(folder) is None
    with EngineLock(folder):
        assert engine_pid(folder) == os.getpid()
    assert engine_pid(folder) is None
    owner.wait()


def test_a_later_process_of_the_same_number_is_not_the_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = EngineLock(tmp_path)
    held.acquire()
    assert engine_pid(tmp_path) == os.getpid()
    monkeypatch.setattr(lock, "start_of", lambda pid: "another time")
    assert engine_pid(tmp_path) is None


@pytest.mark.parametrize("text", ["", "junk", "[]", '{"pid": "x"}', '{"pid": 1}'])
def test_a_lock_file_that_says_nothing_names_nobody(tmp_path: Path, text: str) -> None:
    (tmp_path / "engine.lock").write_text(text)
    assert engine_pid(tmp_path) is None
    with EngineLock(tmp_path):
        assert engine_pid(tmp_path) == os.getpid()


# ---- finding labs ----------------------------------------------------------------------------------


def test_labs_are_found_in_their_home_and_where_they_were_used(own_world: Path, tmp_path: Path) -> None:
    home = labs.new_lab_dir("rtx3060", "llama-3.1-8b")
    assert home == paths.labs_dir() / "rtx3060-llama-3.1-8b"
    lab = create_lab(home, CONFIG, [created("first")], blobs=sources([1, 2]))
    lab.ledger.append([*life(1, parent=None, status="seed"), *life(2, status="keep", champion=1)])
    lab.ledger.append([e.ApprovalRequested(2, "hold", "s", "too fast")])
    lab.close()
    second = labs.new_lab_dir("rtx3060", "llama-3.1-8b")
    assert second.name == "rtx3060-llama-3.1-8b-2"
    create_lab(second, CONFIG).close()
    elsewhere = tmp_path / "elsewhere"
    create_lab(elsewhere, CONFIG, [created("else")]).close()
    labs.remember_lab(elsewhere)
    (paths.labs_dir() / "not a lab").mkdir()
    found = {lab.path: lab for lab in labs.list_labs()}
    assert set(found) == {home, second, elsewhere}
    one = found[home]
    assert (one.experiments, one.kept, one.waiting, one.champions) == (1, 1, 1, {"gqa_decode": 2})
    assert (one.gpu, one.device_kind, one.problem) == ("rtx3060", "static", None)
    assert not any(name.name.endswith(("-wal", "-shm")) for name in home.iterdir())
    (second / "lab.db").write_bytes(b"junk" * 1000)
    broken = next(lab for lab in labs.list_labs() if lab.path == second)
    assert broken.problem is not None
    assert "\n" not in broken.problem


def test_the_lab_that_is_meant_is_found(
    own_world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match="no lab was used yet: start one with `kernel-lab run`"):
        labs.resolve_lab(None)
    for name in ("alpha", "beta"):
        create_lab(paths.labs_dir() / name, CONFIG).close()
    outside = tmp_path / "gamma"
    create_lab(outside, CONFIG).close()
    for folder in (paths.labs_dir() / "alpha", outside, paths.labs_dir() / "beta"):
        labs.remember_lab(folder)
    assert labs.resolve_lab(None) == paths.labs_dir() / "beta"
    assert labs.resolve_lab("alpha") == paths.labs_dir() / "alpha"
    assert labs.resolve_lab("gamma") == outside
    assert labs.resolve_lab(str(outside)) == outside
    monkeypatch.chdir(tmp_path)
    assert labs.resolve_lab("./gamma") == outside
    with pytest.raises(UsageError, match="did you mean alpha"):
        labs.resolve_lab("alpa")
    with pytest.raises(UsageError, match="there is no lab"):
        labs.resolve_lab("/nowhere/at/all")
    (paths.labs_dir() / "beta" / "lab.db").unlink()
    assert labs.last_lab() == outside


@pytest.mark.parametrize("text", ["junk", "[]", '{"labs": 3}', '{"labs": [1, null]}'])
def test_a_damaged_memory_is_no_memory(own_world: Path, text: str) -> None:
    paths.state_dir().mkdir(parents=True)
    (paths.state_dir() / "labs.json").write_text(text)
    assert labs.last_lab() is None
    assert labs.list_labs() == []
    create_lab(paths.labs_dir() / "a", CONFIG).close()
    labs.remember_lab(paths.labs_dir() / "a")
    assert labs.last_lab() == paths.labs_dir() / "a"


def test_names_of_labs_are_safe_as_folders(own_world: Path) -> None:
    folder = labs.new_lab_dir("../../etc", "a b/c;rm")
    assert folder.parent == paths.labs_dir()
    assert folder.name == "etc-a-b-c-rm"


# ---- places ----------------------------------------------------------------------------------------


def test_places_follow_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CONFIG", "DATA", "STATE", "CACHE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", f"/x/{name.lower()}")
    assert paths.config_dir() == Path("/x/config/kernel-lab")
    assert paths.labs_dir() == Path("/x/data/kernel-lab/labs")
    assert paths.state_dir() == Path("/x/state/kernel-lab")
    assert paths.cache_dir() == Path("/x/cache/kernel-lab")
    assert paths.user_profiles_dir("gpus") == Path("/x/config/kernel-lab/profiles/gpus")
    monkeypatch.setenv("XDG_DATA_HOME", "relative")
    monkeypatch.setenv("HOME", "/home/x")
    assert paths.data_dir().is_absolute()
    assert "relative" not in str(paths.data_dir())


# ---- what a lab can do without -----------------------------------------------------------------------


def test_settings_that_were_deleted_are_restored_from_the_ledger(tmp_path: Path) -> None:
    config = LabConfig(gpu="h200", mode="ask", seed=3, budget=7)
    begun = replace(created(), config=config.to_dict())
    create_lab(tmp_path / "lab", config, [begun]).close()
    (tmp_path / "lab" / "lab.toml").unlink()
    assert labs.is_lab(tmp_path / "lab")
    with closing(labs.open_lab(tmp_path / "lab")) as lab:
        assert (lab.config, lab.restored) == (config, True)
    assert labs.read_config(tmp_path / "lab") == config
    with closing(labs.open_lab(tmp_path / "lab")) as lab:
        assert not lab.restored


def test_a_lab_that_never_ran_says_what_to_write(tmp_path: Path) -> None:
    create_lab(tmp_path / "lab", LabConfig(gpu="rtx3060")).close()
    (tmp_path / "lab" / "lab.toml").unlink()
    with pytest.raises(LabFolderError, match="is missing, and the ledger holds no settings"):
        labs.open_lab(tmp_path / "lab")


def test_a_log_keeps_its_end_and_whoever_appends_goes_on(tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    with log.open("ab", buffering=0) as writer:
        writer.write(b"".join(b"line %06d\n" % number for number in range(130_000)))
        labs.bound_log(log)
        writer.write(b"after\n")
    lines = log.read_bytes().splitlines()
    assert log.stat().st_size <= labs.LOG_KEPT_BYTES + 10
    assert lines[-1] == b"after" and lines[-2] == b"line 129999" and lines[0].startswith(b"line ")
    size = log.stat().st_size
    labs.bound_log(log)
    assert log.stat().st_size == size
    labs.bound_log(tmp_path / "no.log")
