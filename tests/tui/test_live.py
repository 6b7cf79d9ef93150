"""Live: every key does what the registry says, and the panes say what the ledger holds."""

from __future__ import annotations

from pathlib import Path

import pytest
from cockpit_driver import Cockpit
from fake_lab import FakeEngine, FakeLab, speed
from kernel_lab.engine import events as e
from kernel_lab.engine.commands import Command, Kill, MoveIdea, Pause, Resume, Say, SetMode, Stop, Withdraw
from kernel_lab.engine.facts import Check, Reason
from kernel_lab.tui.screens.dialogs import ChoiceTable
from kernel_lab.tui.widgets.chart import Chart
from kernel_lab.tui.widgets.history import History


async def test_status_says_experiment_champions_mode_and_what_the_numbers_are(
    cockpit: Cockpit, lab: FakeLab, engine: FakeEngine
) -> None:
    lab.past(12)
    lab.begin(description="Try it")
    async with cockpit(lab.folder) as driver:
        status = driver.text("#status")
        assert f"#{lab.last} decode" in status
        assert "running" in status and "mode ask" in status and "12/50 tried" in status
        second = status.splitlines()[1]
        for task, number in lab.champions.items():
            assert f"{task.removeprefix('gqa_')} #{number}" in second
        assert second.count("× seed") == 2 and second.count("× FA2") == 2
        assert second.endswith("estimated")


async def test_the_word_estimated_stands_with_estimates_and_with_nothing_else(
    cockpit: Cockpit, lab: FakeLab, tmp_path: Path
) -> None:
    measured = FakeLab(tmp_path / "measured", kind="measured")
    for made, kind in ((lab, "estimated"), (measured, "measured")):
        number = made.begin(parent=None)
        made.trials(number)
        made.write(e.SpeedJudged(number, speed(0.9, 1.2, 1.2, kind)))
        made.finish(number, "seed")
        async with cockpit(made.folder) as driver:
            history = driver.screen.query_one(History)
            chart = driver.screen.query_one(Chart)
            await driver.until(lambda chart=chart: chart._lines)
            heading = history.heading(120)
            told = (driver.text("#status"), driver.text("#proposal"), heading, chart._lines[0].plain)
            assert all(("estimated" in text) == (kind == "estimated") for text in told), told
            await driver.press("5", "enter")
            await driver.on("ExperimentScreen")
            await driver.until(lambda driver=driver: "0.90× FA2" in driver.text("#banner"))
            assert ("estimated" in driver.text("#banner")) == (kind == "estimated")
            for key in ("2", "4"):
                await driver.press(key)
                assert ("estimated" in driver.text("#section")) == (kind == "estimated"), key
    measured.close()


async def test_what_happens_shows_up_without_a_key(
    cockpit: Cockpit, lab: FakeLab, engine: FakeEngine
) -> None:
    async with cockpit(lab.folder) as driver:
        number = lab.begin(description="Fold the scale into q", hypothesis="Fewer multiplications.")
        await driver.until(lambda: "Fold the scale into q" in driver.text("#proposal"))
        assert "Fewer multiplications." in driver.text("#proposal")
        lab.gates(number, "lint", "screen", "quick")
        await driver.until(lambda: "quick ok" in driver.text("#strip"))
        lab.trials(number)
        await driver.until(lambda: "trials 6" in driver.text("#strip"))
        lab.judge(number, "gqa_decode", 1.05)
        lab.finish(number, "keep", Reason("speed", "threshold", "estimated 1.050 × the champion"))
        await driver.until(lambda: "Verdict keep" in driver.text("#proposal"))
        await driver.until(lambda: f"decode #{number} 1.05× seed" in driver.text("#status"))
        row = driver.text("#history").splitlines()[1]
        assert row.startswith(f"*#{number}\tdecode\tkeep\t1.05×")
        assert "Fold the scale into q" in row
        await driver.until(lambda: "*#1\t" not in driver.text("#history"), "the seed is no champion any more")
        assert f"{number}\tgqa_decode\tkeep\t" in driver.text("#chart")


async def test_the_strip_fills_check_by_check_and_shows_what_failed(
    cockpit: Cockpit, lab: FakeLab, engine: FakeEngine
) -> None:
    number = lab.begin()
    lab.gates(number, "lint", "screen")
    for case, status in enumerate(("pass", "pass", "fail", "unproven")):
        check = Check("correctness", f"case-{case}", "values", status, "off by 0.5")  # type: ignore[arg-type]
        lab.write(e.Checked(number, check, lab.sha(number)))
    async with cockpit(lab.folder) as driver:
        assert "lint ok  screen ok" in driver.text("#strip") and "correctness ..F?" in driver.text("#strip")
        await driver.press("3")
        checks = driver.text("#checks").splitlines()
        assert checks[0] == "correctness  2 of 4 passed"
        assert checks[1].startswith("fail     case-2") and "off by 0.5" in checks[2], "failures first"
        await driver.pilot.resize_terminal(80, 24)
        await driver.until(lambda: "confirm -" in driver.text("#strip"), "every gate fits 80 columns")


async def test_streaming_text_is_shown_while_it_is_proposed(
    cockpit: Cockpit, lab: FakeLab, engine: FakeEngine
) -> None:
    async with cockpit(lab.folder) as driver:
        now = {"experiment": lab.last + 1, "task": "gqa_prefill", "phase": "propose", "text": "Let us try"}
        lab.ledger.set_now(now)
        await driver.until(lambda: "Let us try" in driver.text("#proposal"))
        assert f"#{lab.last + 1} prefill  being proposed" in driver.text("#proposal")
        assert f"#{lab.last + 1} prefill proposing" in driver.text("#status")
        lab.ledger.set_now({**now, "text": "Let us try exp2"})
        await driver.until(lambda: "Let us try exp2" in driver.text("#proposal"))


async def test_while_the_next_is_proposed_a_does_not_answer_for_what_is_not_shown(
    cockpit: Cockpit, lab: FakeLab, engine: FakeEngine, sent: list[Command]
) -> None:
    held = lab.begin()
    lab.gates(held)
    lab.judge(held, "gqa_decode", 1.4)
    lab.finish(held, "held", Reason("speed", "roof", "estimated at 120 % of the roof"))
    lab.ledger.set_now({"experiment": lab.last + 1, "task": "gqa_decode", "phase": "propose", "text": "x"})
    async with cockpit(lab.folder) as driver:
        await driver.until(lambda: f"#{held}" in driver.text("#queue"))
        await driver.pilot.pause(0.6)
        await driver.press("a")
        await driver.on("ExperimentScreen")
        await driver.until(lambda: "120 % of the roof" in driver.text("#banner"))
        assert sent == []


@pytest.mark.parametrize(
    ("key", "region"), [("1", "proposal"), ("2", "diff"), ("3", "checks"), ("4", "chart"), ("5", "history")]
)
async def test_numbers_go_to_regions(cockpit: Cockpit, lab: FakeLab, key: str, region: str) -> None:
    async with cockpit(lab.folder, size=(80, 24)) as driver:
        await driver.press(key)
        assert driver.app.focused is not None and driver.app.focused.id == region
        assert driver.screen.query_one(f"#{region}").size.height > 3
        others = {"proposal", "diff", "checks", "chart-box", "history-box"} - {region, f"{region}-box"}
        assert not any(driver.screen.query_one(f"#{name}").display for name in others)
        for always in ("#status", "#queue", "#keys"):
            assert driver.screen.query_one(always).size.height >= 1


async def test_d_shows_the_diff_against_the_parent_and_back(cockpit: Cockpit, lab: FakeLab) -> None:
    number = lab.begin()
    async with cockpit(lab.folder) as driver:
        await driver.press("d")
        await driver.until(
            lambda: (
                f"+    tl.store(out + offsets, tl.load(q + offsets) * scale)  # variant {number}"
                in driver.text("#diff")
            )
        )
        await driver.press("d")
        assert driver.screen.query_one("#proposal").display


async def test_zoom_gives_one_region_the_screen(cockpit: Cockpit, lab: FakeLab) -> None:
    async with cockpit(lab.folder) as driver:
        await driver.press("5", "z")
        await driver.pilot.pause()
        assert not driver.screen.query_one("#chart-box").display
        assert driver.screen.query_one("#history").size.height > 18
        await driver.press("z")
        assert driver.screen.query_one("#chart-box").display


async def test_filter_leaves_matching_experiments_and_escape_clears_it(
    cockpit: Cockpit, lab: FakeLab
) -> None:
    lab.past(20)
    async with cockpit(lab.folder) as driver:
        history = driver.screen.query_one(History)
        everything = len(history.shown)
        await driver.press("slash", *"oom", "enter")
        await driver.until(lambda: 0 < len(history.shown) < everything)
        assert all("\toom\t" in line for line in history.plain().splitlines()[1:])
        await driver.press("slash", *" zzz", "enter")
        assert "nothing holds" in history.empty_text() and not history.shown
        await driver.press("escape")
        await driver.until(lambda: len(history.shown) == everything)
        assert driver.screen_name == "LiveScreen"


async def test_the_cursor_stays_on_its_experiment_while_others_arrive(
    cockpit: Cockpit, lab: FakeLab, engine: FakeEngine
) -> None:
    lab.past(10)
    async with cockpit(lab.folder) as driver:
        history = driver.screen.query_one(History)
        await driver.press("5", "j", "j")
        assert history.experiment == lab.last - 2
        chosen = history.experiment
        lab.past(3)
        await driver.until(lambda: history.shown[-1] == lab.last)
        assert history.experiment == chosen
        await driver.press("g")
        assert history.experiment == lab.last
        await driver.press("G")
        assert history.experiment == 1
        await driver.press("enter")
        await driver.on("ExperimentScreen")
        await driver.until(lambda: "#1 decode" in driver.text("#banner"))


async def test_c_charts_against_the_seed(cockpit: Cockpit, lab: FakeLab) -> None:
    lab.past(6)
    async with cockpit(lab.folder) as driver:
        chart = driver.screen.query_one(Chart)
        await driver.until(lambda: chart._lines)
        assert chart._lines[0].plain.startswith("estimated × FA2")
        await driver.press("c")
        await driver.until(lambda: chart._lines[0].plain.startswith("estimated × seed"))


async def test_the_chart_is_drawn_only_for_new_results(
    cockpit: Cockpit, lab: FakeLab, engine: FakeEngine
) -> None:
    lab.past(6)
    async with cockpit(lab.folder) as driver:
        chart = driver.screen.query_one(Chart)
        await driver.until(lambda: chart.builds)
        await driver.pilot.pause(0.4)
        builds = chart.builds
        number = lab.begin()
        lab.gates(number)
        await driver.until(lambda: "quick" in driver.text("#strip"))
        await driver.pilot.pause(0.3)
        assert chart.builds == builds
        lab.judge(number, "gqa_decode", 0.9)
        lab.finish(number, "discard")
        await driver.until(lambda: chart.builds > builds)
        assert chart.builds <= builds + 2


# ---- steering


async def test_space_pauses_and_resumes(
    cockpit: Cockpit, lab: FakeLab, engine: FakeEngine, sent: list[Command]
) -> None:
    async with cockpit(lab.folder) as driver:
        await driver.press("space")
        await driver.told("pauses after")
        await driver.until(lambda: "paused" in driver.text("#status"))
        await driver.press("space")
        await driver.told("goes on")
        assert sent == [Pause(), Resume()]


async def test_space_starts_an_engine_that_is_not_running(
    cockpit: Cockpit, lab: FakeLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = []
    monkeypatch.setattr("kernel_lab.engine.session.start_engine", lambda path: started.append(path))
    async with cockpit(lab.folder) as driver:
        assert "stopped" in driver.text("#status")
        assert "space starts it" in driver.text("#queue")
        await driver.press("space")
        await driver.told("the engine runs")
        assert started == [lab.folder]


async def test_m_sets_the_mode(
    cockpit: Cockpit, lab: FakeLab, engine: FakeEngine, sent: list[Command]
) -> None:
    async with cockpit(lab.folder) as driver:
        await driver.press("m", "w")
        await driver.told("the mode is wins")
        await driver.until(lambda: "mode wins" in driver.text("#status"))
        assert sent == [SetMode("wins")]


async def test_kill_and_stop_ask_first(
    cockpit: Cockpit, lab: FakeLab, engine: FakeEngine, sent: list[Command]
) -> None:
    lab.begin()
    async with cockpit(lab.folder) as driver:
        await driver.press("K", "n", "K", "escape", "S", "c")
        assert sent == []
        await driver.press("K", "y")
        await driver.told("is ended")
        await driver.press("S", "a")
        await driver.told("stops after")
        await driver.press("S", "down", "enter")
        await driver.told("stops now")
        assert sent == [Kill(), Stop(now=False), Stop(now=True)]


async def test_a_key_that_cannot_be_used_says_why(
    cockpit: Cockpit, lab: FakeLab, engine: FakeEngine, sent: list[Command]
) -> None:
    async with cockpit(lab.folder) as driver:
        for key, words in (
            ("a", "nothing waits"),
            ("K", "no experiment is running"),
            ("o", "nothing needs you"),
        ):
            await driver.press(key)
            await driver.told(words)
        assert sent == []


async def test_q_leaves_the_engine_running_and_says_so(
    cockpit: Cockpit, lab: FakeLab, engine: FakeEngine
) -> None:
    async with cockpit(lab.folder) as driver:
        await driver.press("q")
        await driver.pilot.pause()
    assert driver.app.return_value is not None
    assert "the engine goes on" in driver.app.return_value
    assert str(lab.folder) in driver.app.return_value


async def test_ctrl_c_needs_a_second_time_and_stops_nothing(
    cockpit: Cockpit, lab: FakeLab, engine: FakeEngine, sent: list[Command]
) -> None:
    async with cockpit(lab.folder) as driver:
        await driver.press("ctrl+c")
        await driver.told("ctrl+c again leaves")
        assert driver.app.is_running
        await driver.press("ctrl+c")
        await driver.pilot.pause()
    assert driver.app.return_value is not None and "goes on" in driver.app.return_value
    assert sent == []


async def test_escape_goes_back_to_the_labs(cockpit: Cockpit, lab: FakeLab) -> None:
    async with cockpit(lab.folder) as driver:
        await driver.press("escape")
        await driver.on("LabsScreen")


# ---- saying


async def test_an_idea_goes_to_whom_it_is_for(
    cockpit: Cockpit, lab: FakeLab, engine: FakeEngine, sent: list[Command]
) -> None:
    lab.set_proposer("folder")
    async with cockpit(lab.folder) as driver:
        await driver.press("i", *"first", "ctrl+j", *"second", "enter")
        await driver.told("is noted")
        await driver.press("i", "tab", *"all", "enter", "i", "tab", *"this", "enter")
        await driver.until(lambda: len(sent) == 3)
    assert sent == [
        Say("first\nsecond", "next", None),
        Say("all", "always", None),
        Say("this", "from", lab.last),
    ]
    assert [idea.text for idea in lab.ledger.ideas()][:1] == ["first\nsecond"]


async def test_an_idea_can_be_put_first_and_taken_back(
    cockpit: Cockpit, lab: FakeLab, engine: FakeEngine, sent: list[Command]
) -> None:
    lab.write(e.IdeaSaid(1, "first", "always", None, "person"), e.IdeaSaid(2, "second", "from", 1, "person"))
    async with cockpit(lab.folder) as driver:
        await driver.press("I")
        await driver.on("ChoiceDialog")
        assert [choice.label for choice in driver.screen.query_one(ChoiceTable).choices] == [
            "idea 1, always",
            "idea 2, from #1",
        ]
        await driver.press("2")
        await driver.until(lambda: "idea 2" in str(driver.screen.query_one("#dialog").border_title))
        await driver.press("f")
        await driver.told("idea 2 is number 1 of 2")
        await driver.press("I")
        await driver.on("ChoiceDialog")
        await driver.until(lambda: driver.screen.query_one(ChoiceTable).choices[0].label == "idea 2, from #1")
        await driver.press("1")
        await driver.until(lambda: "idea 2" in str(driver.screen.query_one("#dialog").border_title))
        await driver.press("w")
        await driver.told("idea 2 is withdrawn")
        assert sent == [MoveIdea(2, 1), Withdraw(2)]


async def test_search_offers_what_to_do_with_an_idea_and_keeps_it(
    cockpit: Cockpit, lab: FakeLab, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    async with cockpit(lab.folder) as driver:
        await driver.press("i", *"pack", "enter")
        await driver.on("ChoiceDialog")
        assert "No agent program" in driver.text("#dialog-text")
        await driver.press("k")
        await driver.told("kept")
    assert [idea.text for idea in lab.ledger.ideas()] == ["pack"]


async def test_every_printable_key_is_text_in_the_idea_box(
    cockpit: Cockpit, lab: FakeLab, engine: FakeEngine, sent: list[Command]
) -> None:
    printable = [chr(code) for code in range(0x21, 0x7F)]
    async with cockpit(lab.folder) as driver:
        await driver.press("i", *printable, "space")
        assert driver.screen.query_one("#idea-text").text == "".join(printable) + " "  # type: ignore[attr-defined]
        assert driver.screen_name == "LiveScreen" and driver.app.is_running
        assert sent == []


async def test_a_paste_keeps_every_line(cockpit: Cockpit, lab: FakeLab, engine: FakeEngine) -> None:
    from textual import events

    async with cockpit(lab.folder) as driver:
        await driver.press("i")
        driver.app.post_message(events.Paste("one\ntwo\n[bold]three[/]"))
        await driver.pilot.pause()
        box = driver.screen.query_one("#idea-text")
        assert box.text == "one\ntwo\n[bold]three[/]"  # type: ignore[attr-defined]


async def test_up_brings_back_what_was_said(cockpit: Cockpit, lab: FakeLab, engine: FakeEngine) -> None:
    lab.set_proposer("folder")
    async with cockpit(lab.folder) as driver:
        await driver.press("i", *"alpha", "enter")
        await driver.told("is noted")
        await driver.press("i", "up")
        assert driver.screen.query_one("#idea-text").text == "alpha"  # type: ignore[attr-defined]
        await driver.press("down")
        assert driver.screen.query_one("#idea-text").text == ""  # type: ignore[attr-defined]


# ---- everywhere


async def test_help_and_palette_hold_the_actions(cockpit: Cockpit, lab: FakeLab) -> None:
    async with cockpit(lab.folder) as driver:
        await driver.press("question_mark")
        await driver.on("TextDialog")
        assert "approve" in driver.text("#dialog-text")
        await driver.press("escape")
        await driver.on("LiveScreen")
        commands = [command.title for command in driver.app.get_system_commands(driver.screen)]
        assert any(command.startswith("zoom") for command in commands)
        await driver.press("ctrl+p", *"zoom", "enter")
        await driver.on("LiveScreen")
        await driver.until(lambda: not driver.screen.query_one("#chart-box").display)


async def test_y_copies_the_focused_pane(cockpit: Cockpit, lab: FakeLab) -> None:
    from kernel_lab.engine import paths

    lab.past(4)
    async with cockpit(lab.folder) as driver:
        await driver.press("5", "y")
        await driver.told("line")
        assert (paths.state_dir() / "copied.txt").read_text() == driver.text("#history")


async def test_f12_saves_the_screen(cockpit: Cockpit, lab: FakeLab) -> None:
    from kernel_lab.engine import paths

    async with cockpit(lab.folder) as driver:
        await driver.press("f12")
        await driver.told("saved")
        (picture,) = (paths.state_dir() / "screenshots").glob("*.svg")
        assert "1&#160;proposal" in picture.read_text()


async def test_the_key_bar_does_what_it_says_when_clicked(
    cockpit: Cockpit, lab: FakeLab, engine: FakeEngine, sent: list[Command]
) -> None:
    async with cockpit(lab.folder) as driver:
        bar = driver.screen.query_one("#keys")
        x = driver.text("#keys").index("space pause")
        await driver.pilot.click(bar, offset=(x + 2, 0))
        await driver.told("pauses after")
        assert sent == [Pause()]


async def test_two_clicks_on_the_history_open_an_experiment(cockpit: Cockpit, lab: FakeLab) -> None:
    lab.past(5)
    async with cockpit(lab.folder) as driver:
        await driver.pilot.click("#history", offset=(10, 3), times=2)
        await driver.on("ExperimentScreen")
        await driver.until(lambda: f"#{lab.last - 2} " in driver.text("#banner"))


async def test_the_header_says_that_keeps_are_provisional(
    cockpit: Cockpit, lab: FakeLab, engine: FakeEngine
) -> None:
    lab.past(2)
    async with cockpit(lab.folder, size=(200, 50)) as driver:
        lab.write(e.SelftestJudged("red", "caught 12/13, false alarms 0/3", ("reuse",), (), True))
        await driver.until(lambda: "keeps provisional (judge red: reuse)" in driver.text("#status"))
        lab.write(e.SelftestJudged("green", "caught 13/13, false alarms 0/3", (), (), True))
        await driver.until(lambda: "provisional" not in driver.text("#status"))
