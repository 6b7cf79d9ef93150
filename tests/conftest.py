"""Every test runs in a world of its own: no user's labs, keys or git settings, no network, no GPU assumed."""

from __future__ import annotations

import functools
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

_XDG = ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR")
_UNSET = (
    *("NO_COLOR", "FORCE_COLOR", "COLORTERM", "COLUMNS", "LINES"),  # some runners set a size of their own
    *("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENROUTER_API_KEY"),
)
_LOOPBACK = ("127.", "localhost", "::1", "0.0.0.0")  # noqa: S104  compared with, never bound
_world: Path | None = None

Cli = Callable[..., subprocess.CompletedProcess[str]]


def pytest_configure(config: pytest.Config) -> None:
    """Set the environment before any test module is imported; children of tests inherit it."""
    global _world
    _world = Path(tempfile.mkdtemp(prefix="kernel-lab-tests-"))
    for name in _XDG:
        folder = _world / name.lower()
        folder.mkdir(mode=0o700)
        os.environ[name] = str(folder)
    for name in [*_UNSET, *(key for key in os.environ if key.startswith("KERNEL_LAB_"))]:
        os.environ.pop(name, None)
    os.environ["KERNEL_LAB_SELFTEST"] = "off"  # engines that tests start have other work
    os.environ["GIT_CONFIG_GLOBAL"] = os.devnull
    os.environ["GIT_CONFIG_NOSYSTEM"] = "1"
    # Programs that tests start cannot be watched: what honours a proxy meets a closed door.
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        os.environ[name] = "http://127.0.0.1:9"
    os.environ["no_proxy"] = os.environ["NO_PROXY"] = "127.0.0.1,localhost,::1"


def pytest_unconfigure(config: pytest.Config) -> None:
    if _world is not None:
        shutil.rmtree(_world, ignore_errors=True)


@functools.cache
def has_gpu() -> bool:
    """Whether an NVIDIA driver answers; asked of the driver's own tool, so that no test loads CUDA."""
    if shutil.which("nvidia-smi") is None:
        return False
    try:
        answer = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return answer.returncode == 0 and "GPU " in answer.stdout


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if any(item.get_closest_marker("gpu") for item in items) and not has_gpu():
        for item in items:
            if item.get_closest_marker("gpu"):
                item.add_marker(pytest.mark.skip(reason="no CUDA GPU here"))


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only loopback and local sockets: a test that needs the outside is a wrong test."""
    connect = socket.socket.connect

    def guarded(self: socket.socket, address: Any) -> None:
        host = address[0] if isinstance(address, tuple) else ""
        if self.family in (socket.AF_INET, socket.AF_INET6) and not str(host).startswith(_LOOPBACK):
            raise AssertionError(f"a test reached for the network: {address!r}")
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", guarded)


@pytest.fixture
def own_world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Settings, labs, state and cache of one test alone, also for the programs that it starts."""
    for name in _XDG:
        folder = tmp_path / "xdg" / name.lower()
        folder.mkdir(parents=True, mode=0o700)
        monkeypatch.setenv(name, str(folder))
    return tmp_path / "xdg"


@pytest.fixture
def cli(own_world: Path, tmp_path: Path) -> Cli:
    """Runs `kernel-lab` as a person would, without a terminal, in an empty folder and a world of its own."""
    folder = tmp_path / "cwd"
    folder.mkdir(exist_ok=True)

    def run(*arguments: str | Path, timeout: float = 60, **settings: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-P", "-m", "kernel_lab.tui.cli", *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
            cwd=settings.pop("cwd", folder),
            **settings,
        )

    return run


@dataclass(frozen=True, slots=True)
class Said:
    """What a command printed and its exit status."""

    status: int
    out: str
    err: str

    @property
    def line(self) -> str:
        """The one line on standard error of a command that failed."""
        lines = self.err.splitlines()
        assert len(lines) == 1, self.err
        assert lines[0].startswith("kernel-lab: ")
        return lines[0].removeprefix("kernel-lab: ")


@pytest.fixture
def kernel_lab(
    own_world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Said]:
    """Runs `kernel-lab` in this process, in an empty folder and a world of its own."""
    from kernel_lab.tui.cli import main

    folder = tmp_path / "cwd"
    folder.mkdir(exist_ok=True)
    monkeypatch.chdir(folder)

    def run(*arguments: str | Path) -> Said:
        capsys.readouterr()
        status = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Said(status, captured.out, captured.err)

    return run
