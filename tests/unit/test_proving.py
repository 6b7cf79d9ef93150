"""The judge is tried before its keeps count: what is recorded, and what a lab says of its keeps meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from kernel_lab.engine import events as e
from kernel_lab.engine import proving
from kernel_lab.engine.errors import HostDied
from kernel_lab.engine.judge.selftest import FileResult, SelftestReport
from kernel_lab.engine.lab import Lab, open_lab
from kernel_lab.engine.ledger.views import provisional
from kernel_lab.engine.proving import Proving, verdict_of

Cli = Any


def result(name: str, group: str, outcome: Any) -> FileResult:
    return FileResult(name, name, group, (17,), "gqa_decode", outcome)


def report(*results: FileResult, disabled: tuple[str, ...] = ()) -> SelftestReport:
    return SelftestReport(results, True, disabled, "key", {}, 12.34)


GREEN = report(result("a", "reuse", "caught"), result("b", "honest", "clean"))
RED = report(result("a", "reuse", "missed"), result("b", "honest", "clean"))


@pytest.fixture
def lab(recorded_lab: Path) -> Lab:
    return open_lab(recorded_lab)


@contextlib.asynccontextmanager
async def no_judges() -> AsyncIterator[dict[str, Any]]:
    yield {}


def told(lab: Lab) -> list[str]:
    return [r.event.state for r in lab.ledger.records() if isinstance(r.event, e.SelftestJudged)]


async def prove(lab: Lab, monkeypatch: pytest.MonkeyPatch, outcome: Any, *, alone: bool = False) -> Proving:
    """Start proving a judge whose battery ends as told, after the loop had its turn."""
    monkeypatch.delenv(proving.SWITCH, raising=False)

    async def battery(*given: Any, **named: Any) -> SelftestReport:
        await asyncio.sleep(0)
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome  # type: ignore[no-any-return]

    monkeypatch.setattr(proving, "run_battery", battery)
    found = Proving(lab.ledger, {}, no_judges, alone=alone, stop=asyncio.Event())
    await found.start()
    return found


@pytest.mark.parametrize(
    ("outcome", "state", "why"), [(GREEN, "green", ""), (RED, "red", "judge red: reuse")]
)
def test_keeps_are_provisional_until_the_battery_is_green(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, outcome: SelftestReport, state: str, why: str
) -> None:
    async def work() -> None:
        found = await prove(lab, monkeypatch, outcome)
        assert told(lab) == ["running"]  # nothing waited for it
        assert provisional(lab.ledger.view().selftest) == "judge being tried"
        for _ in range(20):
            await asyncio.sleep(0)
        await found.close()

    asyncio.run(work())
    assert told(lab) == ["running", state]
    assert provisional(lab.ledger.view().selftest) == why


def test_on_a_card_it_comes_before_anything_else(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    asyncio.run(prove(lab, monkeypatch, GREEN, alone=True))
    assert told(lab) == ["running", "green"]


def test_a_remembered_green_answers_at_once_and_a_red_is_tried_again(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proving, "remembered", lambda *given, **named: GREEN)
    asyncio.run(prove(lab, monkeypatch, RED, alone=True))
    assert told(lab) == ["green"]
    monkeypatch.setattr(proving, "remembered", lambda *given, **named: RED)
    asyncio.run(prove(lab, monkeypatch, GREEN, alone=True))
    assert told(lab) == ["green", "running", "green"]


def test_what_is_wrong_once_is_tried_again_and_what_is_wrong_twice_is_red(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    seeds: list[int] = []

    async def work(second: SelftestReport) -> None:
        async def battery(*given: Any, seed: int = 0, **named: Any) -> SelftestReport:
            seeds.append(seed)
            return second if seed else RED

        monkeypatch.delenv(proving.SWITCH, raising=False)
        monkeypatch.setattr(proving, "run_battery", battery)
        await Proving(lab.ledger, {}, no_judges, alone=True, stop=asyncio.Event()).start()

    asyncio.run(work(GREEN))
    assert (seeds[-2:], told(lab)[-1]) == ([0, 1], "green")
    asyncio.run(work(RED))
    event = lab.ledger.view().selftest
    assert event is not None
    assert (event.state, event.line, event.missed) == ("red", "caught 0/1, false alarms 0/1", ("a",))


def test_a_guard_that_is_switched_off_is_red_whatever_was_caught() -> None:
    event = verdict_of(report(*GREEN.results, disabled=("launch_census",)))
    assert event.state == "red"
    assert provisional(event) == "switched off: launch_census"


def test_a_battery_that_cannot_run_leaves_keeps_provisional_and_the_lab_running(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    asyncio.run(prove(lab, monkeypatch, HostDied("the process beside the card ended: try again"), alone=True))
    assert told(lab) == ["running"]
    notice = lab.ledger.records()[-1].event
    assert isinstance(notice, e.Notice)
    assert notice.text.startswith("the judge could not be tried (the process beside the card ended")


def test_a_person_who_stops_the_engine_does_not_wait_for_it(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def endless(*given: Any, **named: Any) -> SelftestReport:
        await asyncio.sleep(60)
        return GREEN

    async def work() -> None:
        monkeypatch.delenv(proving.SWITCH, raising=False)
        monkeypatch.setattr(proving, "run_battery", endless)
        stop = asyncio.Event()
        found = Proving(lab.ledger, {}, no_judges, alone=True, stop=stop)
        asyncio.get_running_loop().call_later(0.05, stop.set)
        await asyncio.wait_for(found.start(), 5)
        await found.close()

    asyncio.run(work())
    assert told(lab) == ["running"]


def test_an_engine_that_stops_ends_it(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        found = await prove(lab, monkeypatch, GREEN)
        await found.close()

    asyncio.run(work())
    assert told(lab) == ["running"]


def test_the_switch_leaves_it_out_and_keeps_provisional(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(proving.SWITCH, "off")
    asyncio.run(Proving(lab.ledger, {}, no_judges, alone=True, stop=asyncio.Event()).start())
    assert told(lab) == ["off"]
    assert provisional(lab.ledger.view().selftest) == "judge not tried"


def test_results_say_that_keeps_are_provisional(kernel_lab: Cli, lab: Lab) -> None:
    assert "provisional" not in json.loads(kernel_lab("results", "--json").out)
    lab.ledger.append([verdict_of(RED)])
    assert json.loads(kernel_lab("results", "--json").out)["provisional"] == "judge red: reuse"
    assert "wins are kept provisionally: judge red: reuse" in kernel_lab("results").out
    lab.ledger.append([verdict_of(GREEN)])
    assert "provisional" not in json.loads(kernel_lab("results", "--json").out)
