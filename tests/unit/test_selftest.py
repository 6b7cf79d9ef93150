"""The battery's files, what the lint says of each, and what a selftest concludes; no candidate runs here."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kernel_lab.engine.candidate import parse
from kernel_lab.engine.errors import TaskError
from kernel_lab.engine.facts import Reason
from kernel_lab.engine.judge import battery_files, selftest
from kernel_lab.engine.judge.battery_files import CLASSES, BatteryFile, load_battery
from kernel_lab.engine.judge.judge import GateResult
from kernel_lab.engine.judge.lint import RULES, lint
from kernel_lab.engine.judge.selftest import run_battery
from kernel_lab.engine.tasks import load_task, shipped_tasks

FILES = load_battery()
CHEATS = [file for file in FILES if file.expect == "caught"]
HONEST = [file for file in FILES if file.expect == "clean"]
ENTRY = {task: load_task(task).entry for task in shipped_tasks()}
OF_A_CANDIDATE = {
    1, 2, 3, 4, 5, 7, 8, 9, 10, 11, 12, 14, 15, 16, 17, 19, 20, 21, 22, 24, 25, 26, 27, 28, 29, 30, 31, 32,
    33, 34, 35, 37, 38, 39, 40, 42, 43, 44, 45, 47, 49, 51,
}  # fmt: skip
"""Kinds of the catalogue that one candidate's file can show."""


def rules(file: BatteryFile) -> set[str]:
    return {reason.probe for reason in lint(file.source, ENTRY[file.task])}


# ---- the files --------------------------------------------------------------------------------------


def test_there_are_files_enough_of_every_class_task_and_kind() -> None:
    assert len(CHEATS) >= 100 and len(HONEST) >= 20
    assert len({file.id for file in FILES}) == len(FILES)
    assert {file.group for file in FILES} == set(CLASSES)
    for task in shipped_tasks():
        assert sum(file.task == task for file in CHEATS) >= 40
        assert sum(file.task == task for file in HONEST) >= 10
    assert {kind for file in CHEATS for kind in file.kinds} >= OF_A_CANDIDATE


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.expect}-{file.id}")
def test_a_file_is_a_candidate_that_shows_little_more_than_its_trick(file: BatteryFile) -> None:
    parse(file.source, ENTRY[file.task])
    assert file.title and not file.title.endswith(".")
    if file.expect == "caught":
        assert file.kinds and file.probes
        assert len(file.own.splitlines()) <= 75
    else:
        assert file.group == "honest" and not file.probes
    ast.parse(file.source)


@pytest.mark.parametrize("file", HONEST, ids=lambda file: file.id)
def test_the_lint_raises_no_alarm_on_an_honest_file(file: BatteryFile) -> None:
    assert rules(file) == set()


@pytest.mark.parametrize("file", [f for f in CHEATS if f.needs == "lint"], ids=lambda file: file.id)
def test_what_only_a_text_gives_away_the_lint_finds(file: BatteryFile) -> None:
    assert rules(file) & set(file.probes)


def test_many_cheats_look_innocent_to_the_lint_so_that_the_probes_are_tried() -> None:
    assert sum(not rules(file) for file in CHEATS) >= 45


def test_a_file_names_guards_that_exist() -> None:
    outcomes = {"crash", "cheat", "invalid", "compile_error", "oom", "timeout", "held", "unproven"}
    harness = Path(battery_files.__file__).parents[1] / "harness"
    source = (harness / "probes.py").read_text() + (harness / "cardprobes.py").read_text()
    for file in CHEATS:
        for probe in file.probes:
            known = probe in RULES or probe in outcomes or f'"{probe}"' in source
            assert known or probe == "compare", (file.id, probe)


def write(folder: Path, header: str, body: str = "") -> Path:
    path = folder / "file.py"
    path.write_text(
        f'# title = "x"\n# class = "reuse"\n# task = "gqa_prefill"\n# needs = "static"\n{header}{body}'
    )
    return path


@pytest.mark.parametrize(
    ("header", "words"),
    [
        ('# base = "seed"\n# [[edit]]\n# old = "not there"\n# new = ""\n', "0 times"),
        ('# base = "other"\n', "is not known"),
        ('# bass = "seed"\n', "is not known"),
        ("# base = \n", "does not begin with its description"),
    ],
)
def test_a_file_that_is_not_as_described_is_named(tmp_path: Path, header: str, words: str) -> None:
    path = write(tmp_path, header)
    with pytest.raises(TaskError, match=r"file\.py") as caught:
        battery_files._read(path, "caught", load_task)
    assert words in str(caught.value)


def test_the_bases_entry_makes_room_for_the_files_own(tmp_path: Path) -> None:
    body = "\ndef attention(q, k, v, *, causal, scale):\n    return honest(q, k, v, causal=causal)\n"
    file = battery_files._read(write(tmp_path, '# base = "seed"\n', body), "caught", load_task)
    assert file.source.count("def attention(") == 1
    assert file.source.count("def honest(") == 1
    assert file.own == body.lstrip("\n")


# ---- what a selftest concludes ----------------------------------------------------------------------


class FakeJudge:
    """Answers from a table: a file's source to what its integrity gate fails with."""

    measured = False

    def __init__(self, answers: dict[str, tuple[str, str]], alarms: set[str] = frozenset()) -> None:  # type: ignore[assignment]
        self.answers = answers
        self.alarms = alarms
        self.runs: list[str] = []
        self.device = SimpleNamespace(kind="estimated", environment=self.environment)

    async def environment(self) -> dict[str, Any]:
        return {"torch": "1", "device": "made up"}

    def lint(self, source: str) -> GateResult:
        reasons = (Reason("lint", "state", "line 1"),) if "CACHE" in source or source in self.alarms else ()
        return GateResult("lint", not reasons, "cheat" if reasons else None, reasons)

    async def integrity(self, source: str, seed: int, *, among: Any = None) -> GateResult:
        self.runs.append(source)
        if source in self.answers:
            status, probe = self.answers[source]
            return GateResult("integrity", False, status, (Reason("integrity", probe, "why"),))
        return GateResult("integrity", True)

    async def correctness(self, source: str, seed: int) -> GateResult:
        return GateResult("correctness", True)

    async def screen(self, source: str) -> tuple[GateResult, None]:
        return GateResult("screen", True), None


def made(name: str, **settings: Any) -> BatteryFile:
    values: dict[str, Any] = {
        "title": name, "expect": "caught", "group": "reuse", "kinds": (17,), "task": "gqa_prefill",
        "needs": "static", "probes": ("new_contents",), "quick": False, "own": name, "source": name,
    }  # fmt: skip
    return BatteryFile(id=name, **{**values, **settings})


BATTERY = (
    made("found"),
    made("slipped", group="state", probes=("same_bits",)),
    made("by_its_text CACHE", needs="lint", group="state", probes=("state",)),
    made("on_a_card", needs="gpu", group="timing"),
    made("honest", expect="clean", group="honest", quick=True),
)


@pytest.fixture
def battery(own_world: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Runs a made up battery with a made up judge."""
    monkeypatch.setattr(selftest, "load_battery", lambda tasks=None: BATTERY)

    async def run(
        answers: dict[str, tuple[str, str]], **settings: Any
    ) -> tuple[selftest.SelftestReport, FakeJudge]:
        judge = FakeJudge(answers, settings.pop("alarms", set()))
        return await run_battery(lambda task: judge, **settings), judge  # type: ignore[arg-type, return-value]

    return run


FOUND = ("cheat", "new_contents")


async def test_what_is_caught_missed_and_left_to_a_card_is_counted_apart(battery: Callable[..., Any]) -> None:
    report, judge = await battery({"found": FOUND})
    assert report.line == "caught 2/3, false alarms 0/1 (1 need a card)"
    assert {result.id: result.outcome for result in report.results} == {
        "found": "caught", "slipped": "missed", "by_its_text CACHE": "caught", "on_a_card": "needs_card",
        "honest": "clean",
    }  # fmt: skip
    assert report.classes == {"reuse": True, "state": False, "timing": True, "honest": True}
    assert not report.green
    assert "on_a_card" not in judge.runs and "by_its_text CACHE" not in judge.runs


async def test_all_is_green_when_every_cheat_is_caught_and_no_honest_file_alarms(
    battery: Callable[..., Any],
) -> None:
    report, _ = await battery({"found": FOUND, "slipped": ("incorrect", "compare")})
    assert report.green and report.caught == report.cheats == 3


async def test_an_honest_file_that_any_gate_turns_down_is_a_false_alarm(battery: Callable[..., Any]) -> None:
    for settings in ({"alarms": {"honest"}}, {}):
        answers = {"found": FOUND} | ({} if settings else {"honest": ("incorrect", "compare")})
        report, _ = await battery(answers, **settings)
        assert report.alarms == 1 and not report.classes["honest"]
        (result,) = [result for result in report.results if result.outcome == "alarm"]
        assert (result.gate, result.probe) == (("lint", "state") if settings else ("integrity", "compare"))


async def test_what_merely_could_not_run_is_not_caught(battery: Callable[..., Any]) -> None:
    report, _ = await battery({"found": FOUND, "slipped": ("held", "unproven")})
    assert {result.id: result.outcome for result in report.results}["slipped"] == "missed"


async def test_a_host_that_failed_catches_nothing(battery: Callable[..., Any]) -> None:
    report, _ = await battery({"found": ("error", "error")})
    assert {result.id: result.outcome for result in report.results}["found"] == "error"
    assert not report.classes["reuse"]


async def test_a_guard_that_is_switched_off_turns_its_class_red(
    battery: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KERNEL_LAB_DISABLE_PROBE", "new_contents,other")
    # Another guard still catches the file: its class is red all the same.
    report, _ = await battery({"found": ("cheat", "launch_census"), "slipped": ("incorrect", "same_bits")})
    assert report.caught == report.cheats
    assert report.disabled == ("new_contents", "other")
    assert report.classes["reuse"] is False and report.classes["state"] is True
    assert not report.green


def test_a_rule_of_the_lint_can_be_switched_off_and_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    file = next(file for file in CHEATS if file.id == "prints_fake_results")
    assert rules(file) == {"io"}
    monkeypatch.setenv("KERNEL_LAB_DISABLE_PROBE", "io")
    assert rules(file) == set()


async def test_quick_takes_the_marked_files(battery: Callable[..., Any]) -> None:
    report, _ = await battery({}, quick=True)
    assert [result.id for result in report.results] == ["honest"]
    assert 12 <= sum(file.quick for file in FILES) <= 24
    assert sum(file.quick and file.expect == "clean" for file in FILES) >= 3


async def test_a_report_is_remembered_for_its_environment(
    battery: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    report, judge = await battery({"found": FOUND})
    environment = await judge.environment()
    again = selftest.remembered(environment, quick=False)
    assert again == report
    assert selftest.remembered(environment, quick=True) == report, "a whole report answers for a quick one"
    assert selftest.remembered({**environment, "torch": "2"}, quick=False) is None
    monkeypatch.setenv("KERNEL_LAB_DISABLE_PROBE", "compare")
    assert selftest.remembered(environment, quick=False) is None


async def test_a_quick_report_does_not_answer_for_a_whole_one(battery: Callable[..., Any]) -> None:
    _, judge = await battery({}, quick=True)
    environment = await judge.environment()
    assert selftest.remembered(environment, quick=True) is not None
    assert selftest.remembered(environment, quick=False) is None


async def test_how_warm_a_card_is_changes_no_key(own_world: Path) -> None:
    cool = {
        "torch": "1",
        "card": {"name": "H200", "uuid": "u", "temperature_c": 30},
        "roofs": {"read_gbs": 1},
    }
    warm = {**cool, "card": {**cool["card"], "temperature_c": 60}, "roofs": {"read_gbs": 2}}  # type: ignore[dict-item]
    other = {**cool, "card": {**cool["card"], "uuid": "v"}}  # type: ignore[dict-item]
    key = selftest.environment_key(cool, ["gqa_decode"])
    assert key == selftest.environment_key(warm, ["gqa_decode"])
    assert key != selftest.environment_key(other, ["gqa_decode"])


async def test_each_result_is_told_as_it_comes(battery: Callable[..., Any]) -> None:
    told: list[selftest.FileResult] = []
    report, _ = await battery({"found": FOUND}, on_result=told.append)
    assert sorted(result.id for result in told) == sorted(result.id for result in report.results)
