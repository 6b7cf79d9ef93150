"""A changed byte of a lab's file is named: which event, and which field where a receipt still knows it."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from fake_device import FakeDevice
from kernel_lab.engine.lab import Lab
from kernel_lab.engine.ledger import audit
from kernel_lab.engine.ledger.chain import Fault
from kernel_lab.engine.ledger.records import digest
from kernel_lab.engine.ledger.store import Ledger
from kernel_lab.engine.receipt import collect
from test_loop import Script, make_lab, run


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    lab = make_lab(tmp_path_factory.mktemp("audit") / "lab")
    run(lab, Script([{"SKIP": True}]), FakeDevice())
    lab.ledger.close()
    return Lab(lab.path, lab.config, Ledger.recording(lab.path / "lab.db"))


@pytest.fixture
def database(whole: Lab, tmp_path: Path) -> Path:
    return Path(shutil.copy(whole.path / "lab.db", tmp_path / "lab.db"))


def change(database: Path, sql: str, *values: object) -> None:
    with closing(sqlite3.connect(database)) as connection:
        connection.execute(sql, values)
        connection.commit()


def fault(database: Path, copies: audit.Copies | None = None) -> Fault | None:
    with closing(Ledger.recording(database)) as ledger:
        return audit.first_fault(ledger, copies or {})


def test_an_intact_lab_has_no_fault(whole: Lab, database: Path) -> None:
    assert fault(database, {"runs/2/receipt.json": collect(whole.ledger, 2).records}) is None


@pytest.mark.parametrize("column", ["time", "type", "body", "prev", "hash", "experiment"])
def test_each_column_of_an_event_is_protected(whole: Lab, database: Path, column: str) -> None:
    seq = next(r.seq for r in whole.ledger.records() if r.type == "screened")
    value = {"time": 1.5, "experiment": 2}.get(column, "x")
    change(database, f"UPDATE events SET {column} = ? WHERE seq = ?", value, seq)  # noqa: S608
    found = fault(database)
    assert found is not None and found.seq == seq


def test_the_changed_field_is_named_by_the_receipt(whole: Lab, database: Path) -> None:
    copies = {"runs/2/receipt.json": collect(whole.ledger, 2).records}
    record = next(r for r in copies["runs/2/receipt.json"] if r.type == "speed_judged")
    body = json.loads(record.body)
    body["speed"]["per_workload"][0]["time_us"] += 1
    change(database, "UPDATE events SET body = ? WHERE seq = ?", json.dumps(body), record.seq)
    assert fault(database, copies) == Fault(
        record.seq,
        f"event {record.seq} (speed_judged) is not what was written: "
        "field speed.per_workload.0.time_us differs from runs/2/receipt.json",
    )
    plain = fault(database)
    assert plain is not None and plain.text == f"event {record.seq} (speed_judged) is not what was written"


def test_events_cut_off_at_the_end_are_missed_by_the_receipt(whole: Lab, database: Path) -> None:
    records = collect(whole.ledger, 2).records
    seq = records[-1].seq
    change(database, "DELETE FROM events WHERE seq >= ?", seq)
    found = fault(database, {"runs/2/receipt.json": records})
    assert found == Fault(
        seq, f"the events behind {seq - 1} were cut off: runs/2/receipt.json holds event {seq}"
    )


def test_a_receipt_of_another_lab_does_not_agree(whole: Lab, database: Path, tmp_path: Path) -> None:
    other = make_lab(tmp_path / "other" / "lab")
    run(other, Script([{"SKIP": True}]), FakeDevice())
    found = fault(database, {"runs/2/receipt.json": collect(other.ledger, 2).records})
    assert found is not None and found.text.startswith("event 1 (lab_created) is another than the one in")


def test_a_changed_text_is_named(whole: Lab, database: Path) -> None:
    row = whole.ledger.experiment(2)
    assert row is not None
    change(database, "UPDATE blobs SET data = data || 'x' WHERE sha = ?", row.source_sha)
    found = fault(database)
    assert (
        found is not None and f"names the text {(row.source_sha or '')[:12]}, which was changed" in found.text
    )


@pytest.mark.parametrize(
    "body", ['{"experiment":2,"speed":7}', "[" * 3000, "7", '{"experiment":2,"speed":{"kind":1}}']
)
def test_a_chain_that_was_written_anew_around_nonsense_is_a_fault_and_no_crash(
    database: Path, body: str
) -> None:
    with closing(sqlite3.connect(database)) as connection:
        rows = connection.execute(
            "SELECT seq, time, type, body, prev, hash FROM events ORDER BY seq"
        ).fetchall()
        at = next(seq for seq, _, name, *_ in rows if name == "speed_judged")
        prev = "0" * 64
        for seq, time, name, old, _, _ in rows:
            new = body if seq == at else old
            own = digest(prev, seq, time, name, new)
            connection.execute(
                "UPDATE events SET body = ?, prev = ?, hash = ? WHERE seq = ?", (new, prev, own, seq)
            )
            prev = own
        connection.commit()
    assert fault(database) is not None


def test_tables_that_do_not_follow_from_the_events_are_named(database: Path) -> None:
    change(database, "UPDATE experiments SET status = 'keep' WHERE id = 1")
    found = fault(database)
    assert found is not None and found.seq is None
    assert found.text.startswith("table experiments does not show what the events say")


def test_a_damaged_file_is_a_fault_and_no_crash(database: Path) -> None:
    data = database.read_bytes()
    seen = set()
    for place in range(4096 + 8, len(data), len(data) // 40):
        database.write_bytes(data[:place] + bytes(64) + data[place + 64 :])
        try:
            found = fault(database)
        except Exception as error:  # noqa: BLE001
            assert type(error).__name__ == "LedgerError", (place, error)
            continue
        seen.add(found is not None)
    assert True in seen
