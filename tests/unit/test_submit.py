"""A person's own candidate: queued durably, judged next whoever proposes otherwise, and lost by no kill."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from kernel_lab.engine import commands as c
from kernel_lab.engine.candidate import parse, with_config
from kernel_lab.engine.errors import LabError
from kernel_lab.engine.events import Event, IdeaUsed
from kernel_lab.engine.lab import Lab, open_lab
from kernel_lab.engine.ledger.store import Ledger
from kernel_lab.engine.proposers.base import Proposer
from kernel_lab.engine.proposers.manual import Manual
from kernel_lab.engine.tasks import load_task
from test_loop import TASK, Killed, Script, make_lab, make_loop, run, statuses, story

OTHER = "gqa_decode"


def own(task: str = TASK, **switches: Any) -> str:
    """The seed with some switches turned."""
    spec = load_task(task)
    seed = parse(spec.seed_source, spec.entry)
    return with_config(seed, {**seed.config, "*": {**seed.config["*"], **switches}})


def hand_in(lab: Lab, source: str, what: str, ideas: tuple[int, ...] = (), task: str = TASK) -> int:
    return lab.ledger.send(c.Submit(task, source, what, ideas), "person")


def test_candidates_are_judged_in_their_order_before_the_proposer_is_asked(tmp_path: Path) -> None:
    lab = make_lab(tmp_path / "lab", mode="ask")
    lab.ledger.send(c.Say("skip blocks"), "person")
    lab.ledger.send(c.Say("two loops"), "person")
    numbers = [hand_in(lab, own(SKIP=True), "Skip\nblocks.", (1,)), hand_in(lab, own(TWO_LOOPS=True), "Two")]
    lab.ledger.send(c.SetMode("auto"), "person")
    script = Script([])
    run(lab, script)
    answers = [lab.ledger.command_result(number) for number in numbers]
    assert answers == [
        f"the candidate is the next experiment of {TASK}",
        f"the candidate is the next experiment of {TASK}, behind 1 handed in before it",
    ]
    rows = lab.ledger.experiments()
    assert [(row.proposer, row.status) for row in rows] == [
        ("seed", "seed"),
        ("person", "keep"),
        ("person", "discard"),
    ]
    assert [row.description for row in rows[1:]] == ["Skip blocks.", "Two"]
    assert rows[1].trials > 0, "trials settle the tunables of a person's candidate too"
    used = [record.event for record in lab.ledger.records() if isinstance(record.event, IdeaUsed)]
    assert [(event.idea, event.experiment) for event in used] == [(1, 2)]
    assert lab.ledger.submissions() == lab.ledger.view().submissions == ()
    # The idea that another candidate answers was never offered to the proposer.
    assert [[idea.id for idea in request.ideas] for request in script.requests] == [[2]]


def test_mode_ask_does_not_ask_whether_a_persons_own_candidate_may_be_judged(tmp_path: Path) -> None:
    lab = make_lab(tmp_path / "lab", mode="ask")
    hand_in(lab, own(DESCRIPTORS=True), "slower")
    assert run(lab, Script([])).reason == "exhausted"
    assert statuses(lab.ledger) == ["seed", "discard"]


def test_an_exhausted_proposer_is_asked_again_after_a_persons_candidate(tmp_path: Path) -> None:
    lab = make_lab(tmp_path / "lab")
    run(lab, Script([]))
    hand_in(lab, own(SKIP=True), "Skip.")
    script = Script([])
    assert run(lab, script).reason == "exhausted"
    assert script.requests[0].champion.id == 2


def test_it_is_the_next_experiment_of_its_task_whatever_the_balance_of_tasks(tmp_path: Path) -> None:
    lab = make_lab(tmp_path / "lab", tasks=(TASK, OTHER))
    hand_in(lab, own(OTHER, EXP2=True), "Exp2.", task=OTHER)
    run(lab, Script([]))
    rows = [row for row in lab.ledger.experiments() if row.parent is not None]
    assert [(row.task, row.proposer) for row in rows] == [(OTHER, "person")]


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (c.Submit(TASK, "no python (", "x"), "syntax error"),
        (c.Submit(TASK, own(OTHER), "x"), "no entry function attention"),
        (c.Submit(TASK, own(), "x", (9,)), "there is no open idea 9"),
        (c.Submit("softmax", own(), "x"), f"no task 'softmax': use one of {TASK}"),
    ],
)
def test_what_cannot_be_judged_is_refused_at_once(tmp_path: Path, command: c.Submit, said: str) -> None:
    lab = make_lab(tmp_path / "lab")
    run(lab, Script([]))
    number = lab.ledger.send(command, "person")
    make_loop(lab, Script([])).control.obey_all()
    assert said in (lab.ledger.command_result(number) or "")
    assert lab.ledger.submissions() == ()


def waiting_by_hand(lab: Lab, then: Callable[[], None]) -> Any:
    """Run the lab with a person's editor as proposer; `then` once it waits for them."""

    async def go() -> Any:
        manual: Proposer = Manual(lab.path / "manual")
        running = asyncio.create_task(make_loop(lab, manual).run())  # type: ignore[arg-type]
        until = time.monotonic() + 20
        while not list((lab.path / "manual").glob("*.py")):
            assert time.monotonic() < until and not running.done()
            await asyncio.sleep(0.02)
        then()
        return await asyncio.wait_for(running, 20)

    return asyncio.run(go())


def test_a_proposer_that_waits_for_a_person_does_not_hold_a_candidate_up(tmp_path: Path) -> None:
    lab = make_lab(tmp_path / "lab", budget=1)
    assert waiting_by_hand(lab, lambda: hand_in(lab, own(SKIP=True), "Skip.") and None).reason == "budget"
    assert [row.proposer for row in lab.ledger.experiments()] == ["seed", "person"]
    assert [path.name for path in (lab.path / "manual").iterdir()] == [f"{TASK}-2.py"]


def test_a_kill_at_every_recorded_step_loses_and_doubles_no_candidate(tmp_path: Path) -> None:
    def prepared(folder: Path) -> Lab:
        lab = make_lab(folder / "lab", trials=1)
        lab.ledger.send(c.Say("skip blocks"), "person")
        hand_in(lab, own(SKIP=True), "Skip.", (1,))
        hand_in(lab, own(), "The seed again.")
        return lab

    whole = prepared(tmp_path / "whole")
    run(whole, Script([]))
    expected = story(whole.ledger)
    assert statuses(whole.ledger) == ["seed", "keep", "discard"]
    lab = prepared(tmp_path / "killed")
    append = Ledger.append
    kills = 0
    while True:
        budget = 1

        def dying(self: Ledger, events: Sequence[Event], **rest: Any) -> Any:
            nonlocal budget
            if budget == 0:
                raise Killed
            budget -= 1
            return append(self, events, **rest)

        loop = make_loop(lab, Script([]))
        lab.ledger.append = dying.__get__(lab.ledger)  # type: ignore[method-assign]
        try:
            asyncio.run(loop.run())
            break
        except Killed:
            kills += 1
            lab.close()
            lab = open_lab(lab.path)
    assert kills > 20
    assert story(lab.ledger) == expected
    lab.ledger.verify()


def test_only_a_labs_folder_takes_candidates(tmp_path: Path) -> None:
    from kernel_lab.engine import session

    with pytest.raises(LabError):
        session.send(tmp_path, c.Submit(TASK, own(), "x"), "person")
