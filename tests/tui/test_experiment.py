"""Experiment: everything known about one, with the reason on top, and every answer from there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cockpit_driver import Cockpit, Driver
from fake_lab import SEED_SOURCE, FakeEngine, FakeLab
from kernel_lab.engine.commands import Approve, Command, Keep, Reject, Remeasure, Say, Veto
from kernel_lab.engine.events import Remeasured
from kernel_lab.engine.facts import Reason
from kernel_lab.tui.widgets.diff import DiffView


def kept(lab: FakeLab) -> int:
    number = lab.begin(description="Walk heads first", hypothesis="L2 is shared.")
    lab.gates(number)
    lab.trials(number)
    lab.judge(number, "gqa_decode", 1.07)
    lab.gates(number, "correctness", "integrity", "speed", "confirm")
    lab.finish(number, "keep", Reason("speed", "threshold", "estimated 1.070 × the champion"))
    return number


def held(lab: FakeLab) -> int:
    number = lab.begin(description="Too good")
    lab.gates(number)
    lab.judge(number, "gqa_decode", 1.9)
    lab.finish(number, "held", Reason("speed", "roof", "decode-b1-s8k is estimated at 120 % of the roof"))
    return number


async def open_newest(driver: Driver, number: int) -> None:
    await driver.press("5", "enter")
    await driver.on("ExperimentScreen")
    await driver.until(lambda: f"#{number} " in driver.text("#banner"))


async def test_every_section_says_what_is_known(cockpit: Cockpit, lab: FakeLab) -> None:
    number = kept(lab)
    async with cockpit(lab.folder) as driver:
        await open_newest(driver, number)
        banner = driver.text("#banner")
        assert "keep" in banner.splitlines()[0] and "1.070 × the champion" in banner.splitlines()[0]
        assert "1.07× seed" in banner and "champion" in banner and "estimated" in banner
        diff = driver.screen.query_one(DiffView)
        await driver.until(lambda: f"#{number} against #1 (parent)" in diff.lines[0].plain)
        await driver.press("2")
        assert "not measured" in " ".join(driver.text("#section").split())
        assert driver.text("#section").count("decode-b") == 4
        await driver.press("3")
        assert "correctness  4 of 4 passed" in driver.text("#section")
        assert "error 1.00e-04 of 3.00e-04" in driver.text("#section")
        await driver.press("4")
        assert "b1_long  6 tried" in driver.text("#section")
        assert "an RTX 3060 block has 101,376" in " ".join(driver.text("#section").split())
        await driver.press("5")
        launch = driver.text("#section").splitlines()[1]
        for fact in ("33,792 B", "168", "0 B", "33 %", "HMMA", "8x4x1"):
            assert fact in launch
        await driver.press("6")
        story = driver.text("#section")
        assert [
            word for word in ("started", "proposed", "lint", "confirm", "keep", "champion") if word in story
        ] == [
            "started",
            "proposed",
            "lint",
            "confirm",
            "keep",
            "champion",
        ]


async def test_b_goes_through_what_the_diff_is_against(cockpit: Cockpit, lab: FakeLab) -> None:
    first = kept(lab)
    second = kept(lab)
    third = lab.begin()
    async with cockpit(lab.folder) as driver:
        await open_newest(driver, third)

        def heading() -> str:
            lines = driver.screen.query_one(DiffView).lines
            return lines[0].plain if lines else ""

        await driver.until(lambda: f"#{third} against #{second} (parent)" in heading())
        await driver.press("b")
        await driver.until(lambda: f"#{third} against #{second} (champion)" in heading())
        await driver.press("b")
        await driver.until(lambda: f"#{third} against #1 (seed)" in heading())
    assert first < second


async def test_brackets_go_to_the_neighbours(cockpit: Cockpit, lab: FakeLab) -> None:
    lab.past(5)
    async with cockpit(lab.folder) as driver:
        await open_newest(driver, lab.last)
        await driver.press("left_square_bracket")
        await driver.until(lambda: f"#{lab.last - 1} " in driver.text("#banner"))
        await driver.press("right_square_bracket", "right_square_bracket")
        await driver.told("no further experiment")
        await driver.press("escape")
        await driver.on("LiveScreen")


async def test_a_hold_shows_its_reason_on_top_and_a_keeps_it(
    cockpit: Cockpit, lab: FakeLab, engine: FakeEngine, sent: list[Command]
) -> None:
    number = held(lab)
    async with cockpit(lab.folder) as driver:
        await driver.press("o")
        await driver.on("ExperimentScreen")
        await driver.until(lambda: "120 % of the roof" in driver.text("#banner").splitlines()[0])
        assert "held: keep it?" in driver.text("#banner").splitlines()[0]
        await driver.pilot.pause(0.6)
        await driver.press("a")
        await driver.until(lambda: sent)
        assert sent == [Approve(number, lab.sha(number))]


async def test_a_plateau_needs_you_until_it_is_answered(
    cockpit: Cockpit, lab: FakeLab, engine: FakeEngine, sent: list[Command]
) -> None:
    champion = kept(lab)
    lab.ask(champion, "plateau", "nothing was kept in 12 experiments: an idea of yours would help")
    async with cockpit(lab.folder) as driver:
        await driver.press("o")
        await driver.on("ExperimentScreen")
        await driver.until(lambda: "nothing was kept in 12" in driver.text("#banner").splitlines()[0])
        assert "i say an idea  a go on" in driver.text("#banner").splitlines()[0]
        await driver.pilot.pause(0.6)
        await driver.press("a")
        await driver.told("noted: the search goes on")
        assert sent == [Approve(champion, lab.sha(champion))]
        await driver.until(lambda: not lab.ledger.open_questions())


async def test_a_veto_has_a_category_and_a_reason(
    cockpit: Cockpit, lab: FakeLab, engine: FakeEngine, sent: list[Command]
) -> None:
    number = kept(lab)
    async with cockpit(lab.folder) as driver:
        await open_newest(driver, number)
        await driver.press("v", "tab", *"wrong", "enter")
        await driver.told(f"#{number} is vetoed")
        assert sent == [Veto(number, "wrong", "bug")]
        await driver.until(lambda: "vetoed" in driver.text("#banner").splitlines()[0])
        assert "wrong" in driver.text("#banner").splitlines()[0]
        await driver.press("6")
        assert "vetoed by you" in driver.text("#section") and "bug: wrong" in driver.text("#section")


async def test_on_live_a_veto_is_about_the_row_under_the_cursor(
    cockpit: Cockpit, lab: FakeLab, engine: FakeEngine, sent: list[Command]
) -> None:
    number = kept(lab)
    running = lab.begin(description="Try more")
    async with cockpit(lab.folder) as driver:
        await driver.until(lambda: "Try more" in driver.text("#proposal"))
        await driver.press("v")
        await driver.told(f"#{running} is running: only what was kept or held can be vetoed")
        await driver.press("5")
        await driver.press("j")
        await driver.until(lambda: "v veto" in driver.text("#keys"))
        await driver.press("v", *"luck", "enter")
        await driver.until(lambda: sent)
        assert sent == [Veto(number, "luck", "cheat")]


async def test_a_veto_with_the_mouse_alone_but_for_the_words(
    cockpit: Cockpit, lab: FakeLab, engine: FakeEngine, sent: list[Command]
) -> None:
    number = kept(lab)
    async with cockpit(lab.folder) as driver:
        await driver.pilot.click("#history", offset=(10, 1), times=2)
        await driver.on("ExperimentScreen")
        await driver.until(lambda: "v veto" in driver.text("#keys"))
        await driver.pilot.click("#keys", offset=(driver.text("#keys").index("v veto") + 2, 0))
        await driver.on("ReasonDialog")
        await driver.press(*"no")
        await driver.pilot.click("#dialog-kind", offset=(3, 0))
        await driver.pilot.click("#dialog-keys", offset=(2, 0))
        await driver.until(lambda: sent)
        assert sent == [Veto(number, "no", "bug")]


async def test_a_vetoed_win_can_be_kept_again(
    cockpit: Cockpit, lab: FakeLab, engine: FakeEngine, sent: list[Command]
) -> None:
    number = kept(lab)
    async with cockpit(lab.folder) as driver:
        await open_newest(driver, number)
        await driver.press("A")
        await driver.told("only held, vetoed or rejected can be kept")
        await driver.press("v", *"x", "enter")
        await driver.told("is vetoed")
        await driver.until(lambda: "vetoed" in driver.text("#banner").splitlines()[0])
        await driver.press("A")
        await driver.until(lambda: len(sent) == 2)
        assert sent[1] == Keep(number)


async def test_a_win_is_judged_again_by_key(
    cockpit: Cockpit, lab: FakeLab, engine: FakeEngine, sent: list[Command]
) -> None:
    number = kept(lab)
    async with cockpit(lab.folder) as driver:
        await open_newest(driver, number)
        await driver.press("M")
        await driver.until(lambda: sent == [Remeasure(number)])
        lab.write(Remeasured(number, "survives", 1, 1.02, (), 7, 40))
        await driver.press("6")
        await driver.until(lambda: "survives, 1.020× #1" in driver.text("#section"))


async def test_reject_a_hold_from_its_screen(
    cockpit: Cockpit, lab: FakeLab, engine: FakeEngine, sent: list[Command]
) -> None:
    number = held(lab)
    async with cockpit(lab.folder) as driver:
        await open_newest(driver, number)
        await driver.until(lambda: "held: keep it?" in driver.text("#banner"))
        await driver.press("r", *"no", "enter")
        await driver.told("is rejected")
        assert sent == [Reject(number, "no", lab.sha(number))]
        await driver.until(lambda: "rejected" in driver.text("#banner").splitlines()[0])


async def test_an_idea_from_here_starts_from_the_experiment_shown(
    cockpit: Cockpit, lab: FakeLab, engine: FakeEngine, sent: list[Command]
) -> None:
    lab.set_proposer("folder")
    lab.past(4)
    async with cockpit(lab.folder) as driver:
        await open_newest(driver, lab.last)
        await driver.press("left_square_bracket", "left_square_bracket")
        await driver.until(lambda: f"#{lab.last - 2} " in driver.text("#banner"))
        await driver.press("i", *"again", "enter")
        await driver.told("is noted")
        assert sent == [Say("again", "from", lab.last - 2)]


async def test_the_screen_follows_its_experiment(cockpit: Cockpit, lab: FakeLab, engine: FakeEngine) -> None:
    number = lab.begin()
    async with cockpit(lab.folder) as driver:
        await open_newest(driver, number)
        await driver.press("3")
        lab.gates(number)
        await driver.until(lambda: "quick  4 of 4 passed" in driver.text("#section"))
        lab.ask(number)
        await driver.until(lambda: "may it be judged?" in driver.text("#banner"))


async def test_the_source_opens_as_a_copy_and_sends_nothing(
    cockpit: Cockpit, lab: FakeLab, engine: FakeEngine, sent: list[Command], monkeypatch: pytest.MonkeyPatch
) -> None:
    from contextlib import nullcontext

    number = lab.begin()
    opened = []
    monkeypatch.setattr("kernel_lab.tui.editor.edited", lambda text, name: opened.append((text, name)))
    async with cockpit(lab.folder) as driver:
        driver.app.suspend = nullcontext  # type: ignore[method-assign,assignment]
        await open_newest(driver, number)
        await driver.press("O")
        await driver.told("that was a copy")
        assert opened == [(lab.ledger.blob(lab.sha(number)).decode(), f"candidate_{number}.py")]
        assert sent == []


async def test_a_click_on_a_tab_shows_its_section(cockpit: Cockpit, lab: FakeLab) -> None:
    lab.past(4)
    async with cockpit(lab.folder) as driver:
        await driver.press("enter")
        await driver.on("ExperimentScreen")
        await driver.until(lambda: "3 checks" in driver.text("#tabs"))
        column = driver.text("#tabs").index("6 story")
        await driver.pilot.click("#tabs", offset=(column + 1, 0))
        await driver.until(lambda: "What happened" in driver.text("#section"))


async def test_the_report_is_written_from_the_screen(
    cockpit: Cockpit, lab: FakeLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kernel_lab.engine import paths

    lab.past(4)
    monkeypatch.chdir(tmp_path)
    async with cockpit(lab.folder) as driver:
        await driver.press("E")
        await driver.told("lab.html: open it in a browser")
        assert "a report of kernel-lab" in (tmp_path / "lab.html").read_text()
        (tmp_path / "lab.html").write_text("my own page")
        await driver.press("E")
        await driver.told(str(paths.state_dir() / "reports" / "lab.html"))
        assert (tmp_path / "lab.html").read_text() == "my own page"


async def test_a_veto_can_name_a_probe_and_one_that_is_refused_is_not_lost(
    cockpit: Cockpit, lab: FakeLab, engine: FakeEngine, sent: list[Command]
) -> None:
    number = lab.begin(text=f"{SEED_SOURCE}\nOLD = memo(1)\n")
    lab.judge(number, "gqa_decode", 1.3)
    lab.finish(number, "keep")
    async with cockpit(lab.folder) as driver:
        await driver.press("enter")
        await driver.on("ExperimentScreen")
        await driver.until(lambda: "keep" in driver.text("#banner"))
        await driver.press("v", *"old", "alt+enter", *"probe: meno(_)", "enter")
        await driver.told("refused: the probe does not fit")
        await driver.on("ReasonDialog")
        box: Any = driver.screen.query_one("#dialog-box")
        assert box.text == "old\nprobe: meno(_)"
        box.text = "old\nprobe: memo(_)"
        await driver.press("enter")
        await driver.told(f"#{number} is vetoed")
    assert sent[-1] == Veto(number, "old", "cheat", "memo(_)")


def test_the_probe_is_taken_out_of_the_reason() -> None:
    from kernel_lab.tui.screens.steering import split_probe

    assert split_probe("it caches\nProbe:  CACHE[_]  \nby address") == ("it caches\nby address", "CACHE[_]")
    assert split_probe("probes: none") == ("probes: none", "")
    assert split_probe("probe: x") == ("x", "x")
