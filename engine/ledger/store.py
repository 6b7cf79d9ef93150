"""The ledger of a lab: events, commands, blobs and what is derived from them, in one SQLite file.

One process writes events (the engine, which owns the lab's lock); any number of others read and send
commands. Everything that one `append` does is one transaction: it happened, or it did not.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernel_lab.engine.commands import Command, decode_command, encode_command
from kernel_lab.engine.errors import ChainBroken, LabFolderError, LabReadOnly, LedgerError
from kernel_lab.engine.events import Event, decode, encode
from kernel_lab.engine.ledger import chain, connect, projections, schema
from kernel_lab.engine.ledger.lock import engine_pid
from kernel_lab.engine.ledger.records import GENESIS, Record, digest, dumps, loads, sha256
from kernel_lab.engine.ledger.tables import Tables
from kernel_lab.engine.ledger.views import Views

DATABASE = "lab.db"
RECORD_COLUMNS = "seq, time, type, body, prev, hash"


@dataclass(frozen=True, slots=True)
class PendingCommand:
    """A command that the engine has not obeyed yet. `command` is None for one of unknown type."""

    id: int
    time: float
    by: str
    type: str
    command: Command | None


class EventReader(Views):
    """What can be asked of any database with a lab's tables."""

    path: Path

    def fetch(self, sql: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        with connect.errors(self.path):
            return super().fetch(sql, parameters)

    def records(
        self, after: int = 0, limit: int | None = None, experiment: int | None = None
    ) -> list[Record]:
        """Events after a sequence number in their order, all or those of one experiment."""
        where = "seq > ?" if experiment is None else "seq > ? AND experiment = ?"
        parameters = [after] if experiment is None else [after, experiment]
        rows = self.fetch(
            f"SELECT {RECORD_COLUMNS} FROM events WHERE {where} ORDER BY seq LIMIT ?",  # noqa: S608
            [*parameters, -1 if limit is None else limit],
        )
        return [Record.from_row(row) for row in rows]

    def blob(self, sha: str) -> bytes:
        """Content by its sha256 in hex."""
        rows = self.fetch("SELECT data FROM blobs WHERE sha = ?", (sha,))
        if not rows:
            raise LedgerError(
                f"{self.path} holds no text {sha[:12]}: check the ledger with `kernel-lab verify`"
            )
        return bytes(rows[0][0])

    def now(self) -> dict[str, Any]:
        """The transient row: streaming text, telemetry, progress. Empty if nothing is going on."""
        rows = self.fetch("SELECT body FROM now")
        return dict(loads(rows[0][0])) if rows else {}

    def verify(self) -> int:
        """Check the hash chain and every blob; the number of events. ChainBroken names the first bad one."""
        with connect.errors(self.path):
            fault = chain.first_fault(self.connection)
        if fault is not None:
            raise ChainBroken(f"{self.path}: {fault}: restore the file from a copy, it proves nothing now")
        return self.last_seq()

    def close(self) -> None:
        self.connection.close()


class Ledger(EventReader):
    """A lab's ledger, for writing (one at a time) or for reading."""

    def __init__(self, path: Path, connection: sqlite3.Connection, *, readonly: bool) -> None:
        self.path = path
        self.connection = connection
        self.readonly = readonly
        self.clock: Callable[[], float] = time.time
        self._lock = threading.RLock()

    @classmethod
    def create(cls, path: Path, events: Sequence[Event] = (), *, blobs: Sequence[bytes] = ()) -> Ledger:
        """A new ledger, with its first events; `path` must not exist."""
        if path.exists():
            raise LabFolderError(f"{path} exists already: open it, or choose another folder")
        ledger = cls(path, connect.writer(path, create=True), readonly=False)
        try:
            with ledger._transaction():
                schema.migrate(ledger.connection)
                schema.create_projections(ledger.connection)
                ledger._set_projections_version()
                ledger._append(events, blobs, ())
        except BaseException:
            ledger.close()
            raise
        return ledger

    @classmethod
    def open(cls, path: Path, readonly: bool = False) -> Ledger:
        """An existing ledger, brought up to date if its format is older; where it may not be, in a copy.

        A reader sees what is committed later, except in such a copy.
        """
        if not path.is_file():
            raise LabFolderError(f"{path} does not exist: name the folder of a lab (`kernel-lab labs`)")
        if not readonly:
            ledger = cls(path, connect.writer(path), readonly=False)
            try:
                ledger._update_format()
            except BaseException:
                ledger.close()
                raise
            return ledger
        reader = cls(path, connect.follower(path), readonly=True)
        if reader._is_current():
            return reader
        reader.close()
        if os.access(path.parent, os.W_OK) and engine_pid(path.parent) is None:
            cls.open(path).close()
            return cls(path, connect.follower(path), readonly=True)
        return cls.recording(path)

    @classmethod
    def recording(cls, path: Path) -> Ledger:
        """A ledger as it is now, for reading only and without a trace beside the file."""
        if not path.is_file():
            raise LabFolderError(f"{path} does not exist: name a recording or the folder of a lab")
        ledger = cls(path, connect.snapshot(path), readonly=True)
        if not ledger._is_current():
            ledger.connection = connect.copy(ledger.connection, path)
            ledger._update_format()
        return ledger

    # ---- writing ----

    def append(
        self,
        events: Sequence[Event],
        *,
        blobs: Sequence[bytes] = (),
        obeyed: Sequence[tuple[int, str]] = (),
    ) -> list[Record]:
        """Write events, the contents they name and the results of obeyed commands, all or nothing.

        Raises DiskFull, and LedgerError if a command does not exist or was obeyed before.
        """
        if self.readonly:
            raise LabReadOnly(f"{self.path} is open for reading only: open the lab for writing")
        with self._transaction():
            return self._append(events, blobs, obeyed)

    def _append(
        self, events: Sequence[Event], blobs: Sequence[bytes], obeyed: Sequence[tuple[int, str]]
    ) -> list[Record]:
        connection = self.connection
        connection.executemany(
            "INSERT OR IGNORE INTO blobs (sha, data) VALUES (?, ?)", [(sha256(data), data) for data in blobs]
        )
        last = connection.execute("SELECT seq, time, hash FROM events ORDER BY seq DESC LIMIT 1").fetchone()
        seq, last_time, prev = last or (0, 0.0, GENESIS)
        # A clock that was set back must not put an event before its cause.
        moment = max(float(self.clock()), last_time)
        tables = Tables(connection)
        records = []
        for event in events:
            seq += 1
            name, fields = encode(event)
            body = dumps(fields)
            own = digest(prev, seq, moment, name, body)
            # Decoded again, so that what is projected is what a rebuild will read.
            record = Record(seq, moment, decode(name, loads(body)), name, own, prev, body)
            connection.execute(
                "INSERT INTO events (seq, time, type, experiment, body, prev, hash) "
                "VALUES (?, ?, ?, ?, ?, ?, ?)",
                (seq, moment, name, fields.get("experiment"), body, prev, own),
            )
            projections.apply(tables, record)
            records.append(record)
            prev = own
        for command, result in obeyed:
            changed = connection.execute(
                "UPDATE commands SET obeyed_seq = ?, result = ? WHERE id = ? AND obeyed_seq IS NULL",
                (seq, result, command),
            )
            if changed.rowcount != 1:
                raise LedgerError(
                    f"command {command} was obeyed before or never sent: obey each command once"
                )
        return records

    def set_now(self, values: dict[str, Any]) -> None:
        """Replace the transient row. It need not survive a power cut, so that it waits for no disk."""
        with self._lock, connect.errors(self.path):
            self.connection.execute("PRAGMA synchronous = NORMAL")
            try:
                self.connection.execute(
                    "INSERT OR REPLACE INTO now (id, body) VALUES (1, ?)", (dumps(values),)
                )
            finally:
                self.connection.execute("PRAGMA synchronous = FULL")

    def rebuild(self) -> None:
        """Build the projections again from the events."""
        with self._transaction():
            self._rebuild()

    def _rebuild(self) -> None:
        projections.rebuild(Tables(self.connection), self._all_records())
        self._set_projections_version()

    def _all_records(self) -> Iterator[Record]:
        """Asks only when the first one is taken: tables cannot be dropped under an open query."""
        rows = self.connection.execute(f"SELECT {RECORD_COLUMNS} FROM events ORDER BY seq")  # noqa: S608
        yield from (Record.from_row(row) for row in rows)

    # ---- commands ----

    def send(self, command: Command, by: str) -> int:
        """Ask the engine for something; the command's number."""
        name, fields = encode_command(command)
        with self._transaction():
            row = self.connection.execute(
                "INSERT INTO commands (time, by, type, body) VALUES (?, ?, ?, ?)",
                (time.time(), by, name, dumps(fields)),
            )
            return int(row.lastrowid or 0)

    def pending_commands(self) -> list[PendingCommand]:
        """Commands not obeyed yet, in the order in which they were sent."""
        rows = self.fetch(
            "SELECT id, time, by, type, body FROM commands WHERE obeyed_seq IS NULL ORDER BY id"
        )
        return [
            PendingCommand(number, sent, by, name, decode_command(name, loads(body)))
            for number, sent, by, name, body in rows
        ]

    def command_result(self, command: int) -> str | None:
        """What came of a command; None while it waits."""
        rows = self.fetch("SELECT result FROM commands WHERE id = ?", (command,))
        if not rows:
            raise LedgerError(f"command {command} was never sent to {self.path}: send it again")
        return None if rows[0][0] is None else str(rows[0][0])

    # ---- the rest ----

    def engine_alive(self) -> bool:
        return engine_pid(self.path.parent) is not None

    def close(self) -> None:
        """Close it. A writer moves everything into the one file first, so that a copy of it is whole."""
        with self._lock, connect.errors(self.path):
            if not self.readonly:
                with contextlib.suppress(sqlite3.Error):  # a reader may be in the way, or the disk full
                    self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            self.connection.close()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._lock, connect.errors(self.path):
            self.connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self.connection.execute("COMMIT")
            except BaseException:
                # A full disk may have rolled back already.
                if self.connection.in_transaction:
                    self.connection.execute("ROLLBACK")
                raise

    def _is_current(self) -> bool:
        with connect.errors(self.path):
            if schema.version(self.connection) != len(schema.MIGRATIONS):
                return False
            rows = self.fetch("SELECT value FROM meta WHERE key = 'projections'")
            return bool(rows) and loads(rows[0][0]) == schema.PROJECTIONS_VERSION

    def _update_format(self) -> None:
        if self._is_current():
            return
        with self._transaction():
            schema.migrate(self.connection)
            self._rebuild()

    def _set_projections_version(self) -> None:
        self.connection.execute(
            "INSERT OR REPLACE INTO meta (key, value) VALUES ('projections', ?)",
            (dumps(schema.PROJECTIONS_VERSION),),
        )
