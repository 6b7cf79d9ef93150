"""Bad input, as a person gives it: one clear line that ends in the remedy, no traceback, nothing lost."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kernel_lab.engine.tasks import load_task

KernelLab = Callable[..., Any]


def _files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# ---- words ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("run --headless --task gqa_decod", 'unknown task "gqa_decod"'),
        ("run --headless --gpu rtx3061", 'unknown GPU "rtx3061"'),
        ("run --headless --model llama-9", 'unknown model "llama-9"'),
        ("run --headless --proposer oracle", "there is no proposer 'oracle'"),
        ("run --headless --proposer anthropic --agent-key NOT_SET", "NOT_SET is not set"),
        ("run --headless --proposer openai --agent-url http://127.0.0.1:1/v1", "name it with --agent-model"),
        ("run --headless --proposer openai --agent-url ftp://x", "give an address such as"),
        ("run --headless --proposer command", "which program?"),
        ("run --headless --budget -1", "give 1 or more"),
        ("results --lab nowhere", "there is no lab 'nowhere'"),
        ("open nowhere --json", "there is no lab 'nowhere'"),
        ("replay nowhere --json", "there is no lab 'nowhere'"),
        ("say hello --lab nowhere", "there is no lab 'nowhere'"),
        ("results", "no lab was used yet: start one with `kernel-lab run`"),
        ("check x.py --task nope", 'unknown task "nope"'),
        ("bench --task gqa_decode --gpu nope", 'unknown GPU "nope"'),
        ("bench --task gqa_decode --model nope", 'unknown model "nope"'),
    ],
)
def test_an_unknown_word_is_named_and_nothing_is_made(
    arguments: str, said: str, kernel_lab: KernelLab, own_world: Path
) -> None:
    answer = kernel_lab(*arguments.split())
    assert answer.status == 2
    assert said in answer.line
    assert not _files(own_world)
    assert not list(Path.cwd().iterdir())


def test_a_traceback_is_never_shown(cli: Callable[..., Any]) -> None:
    done = cli("run", "--headless", "--gpu", "nope")
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.startswith("kernel-lab: unknown GPU") and done.stderr.count("\n") == 1


# ---- no terminal ------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [[], ["run"], ["run", "--seed", "3"]])
def test_without_a_terminal_the_screen_says_what_to_use(
    arguments: list[str], cli: Callable[..., Any], own_world: Path
) -> None:
    done = cli(*arguments)
    assert done.returncode == 2
    assert "the screen needs a terminal" in done.stderr and "--headless" in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (own_world / "xdg_data_home" / "kernel-lab").exists()


# ---- candidate files --------------------------------------------------------------------------------


def _missing(folder: Path) -> Path:
    return folder / "missing.py"


def _directory(folder: Path) -> Path:
    path = folder / "folder.py"
    path.mkdir()
    return path


def _latin(folder: Path) -> Path:
    path = folder / "latin.py"
    path.write_bytes(b"# caf\xe9\n")
    return path


def _large(folder: Path) -> Path:
    path = folder / "large.py"
    path.write_bytes(b"#" * (1_000_001 + 48_576))
    return path


def _symlink_out(folder: Path) -> Path:
    outside = folder / "outside.py"
    outside.write_text("SPACE = {}\n")
    inside = folder / "inside"
    inside.mkdir()
    path = inside / "link.py"
    path.symlink_to(outside)
    return path


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (_missing, "does not exist"),
        (_directory, "is a directory"),
        (_latin, "is not UTF-8"),
        (_large, "is over 1 MB"),
        (_symlink_out, "is a symlink out of its folder"),
    ],
)
@pytest.mark.parametrize("command", ["check", "bench", "run"])
def test_a_path_that_is_no_candidate_file_is_wrong_use(
    command: str, make: Callable[[Path], Path], said: str, kernel_lab: KernelLab, tmp_path: Path
) -> None:
    path = make(tmp_path)
    words = ["run", "--headless", "--from", path] if command == "run" else [command, path]
    answer = kernel_lab(*words, "--task", "gqa_decode")
    assert answer.status == 2
    assert said in answer.line
    assert answer.out == ""


def _broken(seed: str) -> str:
    return seed.replace("def decode(", "def decode((", 1)


def _without_entry(seed: str) -> str:
    return seed.replace("def decode(", "def encode(", 1)


def _outside_space(seed: str) -> str:
    name = json.dumps(next(iter(_literal(seed, "SPACE"))))
    return seed + f"\nCONFIG = {{'*': {{{name}: 12345}}}}\n"


def _literal(source: str, name: str) -> dict[str, Any]:
    import ast

    for node in ast.parse(source).body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            return dict(ast.literal_eval(node.value))  # type: ignore[attr-defined]
    raise AssertionError(f"the seed has no {name}")


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (_broken, "line"),
        (_without_entry, "decode"),
        (_outside_space, "CONFIG"),
        (lambda seed: "", "empty"),
        (lambda seed: seed + "\0", "NUL"),
    ],
)
@pytest.mark.parametrize("command", ["check", "bench"])
def test_a_file_that_is_no_candidate_is_turned_down_as_invalid(
    command: str, spoil: Callable[[str], str], said: str, kernel_lab: KernelLab, tmp_path: Path
) -> None:
    path = tmp_path / "candidate.py"
    path.write_text(spoil(load_task("gqa_decode").seed_source))
    answer = kernel_lab(command, path, "--task", "gqa_decode", "--json")
    assert answer.status == 1, answer.err
    found = json.loads(answer.out)
    assert found["verdict"] == "invalid"
    assert said in found["reasons"][0]["detail"]
    assert found["speed"] is None and found["checks"] == []
    plain = kernel_lab(command, path, "--task", "gqa_decode")
    assert plain.status == 1 and plain.out.splitlines()[-1] == "verdict: invalid"


# ---- lab folders ------------------------------------------------------------------------------------


def test_a_foreign_folder_is_left_as_it_is(kernel_lab: KernelLab, tmp_path: Path) -> None:
    folder = tmp_path / "thesis"
    folder.mkdir()
    (folder / "chapter1.tex").write_text("precious")
    answer = kernel_lab("run", "--headless", "--lab", folder)
    assert answer.status == 2
    assert (
        "holds other files ('chapter1.tex')" in answer.line and "name an empty or a new folder" in answer.line
    )
    assert _files(folder) == {"chapter1.tex": b"precious"}


def test_a_file_where_a_lab_should_go_is_refused(kernel_lab: KernelLab, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    answer = kernel_lab("run", "--headless", "--lab", tmp_path / "file")
    assert answer.status == 2 and "is a file" in answer.line


def test_a_ledger_of_a_newer_version_is_refused_and_kept(kernel_lab: KernelLab, recorded_lab: Path) -> None:
    connection = sqlite3.connect(recorded_lab / "lab.db")
    connection.execute("PRAGMA user_version = 999")
    connection.close()
    before = (recorded_lab / "lab.db").read_bytes()
    for arguments in (["results"], ["say", "x"], ["run", "--headless"]):
        answer = kernel_lab(*arguments)
        assert answer.status == 2, arguments
        assert "newer" in answer.line and "update" in answer.line, answer.line
    assert (recorded_lab / "lab.db").read_bytes() == before


def test_a_ledger_that_is_no_database_is_one_line(kernel_lab: KernelLab, recorded_lab: Path) -> None:
    (recorded_lab / "lab.db").write_bytes(b"garbage" * 4096)
    answer = kernel_lab("results")
    assert answer.status == 2 and "lab.db" in answer.line


def test_wrong_settings_name_file_and_line(kernel_lab: KernelLab, recorded_lab: Path) -> None:
    settings = recorded_lab / "lab.toml"
    settings.write_text(settings.read_text().replace("budget = 12", "budget = -12"))
    answer = kernel_lab("run", "--headless")
    assert answer.status == 2
    assert "lab.toml:" in answer.line and "budget is -12" in answer.line


def test_a_read_only_lab_can_be_read_and_is_not_written(recorded_lab: Path, tmp_path: Path) -> None:
    run = _in_read_only(recorded_lab)
    refused = run("run", "--headless", "--lab", str(recorded_lab))
    assert refused.returncode == 2, refused.stderr
    assert "cannot be written" in refused.stderr and "copy the lab elsewhere" in refused.stderr
    assert refused.stderr.count("\n") == 1
    said = run("say", "hello", "--lab", str(recorded_lab))
    assert said.returncode == 2 and "cannot be written" in said.stderr
    read = run("results", "--json", "--lab", str(recorded_lab))
    assert read.returncode == 0, read.stderr
    assert json.loads(read.stdout)["champions"] == {"gqa_decode": 2}


def test_a_new_lab_in_a_read_only_folder_is_refused(tmp_path: Path, own_world: Path) -> None:
    folder = tmp_path / "closed"
    folder.mkdir()
    refused = _in_read_only(folder)("run", "--headless", "--lab", str(folder / "lab"))
    assert refused.returncode == 2
    assert "cannot be written" in refused.stderr and "name another folder with --lab" in refused.stderr


def _in_read_only(folder: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs `kernel-lab` where `folder` is read-only, also for root, to whom permissions do not apply."""
    command = [sys.executable, "-P", "-m", "kernel_lab.tui.cli"]
    if os.geteuid() != 0:
        for path in [folder, *folder.rglob("*")]:
            path.chmod(0o555 if path.is_dir() else 0o444)
        wrapped = command
    else:
        script = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"'
        wrapped = ["unshare", "--mount", "sh", "-c", script, str(folder), *command]
        probe = ["unshare", "--mount", "sh", "-c", script, str(folder), "true"]
        if (
            shutil.which("unshare") is None
            or subprocess.run(probe, capture_output=True, check=False).returncode
        ):
            pytest.skip("root without the right to mount: no folder can be made read-only here")

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*wrapped, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return run
