"""A recorded lab, replayed: by the clock, forwards, backwards, and as of any moment."""

from __future__ import annotations

from pathlib import Path

import pytest
from kernel_lab.engine.errors import LabFolderError, UsageError
from kernel_lab.engine.ledger import projections, replay
from kernel_lab.engine.ledger.replay import ReplayReader
from kernel_lab.engine.ledger.store import Ledger
from ledger_data import created, life, source, sources


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """Six experiments; one event a second, an hour between experiments."""
    clock = Clock()
    clock.now = 4e9
    with Ledger.create(tmp_path / "lab.db", blobs=sources(range(1, 7))) as ledger:
        ledger.clock = clock
        ledger.append([created()])
        for n in range(1, 7):
            clock.now += 3600
            status, champion = ("seed", None) if n == 1 else ("keep", n - 1) if n % 2 else ("discard", None)
            for event in life(n, parent=None if n == 1 else 1, status=status, champion=champion):
                clock.now += 1
                ledger.append([event])
    return ledger.path


def test_it_plays_by_the_clock_and_shortens_long_pauses(recording: Path) -> None:
    clock = Clock()
    player = ReplayReader(recording, clock=clock, max_gap_s=10.0)
    assert player.poll() == []
    player.play()
    assert [record.seq for record in player.poll()] == [1]
    clock.now += 9.9
    assert player.poll() == []
    clock.now += 0.2
    assert [record.type for record in player.poll()] == ["experiment_started"]
    clock.now += 2.0
    assert len(player.poll()) == 2
    player.pace = 4.0
    clock.now += 1.0
    assert len(player.poll()) == 4
    player.pause()
    clock.now += 1000
    assert player.poll() == []
    player.play()
    clock.now += 0.25
    assert len(player.poll()) == 1
    assert player.position == player.last_seq() == player.view().last_seq == 9
    clock.now += 1e6
    while player.playing:
        player.poll(limit=7)
    assert player.ended


def test_at_every_position_it_answers_as_the_lab_did_then(recording: Path, tmp_path: Path) -> None:
    player = ReplayReader(recording.parent)
    with Ledger.create(tmp_path / "then.db", blobs=sources(range(1, 7))) as then:
        for record in player._source.records():
            then.clock = lambda at=record.time: at
            assert record.event is not None
            then.append([record.event])
            player.seek(record.seq)
            assert player.view() == then.view()
            assert player.experiments() == then.experiments()
            assert player.records(after=3) == then.records(after=3)
            assert [player.speed(n) for n in range(1, 7)] == [then.speed(n) for n in range(1, 7)]
            assert player.open_questions() == then.open_questions()
    assert player.blob(player.experiments()[0].source_sha or "") == source(1)
    assert not player.view().engine_alive
    assert player.verify() == player.length


def test_seeking_back_starts_from_a_snapshot(recording: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "MIN_SNAPSHOT_EVENTS", 10)
    player = ReplayReader(recording)
    states = {}
    for seq in range(player.length + 1):
        player.seek(seq)
        states[seq] = (player.view(), player.experiments())
    applied = []
    really = projections.apply
    monkeypatch.setattr(
        projections, "apply", lambda tables, record: (applied.append(record), really(tables, record))
    )
    for seq in range(player.length, -1, -1):
        applied.clear()
        player.seek(seq)
        assert (player.view(), player.experiments()) == states[seq]
        assert len(applied) <= 10
    player.seek(10**9)
    assert player.position == player.length


def test_it_finds_an_experiment(recording: Path) -> None:
    player = ReplayReader(recording)
    player.seek_experiment(3)
    row = player.experiment(3)
    assert row is not None
    assert row.status == "keep"
    assert player.experiment(4) is None
    with pytest.raises(UsageError, match="up to #6"):
        player.seek_experiment(99)


def test_playing_leaves_no_trace_beside_the_recording(recording: Path) -> None:
    player = ReplayReader(recording)
    player.seek(player.length)
    assert [entry.name for entry in recording.parent.iterdir()] == ["lab.db"]
    player.close()
    assert [entry.name for entry in recording.parent.iterdir()] == ["lab.db"]


def test_wrong_use_is_told(recording: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="more than 0"):
        ReplayReader(recording).pace = 0
    with pytest.raises(LabFolderError, match="does not exist"):
        ReplayReader(tmp_path / "nothing.db")
