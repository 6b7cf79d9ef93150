"""One measurement at a time on each card of this machine, whoever runs it.

A file for each card, by its UUID, in a folder that all users of the machine share, locked with flock: the
lock goes with the process that holds it. The file names the holder for people.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import stat
import tempfile
from pathlib import Path
from typing import Any

from kernel_lab.engine.errors import CardBusy, EnvironmentProblem

FOLDERS = ("/run/lock", "/var/lock", "/dev/shm")  # noqa: S108 (shared by all users, on purpose)
HOLDER_BYTES = 4096
_PREFIX = "kernel-lab-card-"


def lock_folder() -> Path:
    """The same folder for every user: the first that all may write, else the system's temporary one."""
    for name in FOLDERS:
        with contextlib.suppress(OSError):
            mode = Path(name).stat().st_mode
            if stat.S_ISDIR(mode) and mode & stat.S_IWOTH:
                return Path(name)
    return Path(tempfile.gettempdir())


class CardLock:
    """The right to measure on one card, held from `acquire` until `release` or the end of the process."""

    def __init__(self, uuid: str, who: str, folder: Path | None = None) -> None:
        """`who` tells people what runs: a lab's name, a command."""
        safe = re.sub(r"[^A-Za-z0-9-]", "_", uuid)[:80]
        self.path = (folder or lock_folder()) / f"{_PREFIX}{safe}.lock"
        self._who = who
        self._file: int | None = None

    @property
    def held(self) -> bool:
        return self._file is not None

    def acquire(self) -> None:
        """Raises CardBusy, naming the holder, while another process measures on the card."""
        if self._file is not None:
            return
        file = self._open()
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(file)
            raise CardBusy(
                f"the card is measured by {holder_text(self.holder())}: wait for its end, or stop it"
            ) from None
        own = {"pid": os.getpid(), "who": self._who[:200]}
        with contextlib.suppress(OSError):  # a file of another user's can be locked, and not written
            os.ftruncate(file, 0)
            os.pwrite(file, json.dumps(own).encode(), 0)
        self._file = file

    def _open(self) -> int:
        flags = os.O_CLOEXEC | os.O_NOFOLLOW
        for attempt in (os.O_RDWR, os.O_RDONLY, os.O_RDWR | os.O_CREAT | os.O_EXCL, os.O_RDONLY):
            with contextlib.suppress(OSError):
                file = os.open(self.path, flags | attempt, 0o666)
                if attempt & os.O_CREAT:
                    os.fchmod(file, 0o666)
                return file
        raise EnvironmentProblem(
            f"cannot make {self.path}, which keeps two labs apart: make its folder writable"
        )

    def holder(self) -> dict[str, Any]:
        """Who holds the card, as its file says: `pid` and `who`, or nothing."""
        with contextlib.suppress(OSError, ValueError):
            with self.path.open("rb") as stream:
                found = json.loads(stream.read(HOLDER_BYTES))
            if isinstance(found, dict):
                return found
        return {}

    def release(self) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, 0)
            os.close(self._file)
            self._file = None

    def __enter__(self) -> CardLock:
        self.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def held_cards(folder: Path | None = None) -> list[dict[str, Any]]:
    """Cards that are measured on now: `card` (its UUID as the file's name has it), and `pid` and `who`."""
    found = []
    for path in sorted((folder or lock_folder()).glob(f"{_PREFIX}*.lock")):
        try:
            file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            continue
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            card = path.name.removeprefix(_PREFIX).removesuffix(".lock")
            lock = CardLock(card, "", path.parent)
            found.append({"card": card, **lock.holder()})
        finally:
            os.close(file)
    return found


def holder_text(holder: dict[str, Any]) -> str:
    """`lab h200-night (process 4711)`, of what a lock's file says: untrusted text, in one bounded line."""
    who = "".join(c for c in str(holder.get("who") or "another process") if c.isprintable())[:200]
    pid = holder.get("pid")
    return f"{who} (process {pid})" if isinstance(pid, int) else who
