"""State of a lab as the screens know it: what an update changes, and the story of one experiment."""

from __future__ import annotations

from pathlib import Path

from fake_lab import FakeLab, source
from kernel_lab.engine import events as e
from kernel_lab.engine.facts import Check, Reason
from kernel_lab.tui.detail import fold
from kernel_lab.tui.feed import Feed
from kernel_lab.tui.history import history_row, why_of
from kernel_lab.tui.model import LabModel, Update


def test_rows_and_marks_follow_the_champion(lab: FakeLab) -> None:
    model = LabModel()
    model.apply(Update(reset=True, view=lab.ledger.view(), rows=tuple(lab.ledger.experiments())))
    assert model.history[1].champion and model.history[2].champion
    number = lab.begin()
    lab.judge(number, "gqa_decode", 1.2)
    lab.finish(number, "keep", Reason("speed", "threshold", "estimated 1.200 × the champion"))
    row = lab.ledger.experiment(number)
    assert row is not None
    parts = model.apply(Update(view=lab.ledger.view(), rows=(row,)))
    assert {"rows", "scores", "view"} <= parts
    assert {changed.experiment for changed in model.changed_rows} >= {1, number}
    assert not model.history[1].champion and model.history[number].champion
    assert model.apply(Update(view=lab.ledger.view())) == frozenset()


def test_what_is_being_proposed_is_no_recorded_experiment(lab: FakeLab) -> None:
    model = LabModel()
    model.apply(Update(reset=True, rows=tuple(lab.ledger.experiments())))
    model.apply(Update(now={"experiment": 3, "phase": "propose", "text": "x"}))
    assert model.proposing == 3
    model.apply(Update(now={"experiment": 2, "phase": "propose"}))
    assert model.proposing is None


def test_an_edit_begins_the_checks_anew(lab: FakeLab) -> None:
    number = lab.begin()
    lab.gates(number)
    lab.ask(number)
    edited = source(77).encode()
    lab.write(e.Decided(number, "proposal", "edit", "person", "", "ed" * 32), blobs=[edited])
    detail = fold(number, ((r.time, r.event) for r in lab.ledger.records(experiment=number)))
    assert detail.source_sha == "ed" * 32 and detail.asked is None
    assert detail.checks == {} and detail.gates == {}
    assert detail.gate_state("quick") == ""
    detail.apply(0.0, e.Checked(number, Check("quick", "case", "values", "pass")))
    assert detail.gate_state("quick") == "running"


def test_why_is_one_plain_sentence(lab: FakeLab) -> None:
    number = lab.begin(description="Split\nthe keys")
    lab.finish(number, "oom", Reason("screen", "oom", "needs 131,074 B of\tshared memory"))
    row = lab.ledger.experiment(number)
    assert row is not None
    assert why_of(row) == "needs 131,074 B of shared memory. Tried: Split the keys"
    assert history_row(row, {}).searched.startswith(f"#{number} gqa_decode oom split_kv search")


async def test_the_feed_reads_older_rows_after_the_first_page_and_then_only_what_is_new(
    lab: FakeLab, tmp_path: Path
) -> None:
    import asyncio

    from kernel_lab.engine.session import Reader

    lab.bulk(700)
    updates: list[Update] = []
    feed = Feed(lambda: Reader(lab.folder, after=None), updates.append, lambda error: None)
    running = asyncio.create_task(feed.run())

    async def until(count: int) -> None:
        for _ in range(400):
            if len(updates) >= count:
                return
            await asyncio.sleep(0.02)
        raise AssertionError(f"only {len(updates)} updates")

    await until(2)
    assert updates[0].reset and len(updates[0].rows) == 300 and updates[0].rows[-1].id == 702
    assert [row.id for row in updates[1].rows] == list(range(1, 403))
    number = lab.begin()
    await until(3)
    assert [row.id for row in updates[2].rows] == [number]
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
