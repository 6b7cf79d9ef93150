"""The ledger: what one append does, what survives, and what a person is told when it cannot be used."""

from __future__ import annotations

import os
import random
import sqlite3
from pathlib import Path

import pytest
from kernel_lab.engine import commands as c
from kernel_lab.engine import events as e
from kernel_lab.engine.errors import (
    ChainBroken,
    DiskFull,
    LabError,
    LabFolderError,
    LabNewer,
    LabReadOnly,
    LedgerError,
)
from kernel_lab.engine.facts import Check
from kernel_lab.engine.lab import EngineLock
from kernel_lab.engine.ledger import chain, connect, projections, schema
from kernel_lab.engine.ledger.records import dumps, loads, sha256
from kernel_lab.engine.ledger.store import Ledger
from ledger_data import created, life, source, sources


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger.create(tmp_path / "lab.db", [created()])


def test_what_was_appended_is_read_back_equal(ledger: Ledger) -> None:
    happened = life(1, parent=None, status="seed")
    written = ledger.append(happened, blobs=sources([1]))
    assert [record.event for record in written] == happened
    assert ledger.records(after=1) == written
    assert [record.seq for record in written] == list(range(2, 2 + len(happened)))
    assert ledger.records(experiment=1, limit=2) == written[:2]
    assert ledger.blob(sha256(source(1))) == source(1)
    with pytest.raises(LedgerError, match="holds no text"):
        ledger.blob(sha256(b"never"))


def test_numbers_that_json_lacks_and_odd_texts_come_back(ledger: Ledger) -> None:
    check = Check("quick", "\udc80 lone", "nul\0", "fail", "é😀", float("inf"), float("-inf"))
    ledger.append([e.ExperimentStarted(1, "gqa_decode", None, "seed"), e.Checked(1, check)])
    assert ledger.records(after=2)[0].event == e.Checked(1, check)
    assert ledger.checks(1)[0].error == float("inf")
    assert loads(dumps({"$number": "evil", "x": [float("nan")]}))["$number"] == "evil"
    assert "Infinity" not in ledger.records(after=2)[0].body
    assert ledger.verify() == 3


def test_an_append_that_fails_leaves_nothing(ledger: Ledger) -> None:
    command = ledger.send(c.Pause(), "a person")
    ledger.append([e.Paused("a person")], obeyed=[(command, "paused")])
    before = (ledger.last_seq(), ledger.view())
    with pytest.raises(LedgerError, match="once"):
        ledger.append(life(1), blobs=sources([1]), obeyed=[(command, "again")])
    assert (ledger.last_seq(), ledger.view()) == before
    with pytest.raises(LedgerError):
        ledger.blob(sha256(source(1)))


def test_a_command_is_obeyed_once_and_its_sender_is_told(ledger: Ledger) -> None:
    first = ledger.send(c.Say("try exp2", "always"), "ann")
    second = ledger.send(c.Veto(3, "smells", "cheat"), "bob")
    assert [(p.id, p.by, p.command) for p in ledger.pending_commands()] == [
        (first, "ann", c.Say("try exp2", "always")),
        (second, "bob", c.Veto(3, "smells", "cheat")),
    ]
    assert ledger.command_result(first) is None
    ledger.append([e.IdeaSaid(1, "try exp2", "always", None, "ann")], obeyed=[(first, "idea 1")])
    ledger.append([], obeyed=[(second, "refused: #3 does not exist")])
    assert ledger.pending_commands() == []
    assert ledger.command_result(first) == "idea 1"
    with pytest.raises(LedgerError, match="never sent"):
        ledger.command_result(99)


def test_a_command_of_a_newer_front_end_waits_with_its_name(ledger: Ledger) -> None:
    ledger.connection.execute("INSERT INTO commands (time, by, type, body) VALUES (0, 'x', 'teleport', '{}')")
    assert [(p.type, p.command) for p in ledger.pending_commands()] == [("teleport", None)]


def test_events_of_a_newer_engine_are_passed_over(ledger: Ledger) -> None:
    ledger.connection.execute("UPDATE events SET type = 'dreamt'")
    assert [(r.type, r.event) for r in ledger.records()] == [("dreamt", None)]
    ledger.rebuild()
    assert ledger.view().lab == ""


def test_time_never_runs_backwards(ledger: Ledger) -> None:
    ledger.clock = lambda: 4e9
    ledger.append([e.Paused("x")])
    ledger.clock = lambda: 1e9
    assert ledger.append([e.Resumed("x")])[0].time == 4e9


def test_now_is_replaced_and_is_no_event(ledger: Ledger) -> None:
    assert ledger.now() == {}
    ledger.set_now({"phase": "trials", "text": "abc"})
    ledger.set_now({"phase": "speed"})
    assert ledger.now() == {"phase": "speed"}
    assert ledger.last_seq() == 1
    assert ledger.connection.execute("PRAGMA synchronous").fetchone() == (2,)


def test_settings_that_durability_rests_on(ledger: Ledger) -> None:
    asked = [
        ledger.connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous")
    ]
    assert asked == ["wal", 2]


# ---- the chain -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "seq"),
    [
        ("UPDATE events SET body = replace(body, 'Fewer', 'Fever') WHERE type = 'proposed'", 3),
        ("UPDATE events SET time = time + 1e-6 WHERE seq = 4", 4),
        ("UPDATE events SET type = 'checked' WHERE seq = 5", 5),
        ("UPDATE events SET experiment = 2 WHERE seq = 6", 6),
        ("DELETE FROM events WHERE seq = 2", 2),
        ("UPDATE events SET prev = hash WHERE seq = 1", 1),
        ("UPDATE blobs SET data = data || x'20'", 3),
        ("DELETE FROM blobs", 3),
        ("UPDATE events SET body = CAST(x'7bff7d' AS TEXT) WHERE seq = 4", 4),
        ("UPDATE events SET type = x'ff', time = 'soon' WHERE seq = 5", 5),
    ],
)
def test_one_changed_byte_is_named(ledger: Ledger, change: str, seq: int) -> None:
    ledger.append(life(1, parent=None, status="seed"), blobs=sources([1]))
    assert ledger.verify() == ledger.last_seq()
    ledger.connection.execute(change)
    fault = chain.first_fault(ledger.connection)
    assert fault is not None
    assert fault.seq == seq
    with pytest.raises(ChainBroken, match=f"event {seq}"):
        ledger.verify()


def test_a_changed_text_that_no_event_names_is_found(ledger: Ledger) -> None:
    ledger.append([], blobs=[b"extra"])
    ledger.connection.execute("UPDATE blobs SET data = x'00'")
    with pytest.raises(ChainBroken, match="was changed"):
        ledger.verify()


def test_any_flipped_byte_is_told_or_harmless(ledger: Ledger) -> None:
    """Wherever a byte of the file flips: the chain still holds, or one line says what is wrong."""
    ledger.append(life(1, parent=None, status="seed"), blobs=sources([1]))
    ledger.close()
    content, chance, told = ledger.path.read_bytes(), random.Random(3), 0
    for _ in range(150):
        torn = bytearray(content)
        torn[chance.randrange(len(torn))] ^= 1 << chance.randrange(8)
        ledger.path.write_bytes(torn)
        try:
            with Ledger.recording(ledger.path) as flipped:
                flipped.verify()
        except LabError as error:
            told += 1
            assert "\n" not in str(error)
    assert told > 5


def test_a_schema_that_is_no_text_is_told_as_damage(ledger: Ledger) -> None:
    ledger.append(life(1, parent=None, status="seed"), blobs=sources([1]))
    ledger.close()
    content = ledger.path.read_bytes()
    ledger.path.write_bytes(content.replace(b"CREATE TABLE meta", b"CREATE TABLE\xe5meta"))
    with pytest.raises(LedgerError, match="is damaged"), Ledger.recording(ledger.path):
        pass


# ---- opening ---------------------------------------------------------------------------------------


def test_opened_again_it_goes_on_where_it_was(ledger: Ledger) -> None:
    ledger.append(life(1, parent=None, status="seed"), blobs=sources([1]))
    view = ledger.view()
    ledger.close()
    with Ledger.open(ledger.path) as again:
        assert again.view() == view
        again.append([e.Paused("x")])
        assert again.verify() == view.last_seq + 1


def test_a_newer_format_is_refused_by_name(ledger: Ledger) -> None:
    ledger.connection.execute(f"PRAGMA user_version = {len(schema.MIGRATIONS) + 1}")
    ledger.close()
    for readonly in (False, True):
        with pytest.raises(LabNewer, match="update kernel-lab"):
            Ledger.open(ledger.path, readonly=readonly)


def test_an_older_format_is_brought_up_to_date(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger.append(life(1, parent=None, status="seed"), blobs=sources([1]))
    rows = ledger.experiments()
    ledger.close()

    def add_column(connection: sqlite3.Connection) -> None:
        connection.execute("ALTER TABLE commands ADD COLUMN urgent INTEGER")

    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, add_column))
    monkeypatch.setattr(schema, "PROJECTIONS_VERSION", schema.PROJECTIONS_VERSION + 1)
    with Ledger.recording(ledger.path) as copy:
        assert copy.experiments() == rows
        assert copy.connection.execute("SELECT urgent FROM commands").fetchall() == []
    with EngineLock(ledger.path.parent), Ledger.open(ledger.path, readonly=True) as copy:
        assert copy.experiments() == rows
    with Ledger.open(ledger.path, readonly=True) as reader, Ledger.open(ledger.path) as migrated:
        migrated.append([e.Paused("x")])
        assert reader.last_seq() == migrated.last_seq()
        assert schema.version(migrated.connection) == 2
        assert migrated.experiments() == rows
        assert migrated.connection.execute("SELECT urgent FROM commands").fetchall() == []


def test_a_migration_that_fails_changes_nothing(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger.close()

    def half(connection: sqlite3.Connection) -> None:
        connection.execute("ALTER TABLE commands ADD COLUMN urgent INTEGER")
        connection.execute("SELECT nonsense FROM nowhere")

    with monkeypatch.context() as patch:
        patch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, half))
        with pytest.raises(LedgerError):
            Ledger.open(ledger.path)
    with Ledger.open(ledger.path) as again:
        assert again.last_seq() == 1
        assert "urgent" not in {row[1] for row in again.connection.execute("PRAGMA table_info(commands)")}


@pytest.mark.parametrize("content", [b"", b"not a database at all" * 100])
def test_a_file_that_is_no_ledger_is_told_in_one_line(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "lab.db"
    path.write_bytes(content)
    for readonly in (False, True):
        with pytest.raises((LabFolderError, LedgerError)) as told:
            Ledger.open(path, readonly=readonly)
        assert "\n" not in str(told.value)
        assert path.read_bytes() == content
    with pytest.raises(LabFolderError, match="does not exist"):
        Ledger.open(tmp_path / "missing.db")


def test_a_foreign_database_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "lab.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE theirs (x)")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(LabFolderError, match="not a ledger"):
        Ledger.open(path)
    assert path.read_bytes() == before


def test_a_torn_file_is_told_in_one_line(ledger: Ledger) -> None:
    for number in range(1, 60):
        ledger.append(life(number), blobs=sources([number]))
    ledger.close()
    content = bytearray(ledger.path.read_bytes())
    content[8192:] = os.urandom(len(content) - 8192)
    ledger.path.write_bytes(content)
    with pytest.raises(LedgerError, match="damaged") as told, Ledger.open(ledger.path, readonly=True) as torn:
        torn.verify()
    assert "\n" not in str(told.value)


# ---- readers ---------------------------------------------------------------------------------------


def test_a_recording_is_read_without_a_trace_beside_it(ledger: Ledger) -> None:
    ledger.append(life(1, parent=None, status="seed"), blobs=sources([1]))
    ledger.close()
    folder = ledger.path.parent
    assert [entry.name for entry in folder.iterdir()] == ["lab.db"]
    with Ledger.recording(ledger.path) as recording:
        assert recording.view().counts == {"seed": 1}
        with pytest.raises(LabReadOnly):
            recording.append([e.Paused("x")])
        assert [entry.name for entry in folder.iterdir()] == ["lab.db"]
    assert [entry.name for entry in folder.iterdir()] == ["lab.db"]


def test_a_recording_with_a_left_over_log_shows_what_the_log_holds(ledger: Ledger, tmp_path: Path) -> None:
    ledger.append(life(1, parent=None, status="seed"), blobs=sources([1]))
    copy = tmp_path / "copy"
    copy.mkdir()
    for name in ("lab.db", "lab.db-wal"):
        (copy / name).write_bytes((tmp_path / name).read_bytes())
    with Ledger.recording(copy / "lab.db") as recording:
        assert recording.verify() == ledger.last_seq()
    assert sorted(entry.name for entry in copy.iterdir()) == ["lab.db", "lab.db-wal"]


@pytest.mark.skipif(os.name != "posix", reason="needs fork")
def test_a_folder_that_cannot_be_written_is_read(ledger: Ledger) -> None:
    """In a child without root's rights, which the permissions of a folder do not bind."""
    ledger.append(life(1, parent=None, status="seed"), blobs=sources([1]))
    ledger.close()
    folder = ledger.path.parent
    for parent in (folder, *folder.parents[:3]):
        parent.chmod(0o555)
    ledger.path.chmod(0o444)
    try:
        assert _as_nobody(lambda: Ledger.open(ledger.path, readonly=True).view().counts == {"seed": 1})
        assert _as_nobody(lambda: _raises(LabReadOnly, lambda: Ledger.open(ledger.path)))
        assert [entry.name for entry in folder.iterdir()] == ["lab.db"]
    finally:
        for parent in (folder, *folder.parents[:3]):
            parent.chmod(0o755)


def _as_nobody(ask: object) -> bool:
    child = os.fork()
    if child == 0:
        status = 1
        try:
            if os.getuid() == 0:
                os.setgid(65534)
                os.setuid(65534)
            status = 0 if ask() else 1  # type: ignore[operator]
        finally:
            os._exit(status)
    return os.waitpid(child, 0)[1] == 0


def _raises(kind: type[Exception], ask: object) -> bool:
    try:
        ask()  # type: ignore[operator]
    except kind:
        return True
    return False


# ---- full disk -------------------------------------------------------------------------------------


def test_a_full_disk_stops_with_one_line_and_the_ledger_opens_again(ledger: Ledger) -> None:
    ledger.append(life(1, parent=None, status="seed"), blobs=sources([1]))
    before = ledger.view()
    pages = ledger.connection.execute("PRAGMA page_count").fetchone()[0]
    ledger.connection.execute(f"PRAGMA max_page_count = {pages + 2}")
    with pytest.raises(DiskFull, match="free some space"):
        for number in range(2, 200):
            ledger.append(life(number), blobs=[os.urandom(4000)])
    assert ledger.verify() == ledger.last_seq() >= before.last_seq
    ledger.close()
    with Ledger.open(ledger.path) as again:
        last = again.verify()
        again.append([e.Resumed("x")])
        assert again.last_seq() == last + 1


def test_errors_of_the_disk_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = sqlite3.OperationalError("disk I/O error")
    problem.sqlite_errorcode = sqlite3.SQLITE_IOERR_WRITE
    assert not isinstance(connect.translate(problem, tmp_path / "lab.db"), DiskFull)
    monkeypatch.setattr(connect, "_free_bytes", lambda path: 0)
    assert isinstance(connect.translate(problem, tmp_path / "lab.db"), DiskFull)


def test_handlers_know_every_event_that_changes_a_view() -> None:
    """An event type without a handler is one that changes no projection: say so here when adding one."""
    passive = {e.AgentSaid, e.Notice, e.PlateauReached, e.Screened}
    assert set(projections._HANDLERS) == set(e.EVENT_TYPES.values()) - passive


def test_a_copy_of_a_closed_ledger_is_whole_although_a_reader_was_there(tmp_path: Path) -> None:
    path = tmp_path / "lab.db"
    with Ledger.create(path, [created()]) as writer:
        reader = Ledger.open(path, readonly=True)
        written = writer.append(life(1, parent=None, status="seed"), blobs=sources([1]))
    copy = tmp_path / "copy.db"
    copy.write_bytes(path.read_bytes())
    reader.close()
    assert Ledger.recording(copy).last_seq() == written[-1].seq
