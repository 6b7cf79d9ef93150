"""Evidence tables: errors beside their limits, probes by gate, clocks, earlier vetoes, verdicts."""

from __future__ import annotations

from typing import Any

from cockpit_driver import Cockpit
from fake_lab import FakeEngine, FakeLab
from kernel_lab.engine import events as e
from kernel_lab.engine.facts import Check, Prediction, Reason
from kernel_lab.tui import evidence_text, theme
from kernel_lab.tui.detail import Detail, fold


def detail(*events: e.Event, number: int = 7) -> Detail:
    return fold(number, ((1.0 + index, event) for index, event in enumerate(events)))


def checked(
    gate: str, case: str, probe: str, status: Any, error: float | None, limit: float | None
) -> e.Checked:
    return e.Checked(7, Check(gate, case, probe, status, "", error, limit))


CHECKS = (
    checked("correctness", "hidden-1", "compare", "pass", 1e-4, 4e-4),
    checked("correctness", "hidden-2", "compare", "fail", 9e-4, 3e-4),
    checked("integrity", "equal-logits", "compare", "pass", 3.5e-4, 4e-4),
    checked("integrity", "all", "same_bits", "unproven", None, None),
    checked("integrity", "all", "host_sync", "pass", 0.0, 0.0),
)


def test_errors_stand_beside_their_limits_the_worst_of_a_gate_first() -> None:
    lines = evidence_text.matrix_lines(detail(*CHECKS), 120)
    shown = [line.plain for line in lines]
    assert shown[1].startswith("hidden-2") and "  300 % 9.00e-04 of 3.00e-04" in shown[1]
    assert shown[2].startswith("hidden-1") and "#####..............." in shown[2] and "25 %" in shown[2]
    assert shown[3].startswith("equal-logits") and "88 %" in shown[3]
    styles = [{span.style for span in line.spans} for line in lines[1:4]]
    assert theme.BAD in styles[0] and theme.GOOD in styles[1] and theme.WARN in styles[2]


def test_probes_stand_by_gate_with_the_worst_outcome_counted() -> None:
    shown = [line.plain.split() for line in evidence_text.matrix_lines(detail(*CHECKS), 120)]
    assert ["Probes:", "3", "of", "5", "checks", "passed"] in shown
    assert ["correct", "integr."] in shown
    assert ["compare", "1", "F", "1", "."] in shown
    assert ["same_bits", "1", "?"] in shown and ["host_sync", "1", "."] in shown


def test_no_checks_give_no_tables() -> None:
    assert evidence_text.matrix_lines(detail(), 80) == [] and evidence_text.census_lines(detail(), 80) == []


def test_census_and_both_clocks_come_from_the_race_and_survive_nonsense() -> None:
    facts = {
        "launches": {"candidate": {"s8k": [{"count": 2.0, "kernel": "evil\x1b[31m" * 50}], "s1k": "no"}},
        "clocks": {"candidate": {"s8k": {"block_us": 1000.0, "host_us": 900.0}, "bad": 3, "s1k": {}}},
    }
    lines = evidence_text.census_lines(detail(e.GateFinished(7, "speed", True, None, (), facts)), 100)
    shown = "\n".join(line.plain for line in lines)
    assert "2 x evil^[[31m" in shown and "\x1b" not in shown
    assert "0.900" in shown
    row = next(line for line in lines if "0.900" in line.plain)
    assert row.spans[-1].style == theme.BAD, "the host cannot have waited for less than the card took"
    for broken in ({"launches": 3, "clocks": []}, {"launches": {"candidate": []}}):
        assert (
            evidence_text.census_lines(detail(e.GateFinished(7, "speed", True, None, (), broken)), 80) == []
        )


def test_verdicts_are_told_newest_first_with_who_and_why() -> None:
    one = detail(
        e.ExperimentFinished(7, "keep", (Reason("speed", "", "won"),), None),
        e.StatusRevised(7, "vetoed", "ana", "reads the answer", "cheat"),
        e.StatusRevised(7, "keep", "ben", "it does not"),
    )
    shown = [line.plain.split(maxsplit=2)[2] for line in evidence_text.verdict_lines(one, 100)[1:4]]
    assert [" ".join(line.split()) for line in shown] == [
        "keep by ben it does not",
        "vetoed by ana cheat: reads the answer",
        "keep won",
    ]


async def test_earlier_vetoes_that_are_like_it_are_named_in_banner_and_story(
    cockpit: Cockpit, lab: FakeLab, engine: FakeEngine
) -> None:
    first = lab.begin("gqa_decode", "Cache the answer per pointer", "Pointers repeat between calls", "memo")
    lab.finish(first, "cheat", Reason("integrity", "new_contents", "the old answer came back"))
    lab.begin("gqa_decode", "Larger tiles", "More latency hidden", "tiles")
    lab.finish(first + 1, "discard")
    asked = lab.begin("gqa_decode", "Remember answers per pointer", "Pointers repeat, answers too", "memo")
    lab.ask(asked)
    async with cockpit(lab.folder) as driver:
        await driver.press("enter")
        await driver.on("ExperimentScreen")
        await driver.until(lambda: "1 like it taken back before" in driver.text("#banner"))
        await driver.press("6")
        await driver.until(lambda: "Like it, and taken back" in driver.text("#section"))
        shown = driver.text("#section")
        assert f"#{first} cheat the old answer came back" in shown and "turned memo too" in shown
        assert f"#{first + 1} discard" not in shown


def test_what_only_shares_a_task_is_not_alike() -> None:
    one = detail(e.Proposed(7, "a" * 64, "Use exp2", "saves", Prediction(None, None), "exp2"))
    assert evidence_text.similar_vetoes(one, []) == []
