"""Hostile strings through every pane: nothing crashes, no escape sequence reaches the terminal."""

from __future__ import annotations

from pathlib import Path

import pytest
from cockpit_driver import Cockpit, Driver
from fake_lab import SEED_SOURCE, FakeLab
from kernel_lab.engine import events as e
from kernel_lab.engine.facts import Check, Launch, Prediction, Reason, Speed, WorkloadTime
from kernel_lab.engine.ledger.records import sha256

MARKUP = "arr[/] [bold]x[/bold] [link=file:///etc/passwd]y[/link] [@click=app.quit]z[/] {x!r} \\["
ESCAPES = "\x1b[2J\x1b[31m\x1b]52;c;ZXZpbA==\x07\x1b]0;title\x07\x9b31m\x00\x08\x7f\r"
WIDE = "漢字かな交じり文 😀👩‍👩‍👧‍👦🏳️‍🌈 한국어 ﷽"
BIDI = "a\u202eb\u2066c\u2069 \u200b\u200d\ufeff\u2028\u2029 e" + "\u0301" * 200
PRIVATE = "\ud800\udfff \U000e0041\U000e007f \ufff9 \ue000"
HOSTILE = {
    "markup first": MARKUP + WIDE + ESCAPES,
    "escapes first": ESCAPES + BIDI + PRIVATE + MARKUP,
    "wide first": WIDE + PRIVATE + BIDI + "\t\n" + MARKUP,
    "long": "x" * 1_000_000,
    "many lines": "\n  \t\nline" * 20_000,
}
SIZES = [(120, 30), (20, 5)]


def _raced(text: str) -> dict[str, object]:
    """What a race tells, every field of which holds `text`."""
    return {
        "launches": {"candidate": {text: [{"count": text, "kernel": text}]}},
        "clocks": {"candidate": {text: {"block_us": float("inf"), "host_us": text}}},
        "rounds": [{"clock_mhz": float("nan"), "power_w": text, "throttle": [text, 3]}],
    }


def poison(lab: FakeLab, text: str) -> int:
    """An experiment every field of which holds `text`."""
    lab.last += 1
    number = lab.last
    source = f"{SEED_SOURCE}\n# {text}\n".encode("utf-8", "replace")
    sha = sha256(source)
    row = WorkloadTime(
        text, text, 0.5, 10.0, 0.1, "TB/s", 40.0, text, {"fa2": 0.9, "seed": 1.1, text[:40]: 1.0}
    )
    lab.write(
        e.IdeaSaid(number, text, "always", None, text),
        e.ExperimentStarted(number, "gqa_decode", 1, text),
        e.Proposed(
            number, sha, text, text, Prediction(float("inf"), text), text, {text: {text: [text]}}, (number,)
        ),
        e.Screened(number, sha, (Launch(text, text, (1, 2, 3), 4, 5, 6, 7, text, 8, 0.5),), {text: 1.0}),
        e.Checked(number, Check("quick", text, text, "fail", text, float("nan"), float("inf")), sha),
        e.Checked(number, Check(text, text, text, "unproven", text), sha),
        e.GateFinished(number, "quick", False, text, (Reason(text, text, text),), {"output": text}, 1.0, sha),
        e.GateFinished(number, "speed", True, None, (), _raced(text), 1.0, sha),
        e.StatusRevised(number, "held", text, text, text),
        e.TrialFinished(number, 1, text, {text: text}, "ok", 1.1, {text: 1.0}, text),
        e.TrialFinished(number, 2, text, {text: text}, "oom", None, {}, text),
        e.TrialsSettled(number, sha, {text: {text: text}}),
        e.SpeedJudged(number, Speed("estimated", {"fa2": 0.9, "seed": 1.1, text[:40]: 1.0}, {}, (row,))),
        e.Notice("warning", text, number),
        e.SpaceExplored("gqa_decode", text),
        e.ApprovalRequested(number, "keep", sha, text),
        blobs=[source],
    )
    return number


def no_control(driver: Driver) -> None:
    """What is on the screen holds no character that a terminal obeys."""
    strips = driver.screen._compositor.render_strips()
    for strip in strips:
        for segment in strip:
            assert segment.text.isprintable() or segment.text == "", repr(segment.text)
            assert segment.control is None


@pytest.mark.parametrize("kind", HOSTILE)
async def test_every_pane_survives(cockpit: Cockpit, lab: FakeLab, kind: str) -> None:
    text = HOSTILE[kind].encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    number = poison(lab, text)
    lab.ledger.set_now({"experiment": number + 1, "task": text[:200], "phase": "propose", "text": text})
    async with cockpit(lab.folder) as driver:
        for size in SIZES:
            await driver.pilot.resize_terminal(*size)
            for key in ("1", "2", "s", "b", "3", "4", "x", "5", "t", "t"):
                await driver.press(key)
                no_control(driver)
        lab.ledger.set_now({"experiment": number, "phase": text[:200]})
        await driver.pilot.resize_terminal(120, 30)
        await driver.press("1")
        await driver.until(lambda: f"#{number}" in driver.text("#proposal"))
        no_control(driver)
        await driver.press("o")
        await driver.on("ExperimentScreen")
        await driver.until(lambda: f"#{number}" in driver.text("#banner"))
        for key in ("2", "3", "4", "5", "6", "7", "u", "w", "x", "1", "s"):
            await driver.press(key)
            no_control(driver)
        for size in SIZES[1:]:
            await driver.pilot.resize_terminal(*size)
            await driver.press("6")
            no_control(driver)
        await driver.pilot.resize_terminal(120, 30)
        await driver.press("escape")
        await driver.on("LiveScreen")
        driver.screen.tell(text)  # type: ignore[attr-defined]
        await driver.pilot.pause(0.1)
        no_control(driver)


async def test_hostile_names_of_labs_are_shown_clean(
    cockpit: Cockpit, tmp_path: Path, own_world: Path
) -> None:
    from kernel_lab.engine.lab import remember_lab

    lab = FakeLab(tmp_path / "[bold]evil[b] \x1b[31m\u202elab")
    remember_lab(lab.folder)
    async with cockpit() as driver:
        await driver.until(lambda: "evil" in driver.text("#labs"))
        no_control(driver)
        assert "[bold]evil[b] ^[[31m<U+" in driver.text("#labs")
        await driver.press("enter")
        await driver.on("LiveScreen")
        no_control(driver)
    lab.close()


async def test_the_idea_box_takes_anything(cockpit: Cockpit, lab: FakeLab) -> None:
    from textual import events

    async with cockpit(lab.folder) as driver:
        await driver.press("i")
        for text in HOSTILE.values():
            clean = text.encode("utf-8", "replace").decode()
            driver.app.post_message(events.Paste(clean))
            await driver.pilot.pause()
        box = driver.screen.query_one("#idea-text")
        assert len(box.text) <= 20_000  # type: ignore[attr-defined]
        assert driver.app.is_running
