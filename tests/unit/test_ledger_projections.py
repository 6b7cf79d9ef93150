"""Projections follow from the events: written along, rebuilt, replayed and resumed they are the same."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kernel_lab.engine import events as e
from kernel_lab.engine.facts import Check, Prediction, Reason
from kernel_lab.engine.ledger import schema
from kernel_lab.engine.ledger.replay import ReplayReader
from kernel_lab.engine.ledger.store import Ledger
from ledger_data import EVENTS, created, life, source, sources


def tables(reader: Any) -> dict[str, list[tuple[Any, ...]]]:
    names = (name for name in schema.PROJECTION_TABLES if name != "meta")
    held = {name: reader.fetch(f"SELECT * FROM {name} ORDER BY 1, 2") for name in names}  # noqa: S608
    held["meta"] = reader.fetch("SELECT key, value FROM meta WHERE key != 'projections' ORDER BY key")
    return held


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(EVENTS, max_size=30), st.data())
def test_any_sequence_of_events_gives_the_same_tables_in_every_way(
    happened: list[e.Event], data: st.DataObject
) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(happened)), max_size=3).map(sorted))
    with TemporaryDirectory() as folder:
        with Ledger.create(Path(folder) / "lab.db") as ledger:
            ledger.connection.execute("PRAGMA synchronous = OFF")
            ledger.append([], blobs=sources(range(1, 7)))
            for start, end in zip([0, *cuts], [*cuts, len(happened)], strict=True):
                ledger.append(happened[start:end])
            written = tables(ledger)
            ledger.rebuild()
            assert tables(ledger) == written
            assert ledger.verify() == len(happened)
            # Every question has an answer, whatever happened.
            ledger.view(), ledger.experiments(), ledger.ideas(), ledger.open_questions()
            for n in range(1, 7):
                (
                    ledger.experiment(n),
                    ledger.trials(n),
                    ledger.checks(n),
                    ledger.speed(n),
                    ledger.descendants(n),
                )
        replay = ReplayReader(Path(folder) / "lab.db")
        replay.seek(len(happened))
        assert tables(replay) == written
        replay.close()


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    ledger = Ledger.create(tmp_path / "lab.db", [created()])
    ledger.append(life(1, parent=None, status="seed"), blobs=sources(range(1, 10)))
    return ledger


def test_an_experiment_says_where_it_is_until_it_has_a_verdict(ledger: Ledger) -> None:
    steps = [
        (e.ExperimentStarted(2, "gqa_decode", 1, "search"), "proposing"),
        (life(2)[1], "scope"),
        (e.GateFinished(2, "lint", True, None), "screen"),
        (e.Checked(2, Check("quick", "a", "values", "pass")), "quick"),
        (e.ApprovalRequested(2, "proposal", "s", "ask"), "person"),
        (e.Decided(2, "proposal", "approve", "ann", "", "s"), "trials"),
        (e.GateFinished(2, "trials", True, None), "correctness"),
        (
            e.GateFinished(2, "correctness", False, "incorrect", (Reason("correctness", "values", "row 3"),)),
            "correctness",
        ),
    ]
    for event, phase in steps:
        ledger.append([event])
        row = ledger.experiment(2)
        assert row is not None
        assert (row.status, row.phase) == ("running", phase)
    assert [running.id for running in ledger.running()] == [2]
    ledger.append([e.ExperimentFinished(2, "incorrect", (Reason("correctness", "values", "row 3"),), None)])
    row = ledger.experiment(2)
    assert row is not None
    assert (row.status, row.phase, row.reasons[0].detail) == ("incorrect", "", "row 3")
    assert row.finished is not None
    assert row.prediction == Prediction(3.0, "dram")
    assert ledger.running() == []
    assert ledger.counts() == {"seed": 1, "incorrect": 1}


def test_questions_close_with_their_answer_or_with_the_verdict(ledger: Ledger) -> None:
    for n in (2, 3, 4):
        ledger.append(
            [e.ExperimentStarted(n, "gqa_decode", 1, "search"), e.ApprovalRequested(n, "keep", "s", "fast")]
        )
    assert [(q.experiment, q.kind) for q in ledger.open_questions()] == [
        (2, "keep"),
        (3, "keep"),
        (4, "keep"),
    ]
    ledger.append([e.Decided(2, "keep", "reject", "ann", "no", "s")])
    ledger.append([e.ExperimentFinished(3, "interrupted", (), None)])
    ledger.append(
        [e.ApprovalRequested(4, "hold", "s", "too fast"), e.ExperimentFinished(4, "held", (), None)]
    )
    assert [(q.experiment, q.kind) for q in ledger.open_questions()] == [(4, "hold")]
    ledger.append([e.StatusRevised(4, "vetoed", "ann", "smells", "cheat")])
    assert ledger.open_questions() == []
    row = ledger.experiment(4)
    assert row is not None
    assert row.reasons == (Reason("person", "cheat", "smells"),)


def test_a_trial_told_twice_counts_once(ledger: Ledger) -> None:
    trial = life(2, trials=1)[2]
    ledger.append([life(2)[0], trial, trial])
    row = ledger.experiment(2)
    assert row is not None
    assert row.trials == 1 == len(ledger.trials(2))
    assert ledger.trials(2)[0].values == {"BLOCK": 0}


def test_a_space_is_explored_until_something_new_is_tried(ledger: Ledger) -> None:
    ledger.append([e.SpaceExplored(task, "an idea would help") for task in ("gqa_decode", "gqa_prefill")])
    assert set(ledger.view().explored) == {"gqa_decode", "gqa_prefill"}
    ledger.append([e.ExperimentStarted(2, "gqa_decode", 1, "search")])
    assert ledger.view().explored == {"gqa_prefill": "an idea would help"}


def test_ideas_wait_until_used_or_withdrawn(ledger: Ledger) -> None:
    ledger.append(
        [
            e.IdeaSaid(1, "once", "next", None, "ann"),
            e.IdeaSaid(2, "always", "always", None, "ann"),
            e.IdeaSaid(3, "gone", "from", 1, "ann"),
            e.IdeaUsed(1, 4),
            e.IdeaUsed(2, 4),
            e.IdeaUsed(2, 5),
            e.IdeaWithdrawn(3, "ann"),
        ]
    )
    assert [(idea.used_by, idea.withdrawn, idea.waiting) for idea in ledger.ideas()] == [
        ((4,), False, False),
        ((4, 5), False, True),
        ((), True, False),
    ]


# ---- the champion line -----------------------------------------------------------------------------


def kept(ledger: Ledger, n: int, previous: int, parent: int | None = None) -> None:
    ledger.append(life(n, parent=previous if parent is None else parent, status="keep", champion=previous))


def test_the_line_grows_by_keeps_and_ends_where_a_veto_cuts_it(ledger: Ledger) -> None:
    kept(ledger, 2, 1)
    ledger.append(life(3, parent=2))
    kept(ledger, 4, 2)
    kept(ledger, 5, 4)
    assert ledger.champion_line("gqa_decode") == [1, 2, 4, 5]
    assert ledger.view().champions == {"gqa_decode": 5}
    assert ledger.descendants(2) == [3, 4, 5]
    ledger.append([e.StatusRevised(4, "vetoed", "ann", "cheats", "cheat")])
    assert ledger.champions() == {"gqa_decode": 2}
    ledger.append([e.ChampionChanged("gqa_decode", 2, 5, "veto of #4")])
    assert ledger.champion_line("gqa_decode") == [1, 2]
    kept(ledger, 6, 2)
    assert ledger.champion_line("gqa_decode") == [1, 2, 6]


def test_a_keep_that_comes_back_stands_on_the_clean_line(ledger: Ledger) -> None:
    kept(ledger, 2, 1)
    kept(ledger, 3, 2)
    ledger.append(
        [e.StatusRevised(2, "vetoed", "ann", "smells"), e.ChampionChanged("gqa_decode", 1, 3, "veto")]
    )
    ledger.append([e.ChampionChanged("gqa_decode", 3, 1, "judged again on #1")])
    assert ledger.champion_line("gqa_decode") == [1, 3]
    ledger.append(
        [e.StatusRevised(2, "keep", "ann", "was fine"), e.ChampionChanged("gqa_decode", 2, 3, "kept")]
    )
    assert ledger.champion_line("gqa_decode") == [1, 3, 2]


def test_tasks_have_lines_of_their_own(ledger: Ledger) -> None:
    ledger.append(life(2, task="gqa_prefill", parent=None, status="seed"))
    kept(ledger, 3, 1)
    assert ledger.champions() == {"gqa_decode": 3, "gqa_prefill": 2}


def test_a_champion_named_before_its_verdict_gets_the_same_commit(tmp_path: Path) -> None:
    commits = []
    for name, order in (("a", (-2, -1)), ("b", (-1, -2))):
        with Ledger.create(tmp_path / name, [created()], blobs=sources([1, 2])) as ledger:
            ledger.clock = lambda: 4e9
            ledger.append(life(1, parent=None, status="seed"))
            happened = life(2, status="keep", champion=1)
            ledger.append([*happened[:-2], happened[order[0]], happened[order[1]]])
            row = ledger.experiment(2)
            assert row is not None
            commits.append(row.commit)
    assert commits[0] == commits[1] is not None


def test_an_experiment_without_a_candidate_has_no_commit(ledger: Ledger) -> None:
    ledger.append(
        [e.ExperimentStarted(2, "gqa_decode", 1, "search"), e.ExperimentFinished(2, "invalid", (), None)]
    )
    row = ledger.experiment(2)
    assert row is not None
    assert row.commit is None
    assert source(2)  # the text exists, but nobody proposed it
