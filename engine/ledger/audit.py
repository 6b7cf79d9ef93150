"""Whether a whole ledger is as it was written: its events and texts, its tables, and the receipts beside it.

The chain shows changed, removed and reordered events. What was cut off at the end, and which field of an
event was changed, only a copy can tell: receipts in `runs/` are such copies.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Iterable
from typing import Any

from kernel_lab.engine.errors import LedgerError
from kernel_lab.engine.ledger import chain, connect, projections, schema
from kernel_lab.engine.ledger.chain import Fault
from kernel_lab.engine.ledger.records import Record
from kernel_lab.engine.ledger.store import RECORD_COLUMNS, Ledger
from kernel_lab.engine.ledger.tables import Tables

Copies = dict[str, tuple[Record, ...]]
"""Name of a receipt to its records."""


def first_fault(ledger: Ledger, copies: Copies) -> Fault | None:
    """The first thing that is wrong with a ledger that is open for reading, or None."""
    try:
        with connect.errors(ledger.path):
            return _structure(ledger.connection) or _events(ledger, copies) or _tables(ledger)
    except LedgerError as damaged:
        return Fault(None, str(damaged))
    except Exception as odd:  # noqa: BLE001  whoever writes a chain anew can put anything into its events
        what = f"{type(odd).__name__}: {odd}"
        return Fault(None, f"its events hold what kernel-lab does not write ({what[:120]})")


def _structure(connection: sqlite3.Connection) -> Fault | None:
    found = [row[0] for row in connection.execute("PRAGMA integrity_check(1)")]
    return None if found == ["ok"] else Fault(None, f"the file is damaged: {str(found[0])[:200]}")


def _events(ledger: Ledger, copies: Copies) -> Fault | None:
    fault = chain.first_fault(ledger.connection)
    if fault is not None:
        more = _difference(ledger, fault.seq, copies)
        return Fault(fault.seq, f"{fault.text}{more}")
    last = ledger.last_seq()
    for name, records in sorted(copies.items()):
        for record in records:
            if record.seq > last:
                what = f"the events behind {last} were cut off: {name} holds event {record.seq}"
                return Fault(last + 1, what)
            rows = ledger.fetch("SELECT hash FROM events WHERE seq = ?", (record.seq,))
            if rows[0][0] != record.hash:
                what = f"event {record.seq} ({record.type}) is another than the one in {name}"
                return Fault(record.seq, what)
    return None


def _difference(ledger: Ledger, seq: int | None, copies: Copies) -> str:
    """What a receipt says that an event was, if one holds it."""
    for name, records in sorted(copies.items()):
        for record in records:
            if record.seq != seq:
                continue
            rows = ledger.connection.execute(
                f"SELECT {RECORD_COLUMNS.replace('body', 'CAST(body AS BLOB)')} FROM events WHERE seq = ?",  # noqa: S608
                (seq,),
            ).fetchall()
            if not rows:
                return f"; {name} holds it"
            _, time, kind, body, prev, own = rows[0]
            columns = {"time": time, "type": kind, "prev": prev, "hash": own}
            changed = [key for key, value in columns.items() if value != getattr(record, key)]
            if changed:
                return f": its {changed[0]} differs from {name}"
            with contextlib.suppress(ValueError, RecursionError):
                path = _path(json.loads(record.body), json.loads(bytes(body).decode("utf-8", "replace")))
                return f": field {path} differs from {name}"
            return f": its fields are no JSON any more; {name} holds them"
    return ""


def _path(was: Any, now: Any, at: str = "") -> str:
    """Where two values of JSON begin to differ, such as `speed.per_workload.0.time_us`."""
    if isinstance(was, dict) and isinstance(now, dict):
        pairs: Iterable[tuple[Any, Any, Any]] = (
            (key, was.get(key), now.get(key)) for key in sorted({*was, *now})
        )
    elif isinstance(was, list) and isinstance(now, list) and len(was) == len(now):
        pairs = zip(range(len(was)), was, now, strict=True)
    else:
        return at or "everything"
    for key, one, other in pairs:
        if one != other:
            return _path(one, other, f"{at}.{key}" if at else str(key))
    return at or "nothing"


def _tables(ledger: Ledger) -> Fault | None:
    """Tables that are derived from the events must be what the events give."""
    with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as twin:
        ledger.connection.backup(twin)
        records = [
            Record.from_row(row)
            for row in twin.execute(f"SELECT {RECORD_COLUMNS} FROM events ORDER BY seq")  # noqa: S608
        ]
        twin.execute("BEGIN")
        projections.rebuild(Tables(twin), records)
        for table in schema.PROJECTION_TABLES:
            where = "WHERE key != 'projections'" if table == "meta" else ""
            shown, right = (
                sorted(map(repr, connection.execute(f"SELECT * FROM {table} {where}")))  # noqa: S608
                for connection in (ledger.connection, twin)
            )
            if shown != right:
                row = next(iter(sorted({*shown} ^ {*right})))
                text = f"table {table} does not show what the events say, at {row[:80]}"
                return Fault(None, f"{text}; the events themselves are intact")
    return None
