"""What people say reaches the very next proposal, and where they want to start from is where it starts."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from kernel_lab.engine import commands as c
from kernel_lab.engine.bench import LabBench
from kernel_lab.engine.candidate import parse
from kernel_lab.engine.events import IdeaSaid, IdeaUsed, Notice, PlateauReached, StatusRevised
from kernel_lab.engine.facts import Prediction
from kernel_lab.engine.lab import Lab, open_lab, write_config
from kernel_lab.engine.proposers.agent.context import build_context
from kernel_lab.engine.proposers.base import Exhausted, Proposal, ProposalRequest, Say
from kernel_lab.engine.proposers.scripted import Scripted
from kernel_lab.engine.session import Reader
from kernel_lab.tui.cli import main
from test_loop import TASK, Script, answering, make_lab, make_loop, run, statuses


def obey(lab: Lab, *commands: c.Command) -> None:
    control = make_loop(lab, Script([])).control
    for command in commands:
        number = lab.ledger.send(command, "person")
        control.obey(number, command, "person")
        assert not (lab.ledger.command_result(number) or "").startswith("refused")


def settings(source: str) -> dict[str, Any]:
    return parse(source, "attention").config["*"]


def test_an_idea_from_an_older_experiment_makes_the_next_proposal_start_there(tmp_path: Path) -> None:
    lab = make_lab(tmp_path / "lab", budget=2)
    run(lab, Script([{"SKIP": True}, {"TWO_LOOPS": True}]))
    assert lab.ledger.champions() == {TASK: 3}
    obey(lab, c.Say("fold the scale in", "from", 1), c.Say("later, from two", "from", 2))
    later = Script([{}, {}, {"EXP2": True}, {"EXP2": True}])
    lab = _resumed(lab, budget=4)
    run(lab, later)
    first, second = later.requests[:2]
    assert (first.start.id, first.champion.id, second.start.id) == (1, 3, 2)
    assert [idea.text for idea in first.ideas] == ["fold the scale in"]
    assert not settings(first.start_source).get("SKIP")
    assert settings(first.champion_source)["SKIP"]
    rows = lab.ledger.experiments()
    assert [row.parent for row in rows] == [None, 1, 2, 1, 2]
    assert rows[3].status == "discard"  # slower than the champion, though faster than where it started
    assert [idea.used_by for idea in lab.ledger.ideas()] == [(4,), (5,)]
    changing = build_context(first, token_budget=99_999).changing
    assert "starting from #1" in changing
    assert first.start_source in changing
    assert first.champion_source in changing


def _resumed(lab: Lab, **limits: Any) -> Lab:
    write_config(lab.path, replace(lab.config, **limits))
    lab.close()
    return open_lab(lab.path)


class Spent:
    """Knows something new only from the champion."""

    name = "spent"

    def __init__(self) -> None:
        self.starts: list[int] = []

    async def propose(self, request: ProposalRequest, say: Say) -> Proposal | Exhausted:
        self.starts.append(request.start.id)
        if request.parent is not None:
            return Exhausted("nothing from here")
        source = request.start_source + f"\nX_{request.experiment} = {request.experiment}\n"
        return Proposal(source, "a constant", "", Prediction(None, None), "constant")


def test_where_nothing_new_is_known_the_idea_waits_and_the_loop_goes_on(tmp_path: Path) -> None:
    lab = make_lab(tmp_path / "lab", budget=1)
    run(lab, Script([{"SKIP": True}]))
    obey(lab, c.Say("use the copy engine", "from", 1))
    lab = _resumed(lab, budget=3)
    proposer = Spent()
    run(lab, proposer)  # type: ignore[arg-type]
    assert proposer.starts == [1, 2, 2]
    notices = [r.event.text for r in lab.ledger.records() if isinstance(r.event, Notice)]
    assert "idea 1 goes on waiting: spent knows nothing new to try from #1" in notices
    assert lab.ledger.ideas()[0].waiting


def test_an_idea_from_the_champion_does_not_keep_a_loop_going_that_has_nothing_to_propose(
    tmp_path: Path,
) -> None:
    lab = make_lab(tmp_path / "lab")
    run(lab, Script([{"SKIP": True}]))
    obey(lab, c.Say("use the copy engine", "from", 2))
    ended = run(lab, Script([{"SKIP": True}]))
    assert ended.reason == "exhausted"
    assert lab.ledger.ideas()[0].waiting


def test_what_is_said_while_a_proposal_streams_is_in_the_next_request_and_seen_elsewhere_within_a_second(
    tmp_path: Path,
) -> None:
    """An idea while #2 streams, and a veto of #2 while #3 does, which is built on it."""
    lab = make_lab(tmp_path / "lab", budget=3)
    said = {
        2: c.Say('swap "operands" <b>\n  exactly so'),
        3: c.Veto(2, "reads <too> far,\n  I think", "bug"),
    }
    asked: list[ProposalRequest] = []
    sent: dict[int, float] = {}
    seen: dict[type, tuple[float, Any]] = {}

    class Interrupted(Scripted):
        async def propose(self, request: ProposalRequest, say: Say) -> Any:
            asked.append(request)
            if request.experiment in said:
                asyncio.get_running_loop().call_later(0.3, interrupt, request.experiment)
            return await super().propose(request, say)

    def interrupt(experiment: int) -> None:
        assert "thinking" in str(lab.ledger.now()["text"])
        lab.ledger.send(said[experiment], "another terminal")
        sent[experiment] = time.monotonic()

    slow = {"text": ["thinking"] * 4, "delay_s": 0.15, "ideas": True}
    steps = [{"config": {"*": {switch: True}}, **slow} for switch in ("SKIP", "TWO_LOOPS", "EXP2")]

    async def go() -> None:
        running = asyncio.create_task(make_loop(lab, Interrupted(steps)).run())  # type: ignore[arg-type]
        with closing(Reader(lab.path)) as terminal:
            while not running.done():
                for record in terminal.poll():
                    seen.setdefault(type(record.event), (time.monotonic(), record.event))
                await asyncio.sleep(0.02)
        running.result()

    asyncio.run(go())
    assert [[idea.text for idea in request.ideas] for request in asked] == [[], [said[2].text], []]  # type: ignore[union-attr]
    contexts = [build_context(request, token_budget=99_999).changing for request in asked]
    assert 'swap "operands" <b>\n  exactly so' in contexts[1]
    assert "reads <too> far,\n  I think" in contexts[2]
    assert lab.ledger.ideas()[0].used_by == (3,)
    assert seen[IdeaUsed][1] == IdeaUsed(1, 3)
    assert seen[IdeaSaid][0] - sent[2] < 1.0
    assert seen[StatusRevised][0] - sent[3] < 1.0
    assert statuses(lab.ledger) == ["seed", "vetoed", "held", "keep"]
    assert (
        lab.ledger.experiments()[2].reasons[0].detail.startswith("built on #2, which was vetoed: reads <too>")
    )
    assert (lab.ledger.champion_line(TASK), asked[2].champion.id) == ([1, 4], 1)


def test_the_reasons_of_a_veto_and_a_reject_are_in_the_next_request_verbatim(tmp_path: Path) -> None:
    lab = make_lab(tmp_path / "lab", budget=2)
    run(lab, Script([{"SKIP": True}, {"TWO_LOOPS": True}]))
    obey(lab, c.Veto(3, 'reads "beyond" the length,\nI think', "bug"))
    lab = _resumed(lab, budget=3)
    script = Script([{}, {}, {"EXP2": True}])
    run(lab, script)
    changing = build_context(script.requests[0], token_budget=99_999).changing
    assert 'reads "beyond" the length,\nI think' in changing
    assert '#3 (lever "TWO_LOOPS": "turn {\'TWO_LOOPS\': True}") was vetoed by a person as bug: ' in changing
    assert script.requests[0].champion.id == 2


def test_the_reason_of_a_reject_is_in_the_next_request_verbatim(tmp_path: Path) -> None:
    lab = make_lab(tmp_path / "lab", mode="ask", budget=2)
    script = Script([{"SKIP": True}, {"TWO_LOOPS": True}])
    answers = [c.Reject(2, "not before <the> split\nis right"), c.Reject(3, "no")]
    asyncio.run(answering(lab, make_loop(lab, script), answers))
    assert statuses(lab.ledger) == ["seed", "rejected", "rejected"]
    changing = build_context(script.requests[1], token_budget=99_999).changing
    assert "was rejected by a person: not before <the> split\nis right" in changing


def test_ideas_are_changed_and_ordered_while_they_wait_and_not_after(tmp_path: Path) -> None:
    lab = make_lab(tmp_path / "lab", budget=1)
    run(lab, Script([{"EXP2": True}]))
    obey(lab, c.Say("one"), c.Say("two"), c.Say("three", "always"))
    obey(lab, c.MoveIdea(3, 1), c.EditIdea(2, "two, in other words\n"), c.MoveIdea(1, 99))
    assert [(idea.id, idea.text) for idea in lab.ledger.ideas()] == [
        (3, "three"),
        (2, "two, in other words"),
        (1, "one"),
    ]
    lab = _resumed(lab, budget=2)
    script = Script([{}, {"SKIP": True}])
    run(lab, script)
    assert [idea.text for idea in script.requests[0].ideas] == ["three", "two, in other words", "one"]
    control = make_loop(lab, Script([])).control
    for command in (c.EditIdea(2, "too late"), c.MoveIdea(2, 1), c.EditIdea(9, "x"), c.EditIdea(3, " ")):
        number = lab.ledger.send(command, "person")
        control.obey(number, command, "person")
        assert (lab.ledger.command_result(number) or "").startswith("refused: ")
    assert lab.ledger.ideas()[1].used_by == (3,)
    lab.ledger.verify()


def test_an_idea_that_is_changed_while_a_proposal_streams_waits_for_the_next(tmp_path: Path) -> None:
    lab = make_lab(tmp_path / "lab", budget=2)

    class Changing(Script):
        async def propose(self, request: ProposalRequest, say: Say) -> Any:
            answer = await super().propose(request, say)
            if request.experiment == 2:
                number = lab.ledger.send(c.EditIdea(1, "new words"), "person")
                loop.control.obey(number, c.EditIdea(1, "new words"), "person")
            return answer

    script = Changing([{"EXP2": True}, {"SKIP": True}])
    lab.ledger.send(c.Say("old words"), "person")
    loop = make_loop(lab, script)
    for pending in lab.ledger.pending_commands():
        loop.control.obey(pending.id, pending.command, pending.by)
    asyncio.run(loop.run())
    assert [[idea.text for idea in request.ideas] for request in script.requests] == [
        ["old words"],
        ["new words"],
    ]
    assert lab.ledger.ideas()[0].used_by == (3,)


def test_a_plateau_is_said_widens_and_asks_the_person_until_somebody_speaks(tmp_path: Path) -> None:
    lab = make_lab(tmp_path / "lab", budget=6, plateau=3)
    slower = [{"SKIP": True}, {"DESCRIPTORS": True}]
    script = Script([*slower, "\nA = 1\n", "\nB = 1\n", "\nC = 1\n", "\nD = 1\n"])
    run(lab, script)
    assert statuses(lab.ledger) == ["seed", "keep", *["discard"] * 5]
    reached = [r.event for r in lab.ledger.records() if isinstance(r.event, PlateauReached)]
    assert [(event.experiment, event.experiments, event.levers) for event in reached] == [
        (5, 3, ("DESCRIPTORS", "text"))
    ]
    assert [(q.experiment, q.kind) for q in lab.ledger.open_questions()] == [(2, "plateau")]
    assert [request.start.id for request in script.requests] == [1, 2, 2, 2, 4, 2]
    hint = script.requests[4].plateau
    assert hint is not None
    assert hint.branched
    assert "Turn another lever" in build_context(script.requests[5], token_budget=99_999).changing
    obey(lab, c.SetMode("auto"))
    assert lab.ledger.open_questions() != []
    obey(lab, c.Say("try split keys"))
    assert lab.ledger.open_questions() == []


def test_a_veto_leaves_a_later_champion_that_was_not_built_on_it(tmp_path: Path) -> None:
    lab = make_lab(tmp_path / "lab", budget=1)
    run(lab, Script([{"EXP2": True}]))
    obey(lab, c.Say("skip instead", "from", 1))
    lab = _resumed(lab, budget=2)
    run(lab, Script([{}, {"SKIP": True}]))
    assert lab.ledger.champion_line(TASK) == [1, 2, 3]
    obey(lab, c.Veto(2, "smells"))
    assert lab.ledger.champion_line(TASK) == [1, 3]
    assert statuses(lab.ledger) == ["seed", "vetoed", "keep"]
    lab.ledger.verify()


def test_the_context_command_prints_what_the_next_request_shows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lab = make_lab(tmp_path / "lab", budget=2)
    run(lab, Script([{"SKIP": True}, {"DESCRIPTORS": True}]))
    obey(lab, c.Say("fold <the> scale", "from", 1), c.Say("for all", "always"))
    lab.close()
    assert main(["context", "--lab", str(lab.path), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert main(["context", "--lab", str(lab.path)]) == 0
    plain = capsys.readouterr()
    lab = _resumed(open_lab(lab.path), budget=3)
    script = Script([{}, {}, {"EXP2": True}])
    run(lab, script)
    real = build_context(script.requests[0], token_budget=printed["token_budget"])
    assert (printed["prefix"], printed["changing"]) == (real.prefix, real.changing)
    assert (printed["task"], printed["experiment"]) == (TASK, 4)
    assert "fold <the> scale" in plain.out
    assert "tokens of 40,000" in plain.err
    assert main(["context", "--lab", str(lab.path), "--tokens", "2000", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["dropped"][0] == "Model shortened"


def test_a_proposal_under_way_hears_new_and_changed_ideas_but_not_where_to_start_the_next(
    tmp_path: Path,
) -> None:
    lab = make_lab(tmp_path / "lab", budget=1)
    run(lab, Script([{"EXP2": True}]))
    obey(lab, c.Say("before"))
    control = make_loop(lab, Script([])).control
    bench = LabBench(lab.ledger, cast(Any, None), control, experiment=3, champion_us={}, lab_seed=0)
    obey(
        lab, c.Say("now"), c.Say("elsewhere", "from", 1), c.Say("gone"), c.Withdraw(4), c.EditIdea(1, "after")
    )
    assert [(heard.idea, heard.text) for heard in bench.heard()] == [
        (2, "idea 2, for next: now"),
        (1, "idea 1 says now: after"),
    ]
    assert bench.heard() == []


def test_a_reason_as_long_as_a_book_is_refused(tmp_path: Path) -> None:
    lab = make_lab(tmp_path / "lab", budget=1)
    run(lab, Script([{"EXP2": True}]))
    number = lab.ledger.send(c.Veto(2, "x" * 20_001), "person")
    make_loop(lab, Script([])).control.obey(number, c.Veto(2, "x" * 20_001), "person")
    assert (lab.ledger.command_result(number) or "").startswith("refused: a reason has at most 20000")
    assert statuses(lab.ledger) == ["seed", "keep"]
