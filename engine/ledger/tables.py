"""The projection tables of one connection, as `projections` and `line` write them."""

from __future__ import annotations

import sqlite3

RUNNING = "running"
"""Status of an experiment without a verdict."""


class Tables:
    """The projection tables of one connection, and where the blobs stand: there too unless it is told."""

    def __init__(self, connection: sqlite3.Connection, blobs: sqlite3.Connection | None = None) -> None:
        self.connection = connection
        self.execute = connection.execute
        self.executemany = connection.executemany
        self._blobs = connection if blobs is None else blobs

    def blob(self, sha: str | None) -> bytes | None:
        row = self._blobs.execute("SELECT data FROM blobs WHERE sha = ?", (sha,)).fetchone()
        return None if row is None else bytes(row[0])

    def update(self, experiment: int, **values: object) -> None:
        """Set columns of one experiment."""
        columns = ", ".join(f"{name} = ?" for name in values)
        self.execute(
            f"UPDATE experiments SET {columns} WHERE id = ?",  # noqa: S608
            (*values.values(), experiment),
        )


def text(value: str) -> str:
    """The text with lone surrogates replaced, which a database column cannot hold."""
    return value.encode("utf-8", "replace").decode()
