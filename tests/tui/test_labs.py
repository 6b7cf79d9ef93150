"""Labs: what there is, what this machine lacks, and the ways into a lab."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from cockpit_driver import Cockpit
from fake_lab import FakeEngine, FakeLab
from kernel_lab.engine.errors import EnvironmentProblem
from kernel_lab.engine.lab import read_config, remember_lab
from kernel_lab.tui.widgets.lab_list import LabList


@pytest.fixture
def here(lab: FakeLab, own_world: Path) -> FakeLab:
    """The lab, known to the list of labs."""
    remember_lab(lab.folder)
    return lab


async def test_a_lab_is_listed_with_its_state_and_opens(cockpit: Cockpit, here: FakeLab) -> None:
    here.past(6)
    async with cockpit() as driver:
        await driver.until(lambda: "lab" in driver.text("#labs"))
        line = driver.text("#labs").split()
        assert line[:5] == ["stopped", "lab", "rtx3060", "llama-3.1-8b", "6"]
        await driver.press("enter")
        await driver.on("LiveScreen")
        await driver.until(lambda: f"#{here.last}" in driver.text("#history"))


async def test_a_lab_that_waits_for_a_person_says_so(cockpit: Cockpit, here: FakeLab) -> None:
    number = here.begin()
    here.ask(number)
    async with cockpit() as driver:
        await driver.until(lambda: "needs you" in driver.text("#labs"))


async def test_the_list_follows_what_happens_elsewhere(
    cockpit: Cockpit, here: FakeLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kernel_lab.tui.screens.labs.LOOK_EVERY_S", 0.2)
    namesake = FakeLab(tmp_path / "elsewhere" / here.folder.name)
    remember_lab(namesake.folder)
    async with cockpit() as driver:
        await driver.until(lambda: driver.text("#labs").count("stopped") == 2)
        await driver.press("j")
        chosen = driver.screen.query_one(LabList).selected
        assert chosen is not None and chosen.place is not None
        here.ask(here.begin())
        await driver.until(lambda: "needs you" in driver.text("#labs"))
        after = driver.screen.query_one(LabList).selected
        assert after is not None and after.place == chosen.place, "two labs have this name"
    namesake.close()


async def test_the_line_at_the_foot_is_wrapped_for_the_width_of_now(cockpit: Cockpit, here: FakeLab) -> None:
    async with cockpit(size=(30, 12)) as driver:
        await driver.until(lambda: "Labs run here" in driver.text("#findings"))
        assert "estimated" not in driver.text("#findings")
        await driver.pilot.resize_terminal(120, 24)
        await driver.until(lambda: driver.text("#findings").rstrip().endswith("speeds are estimated."))


async def test_start_starts_the_engine_and_opens_the_lab(
    cockpit: Cockpit, here: FakeLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = []
    monkeypatch.setattr("kernel_lab.tui.machine.require_compiler", lambda: None)
    monkeypatch.setattr("kernel_lab.engine.session.start_engine", lambda path: started.append(path))
    async with cockpit() as driver:
        await driver.until(lambda: "lab" in driver.text("#labs"))
        await driver.press("s")
        await driver.on("LiveScreen")
        await driver.told("the engine runs")
        assert started == [here.folder]


async def test_an_engine_that_does_not_start_leaves_the_lab_open_and_one_line(
    cockpit: Cockpit, here: FakeLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(path: Path) -> None:
        raise EnvironmentProblem("the disk is full: free some space")

    monkeypatch.setattr("kernel_lab.tui.machine.require_compiler", lambda: None)
    monkeypatch.setattr("kernel_lab.engine.session.start_engine", fails)
    async with cockpit() as driver:
        await driver.until(lambda: "lab" in driver.text("#labs"))
        await driver.press("s")
        await driver.on("LiveScreen")
        await driver.told("the disk is full")
        assert driver.app.is_running


async def test_without_a_compiler_one_line_says_what_is_missing_and_labs_still_open(
    cockpit: Cockpit, here: FakeLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lacks() -> None:
        raise EnvironmentProblem("torch is not installed: run `pip install 'kernel-lab[gpu]'`")

    monkeypatch.setattr("kernel_lab.tui.machine.require_compiler", lacks)
    async with cockpit() as driver:
        await driver.until(lambda: "torch is not installed" in driver.text("#findings"))
        await driver.press("n")
        await driver.told("torch is not installed")
        assert driver.screen_name == "LabsScreen"
        await driver.press("enter")
        await driver.on("LiveScreen")


async def test_the_palette_shows_reasons_that_look_like_markup(
    cockpit: Cockpit, here: FakeLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lacks() -> None:
        raise EnvironmentProblem("[/] is missing: run `pip install 'kernel-lab[gpu]'` [bold")

    monkeypatch.setattr("kernel_lab.tui.machine.require_compiler", lacks)
    async with cockpit() as driver:
        await driver.until(lambda: "is missing" in driver.text("#findings"))
        for place in ("LabsScreen", "LiveScreen", "ExperimentScreen"):
            await driver.on(place)
            await driver.press("ctrl+p")
            await driver.on("CommandPalette")
            await driver.pilot.pause(0.3)
            await driver.press(*"ew", "escape")
            await driver.on(place)
            await driver.press("enter")


async def test_recordings_are_offered_and_play(
    cockpit: Cockpit, lab: FakeLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.past(3)
    folder = tmp_path / "recordings"
    folder.mkdir()
    lab.ledger.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    shutil.copy(lab.folder / "lab.db", folder / "decode-on-h200.db")
    monkeypatch.setattr("kernel_lab.tui.sources.RECORDINGS", folder)
    async with cockpit() as driver:
        await driver.until(lambda: "decode-on-h200" in driver.text("#labs"))
        assert "recording" in driver.text("#labs")
        await driver.press("enter")
        await driver.on("ReplayScreen")
        await driver.until(lambda: "replay" in driver.text("#status"))
        await driver.press("escape")
        await driver.on("LabsScreen")


async def test_a_broken_lab_says_what_is_wrong_and_cannot_be_opened(
    cockpit: Cockpit, here: FakeLab, tmp_path: Path
) -> None:
    here.close()
    for name in ("lab.db-wal", "lab.db-shm"):
        (here.folder / name).unlink(missing_ok=True)
    (here.folder / "lab.db").write_bytes(b"not a database" * 100)
    async with cockpit() as driver:
        await driver.until(lambda: "broken" in driver.text("#labs"))
        await driver.press("enter")
        await driver.told("no lab or recording to open")
        assert driver.screen_name == "LabsScreen"


async def test_a_new_lab_from_the_defaults(
    cockpit: Cockpit, own_world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[Path] = []
    monkeypatch.setattr("kernel_lab.tui.machine.require_compiler", lambda: None)
    monkeypatch.setattr("kernel_lab.tui.machine.gpus", list)
    monkeypatch.setattr("kernel_lab.engine.session.start_engine", lambda path: started.append(path))
    async with cockpit(size=(80, 24)) as driver:
        await driver.press("n")
        await driver.on("StartScreen")
        await driver.until(lambda: driver.screen.query("#start-go"))
        why = str(driver.screen.query_one("#start-why").content)  # type: ignore[attr-defined]
        assert "no GPU found" in why and "estimate" in why
        go = driver.screen.query_one("#start-go")
        assert go.region.bottom <= 24 and go.has_focus
        await driver.press("enter")
        await driver.on("LiveScreen")
        await driver.until(lambda: started)
    config = read_config(started[0])
    assert (config.gpu, config.model, config.mode, config.proposer) == (
        "rtx3060",
        "llama-3.1-8b",
        "wins",
        "search",
    )
    assert config.tasks == ("gqa_decode", "gqa_prefill") and config.budget is None


async def test_stop_asks_and_sends(
    cockpit: Cockpit, here: FakeLab, engine: FakeEngine, sent: list[object]
) -> None:
    async with cockpit() as driver:
        await driver.until(lambda: "running" in driver.text("#labs"))
        await driver.press("S", "a")
        await driver.told("stops after")
        assert len(sent) == 1
