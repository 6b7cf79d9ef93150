"""Labs by keyboard: doctor, rename, prune and delete, each with what it asks first."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from cockpit_driver import Cockpit
from fake_lab import FakeEngine, FakeLab
from kernel_lab.engine import paths
from kernel_lab.engine.lab import is_lab
from kernel_lab.tui.doctor import Finding
from kernel_lab.tui.screens.labs import finding_lines


@pytest.fixture
def mine(own_world: object) -> Iterator[FakeLab]:
    made = FakeLab(paths.labs_dir() / "mine")
    made.seeds()
    made.past(4)
    run = made.folder / "runs" / "3"
    run.mkdir(parents=True)
    (run / "log").write_text("x" * 2_000)
    yield made
    made.close()


async def test_rename_prune_and_delete_from_the_list(cockpit: Cockpit, mine: FakeLab) -> None:
    mine.ledger.close()
    async with cockpit() as driver:
        await driver.until(lambda: "mine" in driver.text("#labs"))
        await driver.press("R", *"other", "enter")
        await driver.told("it is other now")
        await driver.until(lambda: "other" in driver.text("#labs"))
        folder = paths.labs_dir() / "other"
        await driver.press("P", "p")
        await driver.told("1 experiments pruned, 2,000 B freed")
        await driver.press("X", *"othe", "enter")
        await driver.told("is not its name: nothing was deleted")
        assert is_lab(folder)
        await driver.press("X", *"other", "enter")
        await driver.told("other is deleted")
        assert not folder.exists()
        await driver.until(lambda: "other" not in driver.text("#labs"))


async def test_a_running_lab_says_why_it_cannot_be_deleted(cockpit: Cockpit, mine: FakeLab) -> None:
    with FakeEngine(mine):
        async with cockpit() as driver:
            await driver.until(lambda: "mine" in driver.text("#labs"))
            await driver.press("X")
            await driver.told("its engine is running: stop it first")
            assert driver.screen_name == "LabsScreen"


async def test_the_doctor_shows_findings_with_remedies(
    cockpit: Cockpit, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kernel_lab.tui import doctor

    found = [
        Finding("git", "missing", "not found \x1b[31m", "install git"),
        Finding("disk", "ok", "12 GB free"),
    ]
    monkeypatch.setattr(doctor, "findings", lambda ask_host: iter(found))
    async with cockpit() as driver:
        await driver.press("D")
        await driver.on("TextDialog")
        shown = driver.text("#dialog-text")
        assert "missing  git" in shown and "install git" in shown and "mend what is missing" in shown
        assert "\x1b" not in shown
    assert finding_lines(found[1:], 60)[-1].plain == "labs run here"
