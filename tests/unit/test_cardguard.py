"""A lab that measures shares its card with nobody: it waits for others, and pauses if it is not well."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from kernel_lab.engine.__main__ import with_memory_of
from kernel_lab.engine.cardguard import CardGuard
from kernel_lab.engine.cardlock import CardLock, held_cards
from kernel_lab.engine.commands import Resume
from kernel_lab.engine.errors import EnvironmentProblem
from kernel_lab.engine.events import Event, Notice, Paused
from kernel_lab.engine.profiles import load_gpu
from test_loop import Script, make_lab, make_loop, statuses
from test_race import FakeCard

UUID = "GPU-5b6a1c22"


class Card:
    """Facts that a host would give, one answer after the other; the last one stays."""

    def __init__(self, *answers: dict[str, Any] | EnvironmentProblem) -> None:
        self.answers = list(answers)
        self.asked: list[bool] = []

    async def facts(self, probe: bool) -> dict[str, Any]:
        self.asked.append(probe)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, EnvironmentProblem):
            raise answer
        return answer


class Told:
    def __init__(self) -> None:
        self.events: list[Event] = []
        self.paused = 0

    def __call__(self, events: Sequence[Event]) -> None:
        self.events += events

    def pause(self) -> None:
        self.paused += 1

    @property
    def lines(self) -> list[str]:
        return [event.text if isinstance(event, Notice) else event.why for event in self.events]  # type: ignore[attr-defined]


def guard(card: Card, told: Told, folder: Path, **rest: Any) -> CardGuard:
    return CardGuard(
        card.facts, CardLock(UUID, "lab day", folder), told, pause=told.pause, poll_s=0.001, **rest
    )


def test_a_second_lab_waits_with_one_notice_and_goes_on_when_the_first_ends(tmp_path: Path) -> None:
    first, told = CardLock(UUID, "lab night", tmp_path), Told()
    first.acquire()

    async def work() -> None:
        waiting = asyncio.create_task(guard(Card({}), told, tmp_path).acquire())
        await asyncio.sleep(0.02)
        assert not waiting.done()
        first.release()
        await asyncio.wait_for(waiting, 5)

    asyncio.run(work())
    assert [line.split(" (process")[0] for line in told.lines] == [
        "the card is measured by lab night",
        "the card is free: this lab goes on",
    ]
    assert "this lab waits until it is free" in told.lines[0]


def test_a_lab_that_is_stopped_waits_no_longer(tmp_path: Path) -> None:
    first, told, stopped = CardLock(UUID, "lab night", tmp_path), Told(), False
    first.acquire()

    async def work() -> None:
        nonlocal stopped
        waiting = asyncio.create_task(guard(Card({}), told, tmp_path, ended=lambda: stopped).acquire())
        await asyncio.sleep(0.02)
        stopped = True
        await asyncio.wait_for(waiting, 5)

    asyncio.run(work())
    assert held_cards(tmp_path)[0]["who"] == "lab night"
    first.release()


def test_a_program_on_the_card_is_waited_for_and_named(tmp_path: Path) -> None:
    busy = {"other_processes": [4711, 12]}
    card, told = Card(busy, busy, {"other_processes": [12]}, {"other_processes": []}), Told()
    assert asyncio.run(guard(card, told, tmp_path).ready()) is True
    assert told.lines == [
        "processes 12, 4711 compute on the card: this lab waits for its end",
        "process 12 computes on the card: this lab waits for its end",
        "the card is free: this lab goes on",
    ]
    assert told.paused == 0
    assert card.asked == [False] * 4


def test_a_free_card_costs_one_question_and_no_word(tmp_path: Path) -> None:
    card, told = Card({"other_processes": []}), Told()
    assert asyncio.run(guard(card, told, tmp_path).ready()) is True
    assert (told.events, card.asked) == ([], [False])


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (
            {"healthy": False, "why": "a new process cannot use it:\nXID 79"},
            "a new process cannot use it: XID 79",
        ),
        (EnvironmentProblem("no card can be used: nvidia-smi lists no card"), "no card can be used"),
    ],
)
def test_a_card_that_is_not_well_pauses_the_lab_and_says_why(
    tmp_path: Path, answer: dict[str, Any] | EnvironmentProblem, words: str
) -> None:
    told = Told()
    assert asyncio.run(guard(Card(answer), told, tmp_path).well()) is False
    [event] = told.events
    assert isinstance(event, Paused)
    assert f"the card is not well ({words}" in event.why and event.why.endswith("then `kernel-lab resume`")
    assert told.paused == 1


def test_a_well_card_goes_on(tmp_path: Path) -> None:
    card, told = Card({"healthy": True}), Told()
    assert asyncio.run(guard(card, told, tmp_path).well()) is True
    assert (told.events, card.asked) == ([], [True])


def test_who_holds_which_card_can_be_listed(tmp_path: Path) -> None:
    (tmp_path / "kernel-lab-card-GPU-dead.lock").write_text('{"pid": 1, "who": "long gone"}')
    (tmp_path / "other.lock").write_text("x")
    with CardLock(UUID, "lab day", tmp_path):
        found = held_cards(tmp_path)
        assert [(card["card"], card["who"]) for card in found] == [(UUID, "lab day")]
    assert held_cards(tmp_path) == []


def test_a_sick_card_pauses_the_run_until_a_person_resumes_it(tmp_path: Path) -> None:
    lab = make_lab(tmp_path / "lab", device="measured")
    device = FakeCard()
    loop = make_loop(lab, Script([{"SKIP": True}, {"TWO_LOOPS": True}]), device)
    card = Card({}, {"healthy": False, "why": "XID 79"}, {"healthy": True, "other_processes": []})
    loop.guard = CardGuard(
        card.facts, CardLock(UUID, "x", tmp_path), lab.ledger.append, pause=loop.control.pause_itself
    )
    race = device.race

    async def breaking(*given: Any, **named: Any) -> Any:
        found = await race(*given, **named)
        if len(device.raced) == 2:
            device._ended({"card": {"healthy": False, "why": "XID 79"}})
        return found

    device.race = breaking  # type: ignore[method-assign]

    async def work() -> None:
        running = asyncio.create_task(loop.run())
        for _ in range(3000):
            if lab.ledger.view().paused or running.done():
                break
            await asyncio.sleep(0.01)
        lab.ledger.send(Resume(), "person")
        await asyncio.wait_for(running, 60)

    asyncio.run(work())
    said = [r.event.why for r in lab.ledger.records() if isinstance(r.event, Paused)]
    assert said == ["the card is not well (XID 79): mend it, then `kernel-lab resume`"]
    assert device.unwell == ""
    assert statuses(lab.ledger) == ["seed", "keep", "keep"]


def test_a_card_with_less_memory_than_its_profile_is_taken_at_its_word() -> None:
    gpu = load_gpu("rtx3060")
    assert with_memory_of(gpu, {"card": {"memory_total_bytes": 6 << 30}}).memory_bytes == 6 << 30
    assert with_memory_of(gpu, {"card": {"memory_total_bytes": 1 << 40}}) == gpu
    assert with_memory_of(gpu, {"device": "static"}) == gpu
