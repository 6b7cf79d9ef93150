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
    bad_blobs = {
        sha for sha, data in connection.execute("SELECT sha, data FROM blobs") if sha256(bytes(data)) != sha
    }
    known = {row[0] for row in connection.execute("SELECT sha FROM blobs")}
    for seq, time, name, experiment, body, before, own in connection.execute(
        "SELECT seq, time, type, experiment, body, prev, hash FROM events ORDER BY seq"
    ):
        if seq != expected:
            return Fault(expected, f"event {expected} is missing")
        if before != prev or digest(prev, seq, time, name, body) != own:
            return Fault(seq, f"event {seq} ({name}) is not what was written")
        fields = loads(body)
        if fields.get("experiment") != experiment:
            return Fault(seq, f"event {seq} ({name}) was filed under another experiment")
        sha = fields.get("source_sha")
        if sha and (sha not in known or sha in bad_blobs):
            state = "was changed" if sha in known else "is missing"
            return Fault(seq, f"event {seq} ({name}) names the text {sha[:12]}, which {state}")
        expected, prev = seq + 1, own
    if bad_blobs:
        return Fault(None, f"the text {min(bad_blobs)[:12]} was changed")
    return None
