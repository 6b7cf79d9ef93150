"""`run`: which lab is meant, what it is set to, and what may change later. No engine starts here."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kernel_lab.engine import session
from kernel_lab.engine.commands import SetMode
from kernel_lab.engine.lab import LabConfig, open_lab, read_config
from kernel_lab.engine.tasks import load_task
from kernel_lab.tui import cli_run, headless, machine

KernelLab = Callable[..., Any]


class Started:
    """Labs whose engine or screen would have been started, in order."""

    def __init__(self) -> None:
        self.engines: list[Path] = []
        self.followed: list[tuple[Path, int, bool]] = []
        self.screens: list[tuple[Path | None, bool, bool]] = []


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Started:
    seen = Started()

    def start_engine(path: Path) -> int:
        seen.engines.append(path)
        return 4711

    def follow(path: Path, after: int, *, as_json: bool) -> int:
        seen.followed.append((path, after, as_json))
        return 0

    def screen(path: Path | None, *, start_engine: bool = False, replay: bool = False) -> int:
        seen.screens.append((path, start_engine, replay))
        return 0

    monkeypatch.setattr(session, "start_engine", start_engine)
    monkeypatch.setattr(headless, "follow", follow)
    monkeypatch.setattr(cli_run, "_screen", screen)
    monkeypatch.setattr(machine, "gpus", list)
    monkeypatch.setattr(machine, "installed_version", lambda name: "9.9")
    return seen


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "require_terminal", lambda *instead: None)


def test_defaults_without_a_screen(kernel_lab: KernelLab, started: Started, own_world: Path) -> None:
    answer = kernel_lab("run", "--headless")
    assert answer.status == 0, answer.err
    (path,) = started.engines
    assert path == own_world / "xdg_data_home" / "kernel-lab" / "labs" / "rtx3060-llama-3.1-8b"
    assert read_config(path) == LabConfig(
        gpu="rtx3060",
        model="llama-3.1-8b",
        tasks=("gqa_decode", "gqa_prefill"),
        proposer="search",
        mode="auto",
        seed=0,
        budget=12,
    )
    assert started.followed == [(path, 0, False)]
    assert "no GPU found here: " in answer.err and "estimates" in answer.err
    assert f"lab {path}" in answer.out


def test_defaults_with_a_screen(kernel_lab: KernelLab, started: Started, terminal: None) -> None:
    assert kernel_lab("run").status == 0
    ((path, start_engine, replay),) = started.screens
    assert path is not None and start_engine and not replay
    config = read_config(path)
    assert (config.mode, config.budget, config.tasks) == ("wins", None, ("gqa_decode", "gqa_prefill"))
    assert not started.engines, "the screen starts the engine itself"


def test_every_option_reaches_the_lab(kernel_lab: KernelLab, started: Started, tmp_path: Path) -> None:
    answer = kernel_lab(
        *"run --headless --json --gpu h200 --model llama-3.1-8b --task gqa_prefill --proposer folder".split(),
        *"--mode ask --budget 3 --trials 4 --hours 0.5 --usd 1.5 --tokens 1000 --seed 7 --lab".split(),
        tmp_path / "mine",
    )
    assert answer.status == 0, answer.err
    assert read_config(tmp_path / "mine") == LabConfig(
        gpu="h200",
        model="llama-3.1-8b",
        tasks=("gqa_prefill",),
        proposer="folder",
        mode="ask",
        seed=7,
        budget=3,
        trials=4,
        hours=0.5,
        usd=1.5,
        tokens=1000,
    )
    assert started.followed == [(tmp_path / "mine", 0, True)]
    assert answer.out == "", "standard output is for events alone"


def test_a_gpu_that_is_here_is_measured_on(
    kernel_lab: KernelLab, started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "gpus", lambda: [machine.Gpu(0, "NVIDIA H200", 143_771, "570.1")])
    answer = kernel_lab("run", "--headless")
    config = read_config(started.engines[0])
    assert (config.gpu, config.device) == ("h200", "measured")
    assert "in this machine: values are checked and speeds measured on it" in answer.err


def test_a_gpu_that_is_named_but_not_here_is_static(
    kernel_lab: KernelLab, started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "gpus", lambda: [machine.Gpu(0, "NVIDIA H200", 143_771, "570.1")])
    kernel_lab("run", "--headless", "--gpu", "rtx3060")
    config = read_config(started.engines[0])
    assert (config.gpu, config.device) == ("rtx3060", "static")


def test_a_gpu_without_a_profile_falls_back(
    kernel_lab: KernelLab, started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "gpus", lambda: [machine.Gpu(0, "Tesla M60", 8192, "470.1")])
    answer = kernel_lab("run", "--headless", "--gpu", "auto")
    assert read_config(started.engines[0]).gpu == "rtx3060"
    assert "found Tesla M60, which no profile describes" in answer.err


def test_run_alone_resumes_the_last_lab_and_options_that_define_one_begin_another(
    kernel_lab: KernelLab, started: Started
) -> None:
    for arguments in ([], [], ["--budget", "20"], ["--seed", "0"], ["--task", "gqa_decode"]):
        assert kernel_lab("run", "--headless", *arguments).status == 0
    assert [path.name.removeprefix("rtx3060-llama-3.1-8b") for path in started.engines] == [
        "",
        "",
        "",
        "-2",
        "-3",
    ]
    assert read_config(started.engines[0]).budget == 20


def test_detach_returns_with_the_lab(kernel_lab: KernelLab, started: Started) -> None:
    answer = kernel_lab("run", "--detach", "--seed", "1")
    assert Path(answer.out.strip()) == started.engines[0]
    assert "process 4711" in answer.err and not started.followed
    found = json.loads(kernel_lab("run", "--detach", "--json", "--seed", "2").out)
    assert found == {"lab": str(started.engines[1]), "pid": 4711}


def test_a_running_lab_is_joined_and_not_changed(
    kernel_lab: KernelLab, started: Started, recorded_lab: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "engine_pid", lambda path: 99)
    answer = kernel_lab("run", "--headless")
    assert answer.status == 0 and "joining" in answer.err
    assert not started.engines and started.followed[0][0] == recorded_lab
    changed = kernel_lab("run", "--headless", "--budget", "30")
    assert changed.status == 2 and "process 99 runs" in changed.line and "--budget" in changed.line
    assert read_config(recorded_lab).budget == 12


def test_a_resumed_lab_is_followed_from_where_it_stands(
    kernel_lab: KernelLab, started: Started, recorded_lab: Path
) -> None:
    assert kernel_lab("run", "--headless", "--lab", recorded_lab, "--trials", "5").status == 0
    assert started.followed == [(recorded_lab, 27, False)]
    config = read_config(recorded_lab)
    assert (config.trials, config.budget, config.mode) == (5, 12, "wins")


def test_a_mode_given_on_resume_is_a_command(
    kernel_lab: KernelLab, started: Started, recorded_lab: Path
) -> None:
    assert kernel_lab("run", "--headless", "--mode", "auto").status == 0
    lab = open_lab(recorded_lab, readonly=True)
    assert [row.command for row in lab.ledger.pending_commands()] == [SetMode("auto")]
    lab.close()


def test_a_person_at_the_screen_lifts_a_budget_that_is_spent(
    kernel_lab: KernelLab, started: Started, terminal: None, recorded_lab: Path
) -> None:
    lab = open_lab(recorded_lab)
    lab.close()
    kernel_lab("run", "--headless", "--budget", "2")
    assert read_config(recorded_lab).budget == 2
    kernel_lab("run", "--headless")
    assert read_config(recorded_lab).budget == 2
    kernel_lab("run")
    assert read_config(recorded_lab).budget is None


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("--gpu h200", "is a lab with --gpu rtx3060, not h200"),
        ("--task gqa_prefill", "is a lab with --task gqa_decode, not gqa_prefill"),
        ("--seed 3", "is a lab with --seed 0, not 3"),
    ],
)
def test_what_a_lab_is_about_cannot_be_changed(
    arguments: str, said: str, kernel_lab: KernelLab, started: Started, recorded_lab: Path
) -> None:
    before = (recorded_lab / "lab.toml").read_bytes()
    answer = kernel_lab("run", "--headless", "--lab", recorded_lab, *arguments.split())
    assert answer.status == 2
    assert said in answer.line and answer.line.endswith("start another with --lab and a new folder")
    assert (recorded_lab / "lab.toml").read_bytes() == before and not started.engines


@pytest.mark.parametrize("command", ["/nonexistent --x", "no-such-program-7"])
def test_an_agent_program_that_is_not_there_starts_no_lab(
    kernel_lab: KernelLab, started: Started, tmp_path: Path, command: str
) -> None:
    lab = tmp_path / "lab"
    answer = kernel_lab("run", "--headless", "--lab", lab, "--proposer", f"command:{command}")
    assert answer.status == 2
    assert answer.line == (f"no program {command.split()[0]!r} can be started: install it or name its path")
    assert not lab.exists() and not started.engines


def test_the_same_words_again_are_no_change(
    kernel_lab: KernelLab, started: Started, recorded_lab: Path
) -> None:
    words = "--gpu rtx3060 --model llama-3.1-8b --task gqa_decode --seed 0".split()
    assert kernel_lab("run", "--headless", "--lab", recorded_lab, *words).status == 0
    assert kernel_lab("run", "--headless", "--lab", recorded_lab, "--gpu", "auto").status == 0


def test_a_kernel_of_ones_own_chooses_its_task(
    kernel_lab: KernelLab, started: Started, tmp_path: Path
) -> None:
    own = tmp_path / "own.py"
    own.write_text(load_task("gqa_prefill").seed_source)
    assert kernel_lab("run", "--headless", "--from", own).status == 0
    config = read_config(started.engines[0])
    assert (config.tasks, config.from_file) == (("gqa_prefill",), str(own))


def test_a_kernel_for_another_task_is_refused_as_invalid(
    kernel_lab: KernelLab, started: Started, tmp_path: Path
) -> None:
    own = tmp_path / "own.py"
    own.write_text(load_task("gqa_prefill").seed_source)
    answer = kernel_lab("run", "--headless", "--from", own, "--task", "gqa_decode")
    assert answer.status == 1 and "decode" in answer.line
    assert not started.engines


def test_open_and_replay_show_a_lab_without_starting_anything(
    kernel_lab: KernelLab, started: Started, terminal: None, recorded_lab: Path
) -> None:
    assert kernel_lab("open").status == kernel_lab("open", "lab").status == 0
    assert kernel_lab("replay", recorded_lab).status == kernel_lab().status == 0
    assert started.screens == [
        (recorded_lab, False, False),
        (recorded_lab, False, False),
        (recorded_lab, False, True),
        (None, False, False),
    ]


@pytest.mark.parametrize(
    ("platform", "said"),
    [("darwin", "triton does not exist for macOS"), ("win32", "triton does not run on Windows itself")],
)
def test_where_triton_is_not_a_lab_says_why_and_a_replay_works(
    platform: str,
    said: str,
    kernel_lab: KernelLab,
    started: Started,
    recorded_lab: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kernel_lab.tui.machine.sys.platform", platform)
    answer = kernel_lab("run", "--headless", "--seed", "1")
    assert answer.status == 2 and answer.line.startswith(said) and "replay" in answer.line
    assert not started.engines
    assert kernel_lab("replay", recorded_lab, "--json").status == 0


@pytest.mark.parametrize("package", ["torch", "triton"])
def test_a_missing_package_names_what_to_install(
    package: str, kernel_lab: KernelLab, started: Started, monkeypatch: pytest.MonkeyPatch, own_world: Path
) -> None:
    def version(name: str) -> str | None:
        return None if name == package else "9.9"

    monkeypatch.setattr(machine, "installed_version", version)
    answer = kernel_lab("run", "--headless")
    assert answer.status == 2
    assert f"{package} is not installed" in answer.line and "pip install 'kernel-lab[gpu]'" in answer.line
    assert not (own_world / "xdg_data_home" / "kernel-lab").exists(), "nothing was made"


def test_a_task_folder_with_a_shipped_name_stays_the_folder_that_was_named(tmp_path: Path) -> None:
    import shutil

    from kernel_lab.engine.tasks import load_task
    from kernel_lab.tui.cli_run import _task_word

    shipped = load_task("gqa_decode")
    own = shutil.copytree(shipped.folder, tmp_path / "gqa_decode")
    assert _task_word(load_task(own)) == str(own)
    assert _task_word(shipped) == "gqa_decode"
