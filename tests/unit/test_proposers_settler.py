"""The settler: distinct settings, the same for the same past, small spaces whole, more than chance finds."""

from __future__ import annotations

import itertools
import math
import random
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_lab.engine.candidate import Value
from kernel_lab.engine.ledger.views import TrialRow
from kernel_lab.engine.proposers.settler import Settler, past_trials
from proposer_requests import past

SMALL: dict[str, list[Value]] = {"warps": [4, 8], "stages": [1, 2, 3], "EXP2": [False, True]}
LARGE: dict[str, list[Value]] = {
    "M": [32, 64, 128],
    "N": [32, 64, 128],
    "warps": [4, 8],
    "stages": [1, 2, 3, 4],
}
START: dict[str, Value] = {"M": 64, "N": 64, "warps": 4, "stages": 2, "elsewhere": True}

Settings = list[dict[str, Value]]


def all_of(settler: Settler) -> Settings:
    found: Settings = []
    while (values := settler.ask()) is not None:
        found.append(values)
        assert len(found) <= 1_000
    return found


def test_a_small_space_is_asked_whole_nearest_to_the_parent_first() -> None:
    parent: dict[str, Value] = {"warps": 4, "stages": 2, "EXP2": False}
    found = all_of(Settler(0, SMALL, parent))
    assert len(found) == 11
    assert parent not in found
    assert len({tuple(one.items()) for one in found}) == 11
    changes = [sum(one[name] != parent[name] for name in SMALL) for one in found]
    assert changes == sorted(changes)
    assert found[:3] == [
        {"warps": 4, "stages": 1, "EXP2": False},
        {"warps": 4, "stages": 2, "EXP2": True},
        {"warps": 4, "stages": 3, "EXP2": False},
    ]


def test_without_parent_values_every_setting_is_asked() -> None:
    assert len(all_of(Settler(0, SMALL, {}))) == 12
    assert all_of(Settler(0, {"A": [True]}, {"A": True})) == []
    assert all_of(Settler(0, {"A": [True]}, {"A": False})) == [{"A": True}]
    assert all_of(Settler(0, {}, {"A": 1})) == []
    assert all_of(Settler(0, {"A": [1, True, 1.0]}, {"A": 1})) == [{"A": True}, {"A": 1.0}]


def test_a_large_space_is_asked_without_repeats_to_its_end() -> None:
    settler = Settler(3, LARGE, START)
    found: Settings = []
    while (values := settler.ask()) is not None:
        settler.tell(values, 1.0 + len(found) % 7 / 10 if len(found) % 3 else None)
        found.append(values)
    assert len(found) == 71
    assert len({tuple(one.items()) for one in found}) == 71
    assert all(set(one) == set(LARGE) for one in found)


def script(settler: Settler, rounds: int, at_once: int = 2) -> Settings:
    """Trials as the loop runs them: some at a time, told in order."""
    found: Settings = []
    for _ in range(rounds):
        asked = [values for _ in range(at_once) if (values := settler.ask()) is not None]
        for values in asked:
            settler.tell(values, score(values))
        found += asked
    return found


def score(values: dict[str, Value]) -> float | None:
    if int(values["M"]) * int(values["N"]) * int(values["stages"]) > 128 * 64 * 2:
        return None
    return 1.0 + int(values["M"]) / 512 - abs(int(values["N"]) - 32) / 256 + int(values["warps"]) / 100


def test_the_seed_and_the_past_decide_and_nothing_else() -> None:
    first, second = (script(Settler(7, LARGE, START), 8) for _ in range(2))
    assert first == second
    assert script(Settler(8, LARGE, START), 8) != first


@pytest.mark.parametrize("told", range(0, 16, 2))
def test_a_resumed_settler_that_is_only_told_goes_on_with_the_same_setting(told: int) -> None:
    unbroken = script(Settler(7, LARGE, START), 8)
    resumed = Settler(7, LARGE, START)
    for values in unbroken[:told]:
        resumed.tell(values, score(values))
    assert [resumed.ask(), resumed.ask()] == unbroken[told : told + 2]


def test_the_past_of_other_code_teaches_but_does_not_forbid() -> None:
    good: dict[str, Value] = {"M": 128, "N": 32, "warps": 8, "stages": 1}
    warm = [({**START, "M": 32, "N": n}, 0.5) for n in (32, 64, 128)] + [(good, 2.0), ({"M": 5}, 9.0)]
    found = script(Settler(1, LARGE, START, warm), 6)
    assert found != script(Settler(1, LARGE, START), 6)
    small = Settler(0, SMALL, {}, [({"warps": 4, "stages": 1, "EXP2": False}, 1.0)])
    assert {"warps": 4, "stages": 1, "EXP2": False} in all_of(small)


def test_a_warm_start_is_read_from_the_history_of_the_bucket() -> None:
    def trial(number: int, bucket: str, status: str, ratio: float | None) -> TrialRow:
        return TrialRow(2, number, bucket, {"M": 32 * number}, status, ratio, {}, "")

    rows = (trial(1, "many", "ok", 1.1), trial(2, "many", "oom", None), trial(3, "few", "ok", 1.2))
    rows += (trial(4, "many", "pruned", 0.5),)
    history = [past(2, 1, "tiles:many", trials=rows), past(3, 1, "exp2")]
    assert past_trials(history, "many") == [({"M": 32}, 1.1), ({"M": 64}, None)]


def test_odd_tells_are_borne() -> None:
    settler = Settler(0, LARGE, START)
    settler.tell({"nothing": 1}, 2.0)
    settler.tell({**START, "M": 31}, 2.0)
    settler.tell(START, 1.0)
    settler.tell({**START, "M": 128}, float("nan"))
    settler.tell({**START, "M": 128}, None)
    assert settler.ask() is not None


def random_landscape(seed: int) -> tuple[dict[tuple[Value, ...], float], dict[str, Value]]:
    """Speeds of every setting: effects of values and of pairs, some that do not fit; and a fair start."""
    draw = random.Random(seed)
    effect: dict[object, float] = {}
    limit = draw.choice([64 * 128 * 2, 128 * 128 * 2])
    table: dict[tuple[Value, ...], float] = {}
    for setting in itertools.product(*LARGE.values()):
        named = list(zip(LARGE, setting, strict=True))
        speed = 1.0 + sum(effect.setdefault(one, draw.gauss(0, 0.12)) for one in named)
        speed += sum(effect.setdefault(two, draw.gauss(0, 0.06)) for two in itertools.combinations(named, 2))
        if int(setting[0]) * int(setting[1]) * int(setting[3]) <= limit:
            table[setting] = speed
    start = max(draw.sample(sorted(table), 5), key=lambda setting: table[setting])
    return table, dict(zip(LARGE, start, strict=True))


def share_found(trials: int, *, by_chance: bool) -> float:
    """Mean share of the gain that a space holds which so many trials find."""
    shares = []
    for seed in range(24):
        table, start = random_landscape(seed)
        first, best = table[tuple(start.values())], max(table.values())
        settler, draw, top = Settler(seed, LARGE, start), random.Random(seed), first
        settler.tell(start, 1.0)
        for _ in range(trials):
            values = {name: draw.choice(v) for name, v in LARGE.items()} if by_chance else settler.ask()
            assert values is not None
            speed = table.get(tuple(values[name] for name in LARGE))
            settler.tell(values, None if speed is None else speed / first)
            top = max(top, speed or 0.0)
        shares.append((top - first) / (best - first) if best > first else 1.0)
    return sum(shares) / len(shares)


@pytest.mark.parametrize(("trials", "share"), [(8, 0.65), (12, 0.85)])
def test_few_trials_find_most_of_what_a_space_holds_and_more_than_chance(trials: int, share: float) -> None:
    assert share_found(trials, by_chance=False) > share
    assert share_found(trials, by_chance=True) < share - 0.1


def test_small_spaces_and_steps_need_no_sampler() -> None:
    code = (
        "import sys; from kernel_lab.engine.proposers.settler import Settler; "
        f"s = Settler(0, {SMALL!r}, {{}}); s.ask(); s.tell(s.ask(), 1.0); "
        "import kernel_lab.engine.proposers.search, kernel_lab.engine.proposers.folder; "
        "print([m for m in ('optuna', 'torch', 'numpy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_sampler_is_silent(capfd: pytest.CaptureFixture[str]) -> None:
    script(Settler(5, LARGE, START), 4)
    captured = capfd.readouterr()
    assert captured.out == ""
    assert captured.err == ""


VALUE = st.one_of(st.booleans(), st.integers(-4, 200), st.sampled_from(["a", "b", "c"]))
VALUES = st.lists(VALUE, min_size=1, max_size=4, unique_by=lambda value: (type(value), value))
SPACES = st.dictionaries(st.sampled_from("abcd"), VALUES, max_size=4)


@settings(max_examples=60, deadline=None)
@given(SPACES, st.integers(0, 2**32 - 1), st.integers(0, 12))
def test_any_space_is_asked_without_repeats(space: dict[str, list[Value]], seed: int, trials: int) -> None:
    settler = Settler(seed, space, {name: options[0] for name, options in space.items()})
    found = []
    for number in range(trials):
        values = settler.ask()
        if values is None:
            break
        settler.tell(values, float(number % 3) if number % 4 else None)
        found.append(repr(sorted(values.items())))
    assert len(set(found)) == len(found)
    size = math.prod(len(options) for options in space.values())
    assert len(found) == min(trials, size - 1)
