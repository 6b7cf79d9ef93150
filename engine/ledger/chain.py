"""Checking that no event and no blob was changed after it was written."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from kernel_lab.engine.ledger.records import GENESIS, digest, loads, sha256


@dataclass(frozen=True, slots=True)
class Fault:
    """The first thing that is wrong. `seq` is the event at fault; None for a blob that no event names."""

    seq: int | None
    text: str

    def __str__(self) -> str:
        return self.text


def first_fault(connection: sqlite3.Connection) -> Fault | None:
    """Follow the chain from the first event; None if everything is as it was written.

    The chain shows changed, removed, added and reordered events, but not that events were cut off at the
    end: for that, compare with the hash in a receipt.
    """
    expected, prev = 1, GENESIS
    # Everything is read as bytes: a changed byte may leave a text that is none.
    blobs = {
        _text(sha): sha256(data or b"") == _text(sha)
        for sha, data in connection.execute("SELECT CAST(sha AS BLOB), CAST(data AS BLOB) FROM blobs")
    }
    for seq, time, experiment, *texts in connection.execute(
        "SELECT seq, time, experiment, CAST(type AS BLOB), CAST(body AS BLOB), CAST(prev AS BLOB), "
        "CAST(hash AS BLOB) FROM events ORDER BY seq"
    ):
        name, body, before, own = map(_text, texts)
        if seq != expected:
            return Fault(expected, f"event {expected} is missing")
        if before != prev or digest(prev, seq, time, name, body) != own:
            return Fault(seq, f"event {seq} ({name}) is not what was written")
        fields = loads(body)
        if fields.get("experiment") != experiment:
            return Fault(seq, f"event {seq} ({name}) was filed under another experiment")
        sha = fields.get("source_sha")
        if sha and not blobs.get(sha, False):
            state = "was changed" if sha in blobs else "is missing"
            return Fault(seq, f"event {seq} ({name}) names the text {sha[:12]}, which {state}")
        expected, prev = seq + 1, own
    changed = sorted(sha for sha, intact in blobs.items() if not intact)
    return Fault(None, f"the text {changed[0][:12]} was changed") if changed else None


def _text(value: bytes | None) -> str:
    return (value or b"").decode("ascii", "replace")
