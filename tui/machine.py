"""What this machine has, asked without loading anything heavy: the GPU through the driver's own tool, torch
and triton through their installed metadata, the compilers inside triton's wheel.

Nothing here imports torch or triton or touches CUDA.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kernel_lab.engine.errors import EnvironmentProblem

TORCH_AT_LEAST = (2, 11)
TRITON_AT_LEAST = (3, 6)
NVIDIA_SMI_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class Gpu:
    """One NVIDIA GPU as the driver names it."""

    index: int
    name: str
    memory_mib: int
    driver: str


def gpus() -> list[Gpu]:
    """The GPUs that the driver reports; an empty list where there is no driver or it does not answer."""
    answer = tool_output(
        ["nvidia-smi", "--query-gpu=index,name,memory.total,driver_version", "--format=csv,noheader,nounits"]
    )
    found = []
    for line in (answer or "").splitlines():
        parts = [part.strip() for part in line.split(",")]
        if len(parts) == 4 and parts[0].isdigit():
            memory = int(parts[2]) if parts[2].isdigit() else 0
            found.append(Gpu(int(parts[0]), parts[1], memory, parts[3]))
    return found


def tool_output(command: Sequence[str], timeout_s: float = NVIDIA_SMI_TIMEOUT_S) -> str | None:
    """What a program prints; None if it is not there, fails, or does not answer in time."""
    if shutil.which(command[0]) is None and not Path(command[0]).is_file():
        return None
    try:
        done = subprocess.run(
            list(command),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def installed_version(package: str) -> str | None:
    """Version of an importable package from its metadata; None if it cannot be imported here."""
    if importlib.util.find_spec(package) is None:
        return None
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def at_least(version: str, least: tuple[int, int]) -> bool:
    """Whether `2.13.0+cpu` is at least `(2, 11)`."""
    numbers = re.match(r"(\d+)\.(\d+)", version)
    return numbers is not None and (int(numbers[1]), int(numbers[2])) >= least


def triton_tool(name: str) -> Path | None:
    """Path of `ptxas` or `nvdisasm` inside the installed triton, without importing it."""
    spec = importlib.util.find_spec("triton")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(folder) / "backends" / "nvidia" / "bin" / name
        if path.is_file():
            return path
    return None


def require_compiler() -> None:
    """Raise EnvironmentProblem, with what to do, unless candidates can be compiled here."""
    if sys.platform == "darwin":
        raise EnvironmentProblem(
            "triton does not exist for macOS, so nothing can be compiled here: "
            "`kernel-lab replay` and watching labs work; run labs on Linux"
        )
    if sys.platform == "win32":
        raise EnvironmentProblem(
            "triton does not run on Windows itself, so nothing can be compiled here: "
            "install kernel-lab inside WSL2; `kernel-lab replay` works"
        )
    for package, least in (("torch", TORCH_AT_LEAST), ("triton", TRITON_AT_LEAST)):
        version = installed_version(package)
        wanted = ".".join(map(str, least))
        if version is None:
            raise EnvironmentProblem(
                f"{package} is not installed, so nothing can be compiled here: "
                f"run `pip install 'kernel-lab[gpu]'` (it needs {package} {wanted} or newer)"
            )
        if not at_least(version, least):
            raise EnvironmentProblem(
                f"{package} {version} is too old: run `pip install --upgrade 'kernel-lab[gpu]'` "
                f"(it needs {package} {wanted} or newer)"
            )


def require_terminal(
    instead: str = "`kernel-lab run --headless`, or a command of `kernel-lab --help`",
) -> None:
    """Raise EnvironmentProblem, naming what to use instead, unless a screen can be drawn and keys read."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise EnvironmentProblem(f"the screen needs a terminal and there is none here: use {instead}")
