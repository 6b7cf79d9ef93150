"""Opening a lab's database in the ways that it is used, and its errors as one line each."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path

from kernel_lab.engine.errors import DiskFull, LabError, LabFolderError, LabNewer, LabReadOnly, LedgerError
from kernel_lab.engine.ledger import schema

BUSY_TIMEOUT_S = 10.0
FULL_BELOW_BYTES = 1 << 20
"""An input/output error with less free space than this is a full disk."""


def writer(path: Path, *, create: bool = False) -> sqlite3.Connection:
    """Connection for writing: WAL, synchronous=FULL, explicit transactions."""
    with errors(path):
        connection = _connect(path, "rwc" if create else "rw")
        try:
            if not create:
                check(connection, path)
            connection.execute("PRAGMA journal_mode = WAL").fetchone()
            connection.execute("PRAGMA synchronous = FULL")
        except BaseException:
            connection.close()
            raise
        return connection


def follower(path: Path) -> sqlite3.Connection:
    """Read-only connection that sees what a writer commits later; may put `-wal` and `-shm` beside it."""
    if not os.access(path.parent, os.W_OK):
        return snapshot(path)
    with errors(path):
        return _checked(_connect(path, "ro"), path)


def snapshot(path: Path) -> sqlite3.Connection:
    """Read-only connection to the file as it is now, which leaves no trace beside it.

    What still stands in a `-wal` file is seen too: through the index that a live writer keeps beside it, else
    in a private copy.
    """
    log, index = (path.with_name(path.name + suffix) for suffix in ("-wal", "-shm"))
    with errors(path):
        if log.exists() and index.exists():
            with contextlib.suppress(sqlite3.OperationalError):
                return _checked(_connect(path, "ro"), path)
        if not log.exists() or log.stat().st_size == 0:
            return _checked(_connect(path, "ro", immutable=True), path)
        with tempfile.TemporaryDirectory(prefix="kernel-lab-") as folder:
            twin = Path(folder) / path.name
            shutil.copyfile(path, twin)
            shutil.copyfile(log, twin.with_name(log.name))
            return copy(_checked(_connect(twin, "rw"), path), path)


def copy(source: sqlite3.Connection, path: Path) -> sqlite3.Connection:
    """A private copy in memory, which may be changed; `source` is closed."""
    with errors(path), contextlib.closing(source):
        target = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        source.backup(target)
        return target


def check(connection: sqlite3.Connection, path: Path) -> None:
    """Raise LabFolderError if the file is no ledger, LabNewer if a newer version wrote it."""
    kind = connection.execute("PRAGMA application_id").fetchone()[0]
    if kind != schema.APPLICATION_ID:
        raise LabFolderError(
            f"{path} is not a ledger of kernel-lab: name the folder of a lab (`kernel-lab labs`)"
        )
    found, known = schema.version(connection), len(schema.MIGRATIONS)
    if found > known:
        raise LabNewer(
            f"{path} has format {found} and this kernel-lab knows {known}: update kernel-lab to open it"
        )


@contextlib.contextmanager
def errors(path: Path) -> Iterator[None]:
    """Turn SQLite's errors into LabError."""
    try:
        yield
    except sqlite3.Error as problem:
        raise translate(problem, path) from problem
    except UnicodeDecodeError as problem:  # of SQLite's own message, which quotes what it found
        raise LedgerError(
            f"{path} is damaged (text in it is not UTF-8): restore it from a copy, or start a new lab"
        ) from problem
    except FileNotFoundError as problem:
        raise LabFolderError(
            f"{path} does not exist: name the folder of a lab (`kernel-lab labs`)"
        ) from problem
    except PermissionError as problem:
        raise LabFolderError(
            f"{path} cannot be read: change its permissions, or copy the lab elsewhere"
        ) from problem


def translate(problem: sqlite3.Error, path: Path) -> LabError:
    """The LabError that says what a SQLite error means for the person."""
    code = getattr(problem, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_FULL or (code == sqlite3.SQLITE_IOERR and _free_bytes(path) < FULL_BELOW_BYTES):
        return DiskFull(
            f"the disk of {path} is full, nothing written so far is lost: free some space and start again"
        )
    if code == sqlite3.SQLITE_CANTOPEN and not path.exists():
        return LabFolderError(f"{path} does not exist: name the folder of a lab (`kernel-lab labs`)")
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
        return LabReadOnly(f"{path} cannot be written: make its folder writable, or copy the lab elsewhere")
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return LedgerError(f"{path} is damaged ({problem}): restore it from a copy, or start a new lab")
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return LedgerError(f"{path} is locked by another program: close that and try again")
    return LedgerError(f"{path} could not be used ({problem}): check the disk and try again")


def _connect(path: Path, mode: str, *, immutable: bool = False) -> sqlite3.Connection:
    uri = f"{path.absolute().as_uri()}?mode={mode}{'&immutable=1' if immutable else ''}"
    return sqlite3.connect(
        uri, uri=True, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
    )


def _checked(connection: sqlite3.Connection, path: Path) -> sqlite3.Connection:
    try:
        check(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def _free_bytes(path: Path) -> int:
    try:
        return shutil.disk_usage(path.parent).free
    except OSError:
        return 0
