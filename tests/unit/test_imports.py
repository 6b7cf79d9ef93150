"""Who may import whom, seen at run time, and what works in an installation without torch."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pexpect
import pytest

ROOT = Path(__file__).resolve().parents[2]
ENGINE_MODULES = sorted(
    f"kernel_lab.{path.relative_to(ROOT).with_suffix('').as_posix().replace('/', '.')}"
    for path in (ROOT / "engine").rglob("*.py")
    if not {"harness", "battery"} & set(path.relative_to(ROOT).parts) and path.name[:2] != "__"
)
BLOCKED = """
import sys
from importlib.machinery import PathFinder
class Core(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        absent = name.partition(".")[0] in ("torch", "triton", "numpy")
        return None if absent else super().find_spec(name, path, target)
sys.meta_path[sys.meta_path.index(PathFinder)] = Core
"""
"""Begins a program in which torch, triton and numpy are not installed."""


def _loaded(code: str, *unwanted: str) -> list[str]:
    """Which of `unwanted` are loaded after `code` ran in a process of its own."""
    tail = f"\nimport sys, json; print(json.dumps([n for n in {unwanted!r} if n in sys.modules]))"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code + tail], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    found: list[str] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_the_engine_loads_neither_torch_nor_a_user_interface() -> None:
    imports = "\n".join(f"import {name}" for name in ENGINE_MODULES)
    assert ENGINE_MODULES
    assert _loaded(imports, "torch", "triton", "numpy", "textual", "rich", "kernel_lab.tui") == []


def test_importing_the_engine_alone_loads_next_to_nothing() -> None:
    assert (
        _loaded("import kernel_lab.engine", "torch", "textual", "optuna", "git", "sqlite3", "asyncio") == []
    )


def test_a_lab_without_a_screen_loads_no_textual() -> None:
    code = "import kernel_lab.tui.cli_run, kernel_lab.tui.headless, kernel_lab.tui.narrator"
    assert _loaded(code, "textual", "rich", "torch", "triton", "kernel_lab.tui.app") == []


@pytest.mark.parametrize(
    "command", ["results", "labs", "ideas", "bottleneck", "context", "show 2", "diff 2", "profiles", "paths"]
)
def test_reading_commands_load_neither_textual_nor_torch(command: str, recorded_lab: Path) -> None:
    code = (
        "import io, contextlib\nfrom kernel_lab.tui.cli import main\n"
        f"with contextlib.redirect_stdout(io.StringIO()): assert main({command.split()!r}) == 0"
    )
    assert _loaded(code, "textual", "rich", "torch", "triton", "optuna") == []


def test_import_contracts_hold() -> None:
    tool = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([str(tool)], cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


# ---- without torch ----------------------------------------------------------------------------------


def _without_torch(*arguments: str) -> subprocess.CompletedProcess[str]:
    code = f"{BLOCKED}\nfrom kernel_lab.tui.cli import main\nsys.exit(main({list(arguments)!r}))"
    return subprocess.run(
        [sys.executable, "-P", "-c", code],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_without_torch_labs_are_listed_and_replayed(recorded_lab: Path) -> None:
    listed = _without_torch("labs", "--json")
    assert listed.returncode == 0, listed.stderr
    assert json.loads(listed.stdout)["labs"][0]["name"] == "lab"
    replayed = _without_torch("replay", str(recorded_lab), "--json")
    assert replayed.returncode == 0, replayed.stderr
    assert json.loads(replayed.stdout.splitlines()[0])["type"] == "lab_created"


def test_without_torch_a_run_says_what_to_install(own_world: Path) -> None:
    refused = _without_torch("run", "--headless")
    assert refused.returncode == 2
    assert refused.stderr.count("\n") == 1 and "pip install 'kernel-lab[gpu]'" in refused.stderr


@pytest.mark.parametrize("arguments", [[], ["replay", "lab"]])
def test_without_torch_the_screen_opens(arguments: list[str], recorded_lab: Path) -> None:
    code = f"{BLOCKED}\nfrom kernel_lab.tui.cli import main\nsys.exit(main({arguments!r}))"
    environment = {**os.environ, "TERM": "xterm-256color", "LANG": "C.UTF-8"}
    screen = pexpect.spawn(
        sys.executable, ["-P", "-c", code], env=environment, dimensions=(30, 120), encoding="utf-8"
    )
    try:
        assert "rtx3060" in _shown(screen, until="rtx3060")
    finally:
        screen.close(force=True)


def _shown(screen: pexpect.spawn, until: str, seconds: float = 60) -> str:
    """Text that a program drew, without escape sequences, up to the moment when `until` is in it."""
    drawn, plain, deadline = "", "", time.monotonic() + seconds
    while until not in plain and time.monotonic() < deadline and screen.isalive():
        with contextlib.suppress(pexpect.TIMEOUT, pexpect.EOF):
            drawn += screen.read_nonblocking(100_000, timeout=1)
        plain = re.sub(r"\x1b(\[[0-9;?<>]*[a-zA-Z]|\][^\x07]*\x07)", "", drawn)
    return plain
