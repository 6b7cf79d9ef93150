"""Judging again: on a person's word, and after a veto; what falls is taken back, what is held stays held."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest
from fake_device import FakeDevice
from kernel_lab.engine import commands as c
from kernel_lab.engine.errors import HostDied
from kernel_lab.engine.events import Remeasured
from kernel_lab.engine.lab import Lab, open_lab
from kernel_lab.engine.ledger.store import Ledger
from kernel_lab.engine.receipt import NAME, parse
from test_loop import TASK, Script, make_lab, make_loop, run, statuses

STEPS = [{"EXP2": True}, {"SKIP": True}, {"TWO_LOOPS": True}, {"DESCRIPTORS": True}]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Seed #1, keeps #2 (EXP2), #3 (SKIP), #4 (TWO_LOOPS), discard #5."""
    lab = make_lab(tmp_path_factory.mktemp("again") / "lab", trials=1)
    run(lab, Script(STEPS))
    lab.close()
    return lab.path


@pytest.fixture
def lab(made: Path, tmp_path: Path) -> Lab:
    return open_lab(Path(shutil.copytree(made, tmp_path / "lab")))


def obey(lab: Lab, command: c.Command) -> str:
    number = lab.ledger.send(command, "person")
    make_loop(lab, Script([])).control.obey(number, command, "person")
    return lab.ledger.command_result(number) or ""


def outcomes(ledger: Ledger) -> list[Remeasured]:
    return [r.event for r in ledger.records() if isinstance(r.event, Remeasured)]


def test_a_win_that_holds_stays_and_each_time_draws_seeds_of_its_own(lab: Lab) -> None:
    for _ in range(2):
        assert obey(lab, c.Remeasure(3)) == "#3 is judged again after the running experiment"
        assert lab.ledger.view().remeasure == (3,)
        run(lab, Script(STEPS))
        assert lab.ledger.view().remeasure == ()
    first, second = outcomes(lab.ledger)
    assert (first.outcome, first.against, first.reasons) == ("survives", 2, ())
    assert first.gain == pytest.approx(1.6)
    assert first.checks_passed > 10
    assert first.seed != second.seed
    assert lab.ledger.champion_line(TASK) == [1, 2, 3, 4]
    assert statuses(lab.ledger) == ["seed", "keep", "keep", "keep", "discard"]


def test_a_champion_that_falls_gives_way_to_the_last_clean_one(lab: Lab) -> None:
    obey(lab, c.Remeasure(3))
    device = FakeDevice()
    # What #3 brought in fails now; #4 was built on it, passes itself, and waits for a person.
    device.failing = {lab.ledger.blob(_sha(lab, 3)).decode(): "confirm"}
    run(lab, Script(STEPS), device)
    rows = lab.ledger.experiments()
    assert [row.status for row in rows] == ["seed", "keep", "incorrect", "held", "discard"]
    assert lab.ledger.champion_line(TASK) == [1, 2]
    assert "judged again against #2: confirm compare" in rows[2].reasons[-1].detail
    question = lab.ledger.open_questions()[0]
    assert (question.experiment, question.kind) == (4, "hold")
    assert "built on #3, which fell when it was judged again" in question.reason
    assert "(judged again: survives, 1.760 × #2)" in question.reason
    assert lab.ledger.verify() == lab.ledger.last_seq()


def test_a_win_that_is_faster_no_more_is_discarded(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    obey(lab, c.Remeasure(4))
    monkeypatch.setattr("fake_device.GAIN", {"SKIP": 1.6, "EXP2": 1.04})
    run(lab, Script(STEPS))
    row = lab.ledger.experiment(4)
    assert row is not None and row.status == "discard"
    assert row.score["champion"] == pytest.approx(1.0)
    assert lab.ledger.champions() == {TASK: 3}


def test_what_was_built_on_a_vetoed_win_is_judged_on_the_last_clean_champion(lab: Lab) -> None:
    obey(lab, c.Veto(3, "smells", "cheat"))
    assert lab.ledger.view().remeasure == (4,)
    run(lab, Script(STEPS))
    [done] = outcomes(lab.ledger)
    assert (done.experiment, done.outcome, done.against) == (4, "survives", 2)
    assert done.gain == pytest.approx(1.6 * 1.1)
    # Its gates pass, as those of the cheat did: only a person can say that it is clean.
    assert statuses(lab.ledger)[2:4] == ["vetoed", "held"]
    reason = lab.ledger.open_questions()[0].reason
    assert reason == "built on #3, which was vetoed: smells (judged again: survives, 1.760 × #2)"
    assert obey(lab, c.Keep(4)) == "#4 is kept and is the champion"
    assert lab.ledger.champion_line(TASK) == [1, 2, 4]
    run(lab, Script(STEPS))
    kept_by_hand = parse((lab.run_dir(4) / NAME).read_bytes())
    assert [record.type for record in kept_by_hand.records][-2:] == ["status_revised", "champion_changed"]


def test_a_probe_turns_down_everything_after_the_veto_until_it_is_kept_again(lab: Lab) -> None:
    answer = obey(lab, c.Veto(3, "skips work", "cheat", "CONFIG = _"))
    assert answer == ("refused: the probe also fits #1, which stays: say it more narrowly, or veto #1 first")
    assert obey(lab, c.Veto(3, "x", "cheat", "torch.never(_)")).startswith(
        "refused: the probe does not fit #3"
    )
    assert obey(lab, c.Veto(3, "x", "cheat", "def (")).startswith("refused: the probe is no Python")
    probe = _skip_probe(lab)
    assert "what its probe fits is turned down" in obey(lab, c.Veto(3, "skips work", "cheat", probe))
    assert lab.ledger.view().veto_probes == ((3, probe),)
    script = Script([*STEPS, {"SKIP": True}])
    run(lab, script)
    rows = lab.ledger.experiments()
    # #4 contains it too and falls; a new proposal with it is a cheat before it is compiled.
    assert [row.status for row in rows] == ["seed", "keep", "vetoed", "cheat", "discard", "cheat"]
    assert rows[5].reasons[0].probe == "veto_probe"
    assert "#3 was vetoed for this" in rows[5].reasons[0].detail
    assert lab.ledger.open_questions() == []
    obey(lab, c.Keep(3))
    assert lab.ledger.view().veto_probes == ()


def _sha(lab: Lab, number: int) -> str:
    row = lab.ledger.experiment(number)
    assert row is not None and row.source_sha is not None
    return row.source_sha


def _skip_probe(lab: Lab) -> str:
    """The whole entry of CONFIG that #3 brought in, with holes for the values around SKIP."""
    import ast

    tree = ast.parse(lab.ledger.blob(_sha(lab, 3)).decode())
    config = next(n for n in tree.body if isinstance(n, ast.Assign) and n.targets[0].id == "CONFIG")  # type: ignore[attr-defined]
    assert isinstance(config.value, ast.Dict)
    star = config.value.values[[k.value for k in config.value.keys].index("*")]  # type: ignore[union-attr]
    assert isinstance(star, ast.Dict)
    parts = [
        f"{ast.unparse(key)}: {'True' if key.value == 'SKIP' else '_'}"  # type: ignore[attr-defined,arg-type]
        for key in star.keys
    ]
    return "{" + ", ".join(parts) + "}"


@pytest.mark.parametrize(
    ("number", "why"),
    [(1, "#1 is the seed"), (99, "there is no experiment #99"), (10**30, "there is no experiment")],
)
def test_what_cannot_be_judged_again_is_refused(lab: Lab, number: int, why: str) -> None:
    assert obey(lab, c.Remeasure(number)).startswith(f"refused: {why}")
    assert lab.ledger.view().remeasure == ()


def test_a_killed_engine_judges_it_again_with_the_same_seeds(lab: Lab) -> None:
    obey(lab, c.Remeasure(3))
    loop = make_loop(lab, Script(STEPS))

    class Killed(BaseException):
        pass

    append = lab.ledger.append

    def dying(events: Any, **rest: Any) -> Any:
        if any(isinstance(event, Remeasured) for event in events):
            raise Killed
        return append(events, **rest)

    lab.ledger.append = dying  # type: ignore[method-assign]
    with pytest.raises(Killed):
        asyncio.run(loop.run())
    del lab.ledger.append
    assert lab.ledger.view().remeasure == (3,)
    run(lab, Script(STEPS))
    assert [done.outcome for done in outcomes(lab.ledger)] == ["survives"]


def test_a_host_that_dies_is_tried_again_and_a_kill_ends_it(lab: Lab) -> None:
    obey(lab, c.Remeasure(3))
    device = FakeDevice()
    check, deaths = device.check, 0

    async def dying(*given: Any, **named: Any) -> Any:
        nonlocal deaths
        deaths += 1
        if deaths < 3:
            raise HostDied("the process beside the card ended: try again")
        return await check(*given, **named)

    device.check = dying  # type: ignore[method-assign]
    run(lab, Script(STEPS), device)
    assert [done.outcome for done in outcomes(lab.ledger)] == ["survives"]

    obey(lab, c.Remeasure(3))

    async def endless(*given: Any, **named: Any) -> Any:
        lab.ledger.send(c.Kill(), "person")
        await asyncio.sleep(60)

    device.check = endless  # type: ignore[method-assign]
    run(lab, Script(STEPS), device)
    last = outcomes(lab.ledger)[-1]
    assert (last.outcome, last.reasons[0].probe) == ("interrupted", "kill")
    assert statuses(lab.ledger)[2] == "keep"
    assert lab.ledger.view().remeasure == ()
