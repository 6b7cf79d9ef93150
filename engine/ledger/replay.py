"""Replaying a recorded lab: the same questions as to a live one, answered as of a position in its events."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kernel_lab.engine.errors import UsageError
from kernel_lab.engine.ledger import projections, schema
from kernel_lab.engine.ledger.records import Record
from kernel_lab.engine.ledger.store import DATABASE, EventReader, Ledger
from kernel_lab.engine.ledger.tables import Tables

SNAPSHOTS = 16
MIN_SNAPSHOT_EVENTS = 4000
"""Going back rebuilds from a snapshot at most this many events behind, or a 16th of the recording."""


class ReplayReader(EventReader):
    """A recording, read-only, at a position from 0 (nothing happened yet) to `length`.

    `poll` gives the events that are due by the clock while playing; `seek` moves at once. Pauses longer than
    `max_gap_s` in the recording are shortened to that, before the speed divides them.
    """

    def __init__(
        self,
        recording: Path,
        *,
        speed: float = 1.0,
        max_gap_s: float = 10.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`recording`: a lab's folder or a ledger file. Raises LabFolderError, LabNewer, LedgerError."""
        self.path = recording / DATABASE if recording.is_dir() else recording
        self._source = Ledger.recording(self.path)
        self.length = self._source.last_seq()
        self.position = 0
        self.playing = False
        self.max_gap_s = max_gap_s
        self._pace = speed
        self._clock = clock
        self._origin = clock()
        """The clock's time at which the event at `position` happened, in this replay."""
        self._times = [row[0] for row in self._source.fetch("SELECT time FROM events ORDER BY seq")]
        self._every = max(MIN_SNAPSHOT_EVENTS, self.length // SNAPSHOTS)
        self._snapshots: dict[int, bytes] = {}
        self.connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self.connection.execute("PRAGMA journal_mode = OFF").fetchone()
        schema.create_projections(self.connection)
        self._snapshots[0] = self.connection.serialize()
        self._tables = Tables(self.connection, self._source.connection)

    # ---- the clock ----

    @property
    def pace(self) -> float:
        """Seconds of the recording for one second of the clock."""
        return self._pace

    @pace.setter
    def pace(self, pace: float) -> None:
        if not pace > 0:
            raise UsageError(f"the speed of a replay is {pace}: give more than 0")
        self._origin = self._clock() - (self._clock() - self._origin) * self._pace / pace
        self._pace = pace

    def play(self) -> None:
        if not self.playing:
            self.playing = True
            self._origin = self._clock()

    def pause(self) -> None:
        self.playing = False

    @property
    def ended(self) -> bool:
        return self.position >= self.length

    def poll(self, limit: int = 2000) -> list[Record]:
        """Events that became due since the last call, at most `limit`."""
        if not self.playing:
            return []
        target, origin, now = self.position, self._origin, self._clock()
        while target < min(self.length, self.position + limit):
            due = origin + self._gap_s(target + 1) / self._pace
            if due > now:
                break
            target, origin = target + 1, due
        self._origin = origin
        if target >= self.length:
            self.playing = False
        return self._forward(target)

    def _gap_s(self, seq: int) -> float:
        """Time between an event and the one before it, shortened if it is long."""
        if seq < 2:
            return 0.0
        return min(float(self._times[seq - 1] - self._times[seq - 2]), self.max_gap_s)

    # ---- the position ----

    def seek(self, seq: int) -> None:
        """Go to the state just after event `seq`; 0 is before the first."""
        seq = max(0, min(seq, self.length))
        start = max(at for at in self._snapshots if at <= seq)
        if seq < self.position or start > self.position:
            self.connection.deserialize(self._snapshots[start])
            self.position = start
        self._forward(seq)
        self._origin = self._clock()

    def seek_experiment(self, n: int) -> None:
        """Go to where experiment `n` has just been finished, or as far as it went."""
        rows = self._source.fetch(
            "SELECT max(seq) FROM events WHERE experiment = ? AND type = ?", (n, "experiment_finished")
        )
        last = (
            rows[0][0] or self._source.fetch("SELECT max(seq) FROM events WHERE experiment = ?", (n,))[0][0]
        )
        if last is None:
            raise UsageError(
                f"the recording has no experiment #{n}: choose one up to #{self._source.last_experiment()}"
            )
        self.seek(last)

    def _forward(self, target: int) -> list[Record]:
        passed = []
        while self.position < target:
            chunk = min(target, (self.position // self._every + 1) * self._every)
            records = self._source.records(after=self.position, limit=chunk - self.position)
            self.connection.execute("BEGIN")
            for record in records:
                projections.apply(self._tables, record)
            self.connection.execute("COMMIT")
            self.position = chunk
            passed += records
            if chunk % self._every == 0 and chunk not in self._snapshots:
                self._snapshots[chunk] = self.connection.serialize()
        return passed

    # ---- what differs from a live lab ----

    def records(
        self, after: int = 0, limit: int | None = None, experiment: int | None = None
    ) -> list[Record]:
        return [r for r in self._source.records(after, limit, experiment) if r.seq <= self.position]

    def last_body(self, n: int, name: str) -> str | None:
        rows = self._source.fetch(
            "SELECT body FROM events WHERE experiment = ? AND type = ? AND seq <= ? "
            "ORDER BY seq DESC LIMIT 1",
            (n, name, self.position),
        )
        return rows[0][0] if rows else None

    def blob(self, sha: str) -> bytes:
        return self._source.blob(sha)

    def now(self) -> dict[str, Any]:
        return {}

    def last_seq(self) -> int:
        return self.position

    def verify(self) -> int:
        return self._source.verify()

    def close(self) -> None:
        self.connection.close()
        self._source.close()
