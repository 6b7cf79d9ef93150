"""The judge tried against cheats and honest kernels, before anything that it keeps counts.

Every file of the battery goes through the gates that candidates go through. The lint does not shield what
follows it: each cheat with a probe at run time also runs with the lint off, so that what only the text gives
away is told from what running shows. What a static device cannot show is counted apart, never as caught.

A class of cheats is red while one of its files is missed, or while a guard that it names is switched off
(KERNEL_LAB_DISABLE_PROBE=name,…). Results are remembered for the environment that they were found in.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from kernel_lab.engine import paths
from kernel_lab.engine.judge.battery_files import CLASSES, BatteryFile, load_battery
from kernel_lab.engine.judge.cases import frozen_seed
from kernel_lab.engine.judge.judge import GateResult, Judge
from kernel_lab.engine.judge.lint_rules import disabled_guards
from kernel_lab.engine.tasks import load_task, shipped_tasks

Outcome = Literal["caught", "missed", "clean", "alarm", "needs_card", "error"]
JudgeOf = Callable[[str], Judge]
OnResult = Callable[["FileResult"], None] | None

NO_PROOF = ("held", "unproven")
"""Verdicts that only wait for a person or a card: a cheat is caught by them where its file says so."""
ENGINE = Path(__file__).parents[1]
SMALL_CASES: dict[str, tuple[dict[str, Any], ...]] = {
    "gqa_prefill": (
        {
            "id": "small", "B": 1, "Hq": 2, "Hkv": 1, "Sq": 20, "Sk": 100, "D": 64, "dtype": "fp16",
            "causal": True, "layout": "strided", "distribution": "normal",
        },
        {
            "id": "small-full", "B": 1, "Hq": 2, "Hkv": 1, "Sq": 9, "Sk": 70, "D": 64, "dtype": "fp16",
            "causal": False, "layout": "contiguous", "distribution": "monotone",
        },
    ),
    "gqa_decode": (
        {
            "id": "small", "B": 2, "Hq": 2, "Hkv": 1, "Sq": 1, "Sk": 100, "D": 64, "dtype": "fp16",
            "causal": True, "layout": "contiguous", "distribution": "normal", "seq_lens": [100, 37],
        },
        {
            "id": "small-two", "B": 1, "Hq": 2, "Hkv": 1, "Sq": 2, "Sk": 90, "D": 64, "dtype": "fp16",
            "causal": True, "layout": "strided", "distribution": "monotone", "seq_lens": [77],
        },
    ),
}  # fmt: skip
"""Cases that show most tricks in a second or two."""


@dataclass(frozen=True, slots=True)
class FileResult:
    """What became of one file. `lint` names the rules that its text breaks, `gate` and `probe` what caught it
    at run time with the lint off; both are empty where nothing did."""

    id: str
    title: str
    group: str
    kinds: tuple[int, ...]
    task: str
    outcome: Outcome
    lint: tuple[str, ...] = ()
    gate: str = ""
    probe: str = ""
    detail: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class SelftestReport:
    """All results, and what they say of each class."""

    results: tuple[FileResult, ...]
    quick: bool
    disabled: tuple[str, ...]
    """Guards that are switched off."""
    key: str
    """Hash of the environment: the judge, the battery, the tasks, versions, device, disabled guards."""
    environment: dict[str, Any]
    seconds: float

    def _count(self, *outcomes: Outcome) -> int:
        return sum(result.outcome in outcomes for result in self.results)

    @property
    def caught(self) -> int:
        return self._count("caught")

    @property
    def cheats(self) -> int:
        """Cheats that this device can show."""
        return sum(result.group != "honest" and result.outcome != "needs_card" for result in self.results)

    @property
    def alarms(self) -> int:
        return self._count("alarm")

    @property
    def honest(self) -> int:
        """Honest kernels that this device can run."""
        return sum(result.group == "honest" and result.outcome != "needs_card" for result in self.results)

    @property
    def need_card(self) -> int:
        return self._count("needs_card")

    @property
    def classes(self) -> dict[str, bool]:
        """Class to whether it is green: nothing missed, no alarm, no guard of it switched off."""
        guards = {file.id: file.probes for file in load_battery()}
        red = {
            result.group
            for result in self.results
            if result.outcome in ("missed", "alarm", "error")
            or set(guards.get(result.id, ())) & set(self.disabled)
        }
        return {name: name not in red for name in CLASSES if any(r.group == name for r in self.results)}

    @property
    def green(self) -> bool:
        return all(self.classes.values())

    @property
    def line(self) -> str:
        """`caught 80/80, false alarms 0/22 (8 need a card)`."""
        rest = f" ({self.need_card} need a card)" if self.need_card else ""
        return f"caught {self.caught}/{self.cheats}, false alarms {self.alarms}/{self.honest}{rest}"


async def run_battery(
    judge_of: JudgeOf,
    *,
    quick: bool = False,
    tasks: Sequence[str] | None = None,
    on_result: OnResult = None,
    at_once: int = 2,
    seed: int = 0,
) -> SelftestReport:
    """Try every file, `at_once` at a time, and remember the report.

    `judge_of` gives the judge of a task; all are of one device. `quick` takes the files that are marked so.
    """
    started = time.monotonic()
    names = tuple(tasks or shipped_tasks())
    files = [file for file in load_battery(names) if file.quick or not quick]
    environment = await judge_of(names[0]).device.environment()
    free = asyncio.Semaphore(at_once)

    async def one(file: BatteryFile) -> FileResult:
        async with free:
            own_seed = frozen_seed(seed, "selftest", file.id)
            result = await try_file(judge_of(file.task), file, own_seed, quick=quick)
        if on_result is not None:
            on_result(result)
        return result

    async with asyncio.TaskGroup() as group:
        running = [group.create_task(one(file)) for file in files]
    report = SelftestReport(
        results=tuple(task.result() for task in running),
        quick=quick,
        disabled=tuple(sorted(disabled_guards())),
        key=environment_key(environment, names),
        environment=environment,
        seconds=time.monotonic() - started,
    )
    _remember(report)
    return report


async def try_file(judge: Judge, file: BatteryFile, seed: int, *, quick: bool = False) -> FileResult:
    """One file through the lint, and through the other gates whatever the lint says."""
    started = time.monotonic()
    lint = tuple(dict.fromkeys(reason.probe for reason in judge.lint(file.source).reasons))
    gate, probe, detail = "", "", ""
    found: GateResult | None = None
    outcome: Outcome
    if file.needs == "gpu" and not judge.measured:
        outcome = "needs_card"
    elif file.needs == "lint":
        outcome = "caught" if lint else "missed"
    else:
        found = await _first_failure(_gates(judge, file, seed, quick=quick))
        if file.expect == "clean":
            outcome = "clean" if found is None and not lint else "alarm"
        else:
            outcome = "missed" if found is None else "caught"
    if found is not None:
        named = [reason for reason in found.reasons if reason.probe in file.probes]
        reason = (named or list(found.reasons))[0]
        gate, probe, detail = found.gate, reason.probe, reason.detail
        if found.status == "error":
            outcome = "error"
        elif found.status in NO_PROOF and file.expect == "caught" and not set(NO_PROOF) & set(file.probes):
            outcome = "missed"
    elif outcome == "alarm":
        gate, probe = "lint", lint[0]
    return FileResult(
        id=file.id,
        title=file.title,
        group=file.group,
        kinds=file.kinds,
        task=file.task,
        outcome=outcome,
        lint=lint,
        gate=gate,
        probe=probe,
        detail=detail,
        seconds=time.monotonic() - started,
    )


def _gates(
    judge: Judge, file: BatteryFile, seed: int, *, quick: bool
) -> list[Callable[[], Awaitable[GateResult]]]:
    """The gates at run time, those first that catch most and cost least.

    An honest file of the quick part meets the probes alone.
    """

    async def screen() -> GateResult:
        gate, screening = await judge.screen(file.source)
        if gate.passed and judge.measured and file.expect == "caught":
            # Nothing stands against it: what counts is whether it answers honestly while it is timed.
            return (await judge.race("speed", file.source, {}, screening, seed))[0]
        return gate

    first = [lambda: judge.integrity(file.source, seed, among=SMALL_CASES[file.task])]
    if quick and file.expect == "clean":
        return [*first]
    return [
        *first,
        lambda: judge.integrity(file.source, seed),
        lambda: judge.correctness(file.source, seed),
        screen,
    ]


async def _first_failure(gates: Iterable[Callable[[], Awaitable[GateResult]]]) -> GateResult | None:
    for gate in gates:
        result = await gate()
        if not result.passed:
            return result
    return None


# ---- what is remembered ------------------------------------------------------------------------------


def environment_key(environment: dict[str, Any], tasks: Iterable[str]) -> str:
    """Hash of all that a result depends on; of a card only what names it, not how warm it is."""
    card = environment.get("card") or {}
    stable = {
        **{key: value for key, value in environment.items() if key not in ("card", "roofs")},
        "card": [card.get(key) for key in ("name", "uuid", "driver")],
    }
    digest = hashlib.sha256()
    folders = [ENGINE / "harness", ENGINE / "judge", *(load_task(task).folder for task in tasks)]
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            if path.suffix in (".py", ".toml") and path.is_file():
                digest.update(str(path.relative_to(folder)).encode() + b"\0" + path.read_bytes() + b"\0")
    shown = json.dumps([stable, sorted(disabled_guards())], sort_keys=True, default=str)
    digest.update(shown.encode())
    return digest.hexdigest()


def remembered(
    environment: dict[str, Any], *, quick: bool, tasks: Sequence[str] | None = None
) -> SelftestReport | None:
    """The last report of this environment, or None. A whole one also answers for a quick one."""
    key = environment_key(environment, tasks or shipped_tasks())
    for whole in (False, True) if quick else (False,):
        with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
            data = json.loads(_path(key, quick=whole).read_text(encoding="utf-8"))
            results = [
                FileResult(**{**one, "kinds": tuple(one["kinds"]), "lint": tuple(one["lint"])})
                for one in data.pop("results")
            ]
            return SelftestReport(tuple(results), disabled=tuple(data.pop("disabled")), **data)
    return None


def _path(key: str, *, quick: bool) -> Path:
    return paths.cache_dir() / "selftest" / f"{key}-{'quick' if quick else 'whole'}.json"


def _remember(report: SelftestReport) -> None:
    """A report that cannot be written is found again another time."""
    path = _path(report.key, quick=report.quick)
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False, encoding="utf-8") as stream:
            json.dump(asdict(report), stream, default=str)
        Path(stream.name).replace(path)
