"""One engine for a lab: a file lock that dies with its process, and the name of who holds it."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kernel_lab.engine.errors import DiskFull, LabBusy, LabReadOnly

LOCK = "engine.lock"


class EngineLock:
    """The right to write a lab's events, held from `acquire` until `release` or the end of the process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._file: int | None = None

    def acquire(self) -> None:
        """Raises LabBusy, naming the process that owns the lab."""
        path = self.folder / LOCK
        try:
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as problem:
            raise LabReadOnly(
                f"lab {self.folder} cannot be written: make its folder writable, or copy the lab elsewhere"
            ) from problem
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as problem:
            os.close(file)
            owner = _read(path).get("pid")
            by = f"process {owner}" if owner else "another process"
            name = self.folder.name
            raise LabBusy(
                f"lab {name} is already run by {by}: open it with `kernel-lab open {name}`"
            ) from problem
        # Where the lab lies and the number of this file: in a copy both are others, and nobody runs the copy.
        own = {
            "pid": os.getpid(),
            "started": start_of(os.getpid()),
            "folder": str(self.folder.resolve()),
            "file": os.fstat(file).st_ino,
        }
        try:
            os.ftruncate(file, 0)
            os.pwrite(file, json.dumps(own).encode(), 0)
        except OSError as problem:
            os.close(file)
            raise DiskFull(
                f"lab {self.folder} cannot be locked ({problem.strerror}), nothing written so far is lost: "
                "free some space and start again"
            ) from problem
        self._file = file

    def release(self) -> None:
        if self._file is not None:
            os.ftruncate(self._file, 0)
            os.close(self._file)
            self._file = None

    def __enter__(self) -> EngineLock:
        self.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def engine_pid(folder: Path) -> int | None:
    """The process that owns the lab, or None. Asks without taking the lock, so that no start is disturbed."""
    owner = _read(folder / LOCK)
    pid = owner.get("pid")
    if not isinstance(pid, int) or _is_copy(folder, owner):
        return None
    started = start_of(pid)
    return pid if started is not None and started == owner.get("started") else None


def _is_copy(folder: Path, owner: Mapping[str, Any]) -> bool:
    """A lab that was moved keeps its lock file, and some file systems change numbers: both must differ."""
    try:
        moved = owner.get("folder", str(folder.resolve())) != str(folder.resolve())
        return moved and owner.get("file") != (folder / LOCK).stat().st_ino
    except OSError:
        return False


def start_of(pid: int) -> str | None:
    """When a process started, as a text that tells it from a later namesake; None if it ended."""
    try:
        # The name in parentheses may hold spaces and parentheses: fields are counted behind the last one.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return None if fields[0] in "ZX" else fields[19]
    except FileNotFoundError:
        if Path("/proc/self/stat").exists():
            return None
    except OSError:
        return None
    found = subprocess.run(
        ["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return found.stdout.strip() or None


def _read(path: Path) -> dict[str, Any]:
    try:
        owner = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return owner if isinstance(owner, dict) else {}
