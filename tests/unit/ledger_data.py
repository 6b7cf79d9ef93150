"""Events for tests of the ledger: one experiment's life, many of them, and random sequences."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st
from kernel_lab.engine import events as e
from kernel_lab.engine.facts import Check, Prediction, Reason, Speed
from kernel_lab.engine.ledger.records import sha256

TASKS = ("gqa_decode", "gqa_prefill")


def source(number: int) -> bytes:
    return f"CONFIG = {{'*': {{'BLOCK': {number}}}}}\n".encode()


def created(name: str = "lab") -> e.LabCreated:
    return e.LabCreated(name, "static", "rtx3060", "llama-3.1-8b", TASKS, {"mode": "auto"}, {})


def life(
    number: int,
    *,
    task: str = "gqa_decode",
    parent: int | None = 1,
    status: str = "discard",
    champion: int | None = None,
    checks: int = 2,
    trials: int = 2,
) -> list[e.Event]:
    """One experiment from start to verdict; a keep (or seed) also becomes champion after `champion`."""
    sha = sha256(source(number))
    happened: list[e.Event] = [
        e.ExperimentStarted(number, task, parent, "seed" if parent is None else "search"),
        e.Proposed(number, sha, f"Try block {number}", "Fewer passes", Prediction(3.0, "dram"), "tiles"),
    ]
    happened += [e.TrialFinished(number, i, "*", {"BLOCK": i}, "ok", 1.1, {"w": 9.5}) for i in range(trials)]
    happened += [
        e.Checked(number, Check("correctness", f"case-{i}", "values", "pass")) for i in range(checks)
    ]
    happened += [
        e.SpeedJudged(number, Speed("estimated", {"fa2": 0.9, "seed": 1.2}, {}, ())),
        e.ExperimentFinished(number, status, (), sha),
    ]
    if status in ("keep", "seed"):
        happened.append(e.ChampionChanged(task, number, champion, "faster"))
    return happened


def sources(numbers: Sequence[int]) -> list[bytes]:
    return [source(number) for number in numbers]


_numbers = st.integers(1, 6)
_tasks = st.sampled_from(TASKS)
_texts = st.text(max_size=20)
_reasons = st.builds(Reason, st.sampled_from(["lint", "speed"]), _texts, _texts)
_shas = st.builds(lambda n: sha256(source(n)), _numbers) | st.just("")
_floats = st.floats(allow_nan=False) | st.just(float("inf"))
_statuses = st.sampled_from(["keep", "discard", "held", "incorrect", "vetoed", "seed", "interrupted"])
_parents = st.none() | _numbers

EVENTS = st.one_of(
    st.builds(e.ExperimentStarted, _numbers, _tasks, _parents, st.just("search")),
    st.builds(e.Proposed, _numbers, _shas, _texts, _texts, st.builds(Prediction, _floats, _texts), _texts),
    st.builds(e.Refused, _numbers, _reasons),
    st.builds(
        e.Checked,
        _numbers,
        st.builds(Check, st.just("quick"), _texts, _texts, st.just("fail"), _texts, _floats),
    ),
    st.builds(
        e.GateFinished, _numbers, st.sampled_from(["lint", "screen", "other"]), st.booleans(), st.none()
    ),
    st.builds(
        e.ApprovalRequested, _numbers, st.sampled_from(["proposal", "keep", "hold", "plateau"]), _shas, _texts
    ),
    st.builds(
        e.Decided,
        _numbers,
        st.sampled_from(["proposal", "keep", "hold"]),
        st.sampled_from(["approve", "reject", "edit"]),
        _texts,
        _texts,
        _shas,
    ),
    st.builds(
        e.TrialFinished,
        _numbers,
        st.integers(0, 3),
        st.sampled_from(["*", "long"]),
        st.just({"BLOCK": 64}),
        st.just("ok"),
        st.none() | _floats,
        st.just({"w": 1.5}),
    ),
    st.builds(e.TrialsSettled, _numbers, _shas, st.just({"*": {"BLOCK": 64}})),
    st.builds(
        e.SpeedJudged,
        _numbers,
        st.builds(
            Speed, st.just("measured"), st.just({"fa2": 1.1}), st.just({"fa2": (1.0, 1.2)}), st.just(())
        ),
    ),
    st.builds(
        e.ExperimentFinished,
        _numbers,
        _statuses,
        st.lists(_reasons, max_size=2).map(tuple),
        st.none() | _shas,
    ),
    st.builds(e.ChampionChanged, _tasks, _numbers, _parents, _texts),
    st.builds(e.StatusRevised, _numbers, _statuses, _texts, _texts, st.just("cheat"), _texts),
    st.builds(e.RemeasureRequested, _numbers, _texts),
    st.builds(
        e.Remeasured, _numbers, st.just("falls"), _numbers, st.none() | _floats, st.just(()), st.just(7)
    ),
    st.builds(e.IdeaSaid, _numbers, _texts, st.just("from"), _parents, _texts),
    st.builds(e.IdeaUsed, _numbers, _numbers),
    st.builds(e.IdeaWithdrawn, _numbers, _texts),
    st.builds(e.Submitted, _numbers, _tasks, _shas, _texts, st.just((1,)), _texts),
    st.builds(e.ExperimentStarted, _numbers, _tasks, _parents, st.just("person"), _numbers),
    st.builds(e.IdeaEdited, _numbers, _texts, _texts),
    st.builds(e.IdeaMoved, _numbers, st.lists(_numbers, max_size=4).map(tuple), _texts),
    st.builds(e.PlateauReached, _numbers, _tasks, _numbers, st.just(("tiles",)), _texts),
    st.builds(e.ModeChanged, st.just("ask"), _texts),
    st.builds(e.Paused, _texts),
    st.builds(e.Resumed, _texts),
    st.builds(
        e.SelftestJudged,
        st.sampled_from(["running", "green", "red"]),
        _texts,
        st.just(()),
        st.just(()),
        st.just(True),
    ),
    st.builds(e.SpaceExplored, _tasks, _texts),
    st.builds(e.EngineStarted, st.just("1"), st.just({"torch": "2"})),
    st.builds(e.EngineStopped, st.just("stop"), _texts),
    st.just(created()),
)
