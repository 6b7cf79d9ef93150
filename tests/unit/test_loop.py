"""The loop on a fake device: verdicts, modes, vetoes, and a kill between any two recorded steps."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from fake_device import FakeDevice
from kernel_lab.engine import commands as c
from kernel_lab.engine.candidate import parse, with_config
from kernel_lab.engine.errors import EnvironmentProblem, HostDied, UsageError
from kernel_lab.engine.events import Event, IdeaUsed, TrialFinished, encode
from kernel_lab.engine.facts import Prediction, Reason
from kernel_lab.engine.judge.static import Checking
from kernel_lab.engine.lab import Lab, LabConfig, create_lab, open_lab
from kernel_lab.engine.ledger.store import Ledger
from kernel_lab.engine.loop import Loop
from kernel_lab.engine.profiles import load_gpu, load_model
from kernel_lab.engine.proposers.base import Exhausted, Proposal, ProposalRequest, Refusal, Say
from kernel_lab.engine.tasks import load_task

TASK = "gqa_prefill"


class Script:
    """Turns one switch after the other on, with trials over BLOCK_N; then has nothing more."""

    name = "script"

    def __init__(self, steps: Sequence[Any]) -> None:
        self.steps = steps
        self.trial_space: dict[str, dict[str, list[Any]]] = {"long": {"BLOCK_N": [32, 64, 128]}}
        self.requests: list[ProposalRequest] = []

    async def propose(self, request: ProposalRequest, say: Say) -> Proposal | Exhausted | Refusal:
        self.requests.append(request)
        done = sum(1 for past in request.history if past.parent is not None)
        if done >= len(self.steps):
            return Exhausted("space explored: an idea would help")
        step = self.steps[done]
        say("thinking")
        if isinstance(step, Refusal):
            return step
        if isinstance(step, str):
            source = request.start_source + step
            return Proposal(source, "text", "why", Prediction(1.0, None), "text", {}, _ideas(request))
        champion = parse(request.start_source, request.task.entry)
        config = {name: dict(row) for name, row in champion.config.items()}
        config["*"].update(step)
        return Proposal(
            source=with_config(champion, config),
            description=f"turn {step}",
            hypothesis="it helps",
            prediction=Prediction(5.0, "tensor"),
            lever=next(iter(step)),
            trial_space=self.trial_space,
            ideas=_ideas(request),
        )


def _ideas(request: ProposalRequest) -> tuple[int, ...]:
    return tuple(idea.id for idea in request.ideas)


def make_lab(path: Path, **settings: Any) -> Lab:
    config = LabConfig(**{"gpu": "rtx3060", "tasks": (TASK,), "mode": "auto", "trials": 3, **settings})
    return create_lab(path, config)


def make_loop(lab: Lab, script: Script, device: FakeDevice | None = None) -> Loop:
    tasks = {name: load_task(name) for name in lab.config.tasks}
    gpu, model = load_gpu("rtx3060"), load_model("llama-3.1-8b")
    return Loop(lab, device or FakeDevice(), gpu, model, tasks, script)


def run(lab: Lab, script: Script, device: FakeDevice | None = None) -> Any:
    return asyncio.run(make_loop(lab, script, device).run())


STEPS = [
    {"SKIP": True},
    {"DESCRIPTORS": True},
    {"TWO_LOOPS": True},
    Refusal(Reason("scope", "text", "prose")),
]


def statuses(ledger: Ledger) -> list[str]:
    return [row.status for row in ledger.experiments()]


def test_wins_are_kept_losses_discarded_and_the_end_is_said(tmp_path: Path) -> None:
    lab = make_lab(tmp_path / "lab")
    ended = run(lab, Script(STEPS))
    assert ended.reason == "exhausted"
    assert "an idea would help" in ended.text
    assert statuses(lab.ledger) == ["seed", "keep", "discard", "keep", "invalid"]
    rows = lab.ledger.experiments()
    assert lab.ledger.champions() == {TASK: 4}
    assert [row.parent for row in rows] == [None, 1, 2, 2, 4]
    assert rows[1].score["seed"] == pytest.approx(1.6, rel=0.05)
    assert rows[3].score["seed"] == pytest.approx(1.76, rel=0.05)
    assert rows[3].score["champion"] == pytest.approx(1.1, rel=0.05)
    assert rows[1].score_kind == "estimated"
    assert lab.ledger.verify() == lab.ledger.last_seq()


def test_a_budget_counts_experiments_not_seeds_and_a_later_run_keeps_to_it(tmp_path: Path) -> None:
    lab = make_lab(tmp_path / "lab", budget=2)
    assert run(lab, Script(STEPS)).reason == "budget"
    assert statuses(lab.ledger) == ["seed", "keep", "discard"]
    assert run(lab, Script(STEPS)).reason == "budget"
    assert len(lab.ledger.experiments()) == 3


@pytest.mark.parametrize(
    ("gate", "status"),
    [("quick", "incorrect"), ("correctness", "incorrect"), ("integrity", "cheat"), ("confirm", "incorrect")],
)
def test_a_failed_gate_gives_its_verdict_and_no_champion(tmp_path: Path, gate: str, status: str) -> None:
    lab = make_lab(tmp_path / "lab")
    device = FakeDevice()
    device.failing = {'"SKIP": True': gate}
    run(lab, Script([{"SKIP": True}]), device)
    row = lab.ledger.experiments()[1]
    assert (row.status, row.reasons[0].gate) == (status, gate)
    assert lab.ledger.champions() == {TASK: 1}


def test_a_seed_that_fails_ends_the_run_with_one_line(tmp_path: Path) -> None:
    lab = make_lab(tmp_path / "lab")
    device = FakeDevice()
    device.failing = {"def attention": "correctness"}
    with pytest.raises(UsageError, match=r"the seed of gqa_prefill does not pass .*mend the file"):
        run(lab, Script(STEPS), device)
    assert lab.ledger.view().stopped is not None


def test_the_same_code_again_is_turned_down_before_anything_runs(tmp_path: Path) -> None:
    lab = make_lab(tmp_path / "lab")
    device = FakeDevice()
    run(lab, Script(["\n# a comment only\n"]), device)
    row = lab.ledger.experiments()[1]
    assert (row.status, row.reasons[0].probe, row.reasons[0].detail) == (
        "discard",
        "repeat",
        "the same code as #1",
    )


def test_faster_than_the_roof_is_held_and_the_loop_goes_on_from_the_clean_champion(tmp_path: Path) -> None:
    lab = make_lab(tmp_path / "lab")
    device = FakeDevice()
    loop = make_loop(lab, Script([{"SKIP": True}]), device)
    screen = device.screen

    async def hot(task: Any, source: str, workloads: Any) -> Any:
        device.roof_percent = 130.0 if '"SKIP": True' in source else 50.0
        return await screen(task, source, workloads)

    device.screen = hot  # type: ignore[method-assign]
    asyncio.run(loop.run())
    assert statuses(lab.ledger) == ["seed", "held"]
    assert lab.ledger.champions() == {TASK: 1}
    assert [(q.experiment, q.kind) for q in lab.ledger.open_questions()] == [(2, "hold")]
    control = make_loop(lab, Script([])).control
    number = lab.ledger.send(c.Keep(2), "person")
    control.obey(number, c.Keep(2), "person")
    assert lab.ledger.command_result(number) == "#2 is kept and is the champion"
    assert (lab.ledger.champions(), statuses(lab.ledger)) == ({TASK: 2}, ["seed", "keep"])
    assert lab.ledger.open_questions() == []


def test_a_win_that_could_not_be_proven_is_held_with_its_speed(tmp_path: Path) -> None:
    lab = make_lab(tmp_path / "lab")
    device = FakeDevice()
    device.unproven = '"SKIP": True'
    run(lab, Script([{"SKIP": True}]), device)
    row = lab.ledger.experiments()[1]
    assert (row.status, row.reasons[0].probe) == ("held", "unproven")
    assert row.score["champion"] > 1.5
    assert [(q.experiment, q.kind) for q in lab.ledger.open_questions()] == [(2, "hold")]


def test_a_veto_falls_back_to_the_last_clean_champion_and_holds_what_was_built_on_it(tmp_path: Path) -> None:
    lab = make_lab(tmp_path / "lab")
    run(lab, Script([{"EXP2": True}, {"SKIP": True}, {"TWO_LOOPS": True}]))
    assert lab.ledger.champion_line(TASK) == [1, 2, 3, 4]
    control = make_loop(lab, Script([])).control
    number = lab.ledger.send(c.Veto(3, "smells", "cheat"), "person")
    control.obey(number, c.Veto(3, "smells", "cheat"), "person")
    assert lab.ledger.champion_line(TASK) == [1, 2]
    assert statuses(lab.ledger) == ["seed", "keep", "vetoed", "held"]
    assert [(q.experiment, q.kind) for q in lab.ledger.open_questions()] == [(4, "hold")]
    assert "built on #3, which was vetoed: smells" in lab.ledger.open_questions()[0].reason
    lab.ledger.verify()


@pytest.mark.parametrize(
    "command",
    [
        c.Veto(10**30, "x"),
        c.Keep(-(10**30)),
        c.Say("x", "from", 10**30),
        c.Say(None),  # type: ignore[arg-type]
        c.Approve(None),  # type: ignore[arg-type]
    ],
)
def test_a_command_that_makes_no_sense_is_refused_and_never_met_again(tmp_path: Path, command: Any) -> None:
    lab = make_lab(tmp_path / "lab")
    run(lab, Script([]))
    number = lab.ledger.send(command, "person")
    make_loop(lab, Script([])).control.obey(number, command, "person")
    assert (lab.ledger.command_result(number) or "").startswith("refused: ")
    assert lab.ledger.pending_commands() == []


async def answering(lab: Lab, loop: Loop, answers: Sequence[c.Command]) -> Any:
    waiting = list(answers)
    running = asyncio.create_task(loop.run())
    while not running.done():
        if waiting and lab.ledger.open_questions() and not lab.ledger.pending_commands():
            lab.ledger.send(waiting.pop(0), "person")
        await asyncio.sleep(0.02)
    return running.result()


def test_mode_ask_waits_for_the_person_and_a_rejection_is_a_verdict(tmp_path: Path) -> None:
    lab = make_lab(tmp_path / "lab", mode="ask")
    loop = make_loop(lab, Script([{"SKIP": True}, {"TWO_LOOPS": True}]))
    asyncio.run(answering(lab, loop, [c.Reject(2, "not now"), c.Approve(3), c.Approve(3)]))
    rows = lab.ledger.experiments()
    assert [row.status for row in rows] == ["seed", "rejected", "keep"]
    assert rows[1].reasons[-1] == Reason("person", "reject", "not now")


def test_an_approval_is_tied_to_the_proposal_that_was_shown(tmp_path: Path) -> None:
    lab = make_lab(tmp_path / "lab", mode="ask")
    loop = make_loop(lab, Script([{"SKIP": True}]))
    asyncio.run(answering(lab, loop, [c.Approve(2, "0" * 64), c.Approve(2), c.Approve(2)]))
    results = [lab.ledger.command_result(n) for n in (1, 2, 3)]
    assert results[0] is not None and results[0].startswith("refused: #2 has changed since it was shown")
    assert results[1] == "#2 is approved"


def test_an_edited_proposal_goes_through_its_gates_again(tmp_path: Path) -> None:
    lab = make_lab(tmp_path / "lab", mode="ask")
    seed = load_task(TASK).seed_source
    champion = parse(seed, "attention")
    edited = with_config(champion, {**champion.config, "*": {**champion.config["*"], "TWO_LOOPS": True}})
    loop = make_loop(lab, Script([{"SKIP": True}]))
    asyncio.run(answering(lab, loop, [c.Edit(2, "no python ("), c.Edit(2, edited), c.Approve(2)]))
    assert (lab.ledger.command_result(1) or "").startswith("refused: ")
    row = lab.ledger.experiments()[1]
    assert row.status == "keep"
    assert row.score["seed"] == pytest.approx(1.1, rel=0.05)
    quick = [r.event for r in lab.ledger.records(experiment=2) if getattr(r.event, "gate", "") == "quick"]
    assert len({event.source_sha for event in quick}) == 2  # type: ignore[union-attr]


def test_kill_ends_the_experiment_and_the_loop_goes_on(tmp_path: Path) -> None:
    lab = make_lab(tmp_path / "lab", mode="ask")
    loop = make_loop(lab, Script([{"SKIP": True}, {"TWO_LOOPS": True}]))
    asyncio.run(answering(lab, loop, [c.Kill(), c.Approve(3), c.Approve(3)]))
    assert statuses(lab.ledger) == ["seed", "interrupted", "keep"]
    assert lab.ledger.open_questions() == []


def test_stop_now_leaves_the_experiment_to_be_resumed(tmp_path: Path) -> None:
    lab = make_lab(tmp_path / "lab", mode="ask")
    loop = make_loop(lab, Script([{"SKIP": True}]))
    assert asyncio.run(answering(lab, loop, [c.Stop(now=True)])).reason == "stop"
    assert statuses(lab.ledger) == ["seed", "running"]
    loop = make_loop(lab, Script([{"SKIP": True}]))
    asyncio.run(answering(lab, loop, [c.Approve(2), c.Approve(2)]))
    assert statuses(lab.ledger) == ["seed", "keep"]


def test_an_idea_reaches_the_next_proposal_and_is_marked_with_it(tmp_path: Path) -> None:
    lab = make_lab(tmp_path / "lab")
    lab.ledger.send(c.Say("try skipping"), "person")
    lab.ledger.send(c.Say("always small tiles", "always"), "person")
    script = Script([{"SKIP": True}, {"TWO_LOOPS": True}])

    async def go() -> None:
        loop = make_loop(lab, script)
        for command in lab.ledger.pending_commands():
            loop.control.obey(command.id, command.command, command.by)
        await loop.run()

    asyncio.run(go())
    assert [[idea.text for idea in request.ideas] for request in script.requests[:2]] == [
        ["try skipping", "always small tiles"],
        ["always small tiles"],
    ]
    used = [r.event for r in lab.ledger.records() if isinstance(r.event, IdeaUsed)]
    assert [(event.idea, event.experiment) for event in used] == [(1, 2), (2, 2), (2, 3)]


def test_switching_to_auto_answers_the_open_question(tmp_path: Path) -> None:
    lab = make_lab(tmp_path / "lab", mode="wins")
    loop = make_loop(lab, Script([{"SKIP": True}, {"TWO_LOOPS": True}]))
    asyncio.run(answering(lab, loop, [c.SetMode("auto")]))
    assert statuses(lab.ledger) == ["seed", "keep", "keep"]


class Killed(BaseException):
    """Stands for SIGKILL: nothing of the engine runs after it."""


def story(ledger: Ledger) -> list[tuple[str, Any]]:
    """What happened, without when."""
    told = []
    for record in ledger.records():
        if record.event is None or record.type in ("engine_started", "engine_stopped"):
            continue
        name, fields = encode(record.event)
        fields.pop("seconds", None)
        told.append((name, fields))
    return told


def test_a_kill_at_every_recorded_step_changes_nothing_in_the_end(tmp_path: Path) -> None:
    whole = make_lab(tmp_path / "whole" / "lab")
    run(whole, Script(STEPS))
    expected = story(whole.ledger)
    assert len(expected) > 60

    lab = make_lab(tmp_path / "killed" / "lab")
    kills = 0
    append = Ledger.append

    while True:
        budget = 1

        def dying(self: Ledger, events: Sequence[Event], **rest: Any) -> Any:
            nonlocal budget
            if budget == 0:
                raise Killed
            budget -= 1
            return append(self, events, **rest)

        loop = make_loop(lab, Script(STEPS))
        lab.ledger.append = dying.__get__(lab.ledger)  # type: ignore[method-assign]
        try:
            asyncio.run(loop.run())
            break
        except Killed:
            kills += 1
            lab.close()
            lab = open_lab(lab.path)
    assert kills > 60
    assert story(lab.ledger) == expected
    lab.ledger.verify()


def test_a_kill_before_the_trials_does_not_change_their_order(tmp_path: Path) -> None:
    tiles: dict[str, list[Any]] = {"num_stages": [2, 3], "BLOCK_N": [32, 64, 128], "BLOCK_M": [64, 128]}
    script = Script([{"SKIP": True}])
    script.trial_space = {"short": tiles, "long": tiles, "chunk": tiles}
    whole = make_lab(tmp_path / "whole" / "lab", trials=7)
    run(whole, script)
    names = [name for name, _ in story(whole.ledger)]
    assert names.count("trial_finished") == 7

    append = Ledger.append

    def dying(self: Ledger, events: Sequence[Event], **rest: Any) -> Any:
        if any(isinstance(event, TrialFinished) for event in events):
            raise Killed
        return append(self, events, **rest)

    lab = make_lab(tmp_path / "killed" / "lab", trials=7)
    lab.ledger.append = dying.__get__(lab.ledger)  # type: ignore[method-assign]
    with pytest.raises(Killed):
        run(lab, script)
    lab.close()
    lab = open_lab(lab.path)
    run(lab, script)
    assert story(lab.ledger) == story(whole.ledger)


def test_a_host_that_dies_costs_no_step(tmp_path: Path) -> None:
    whole = make_lab(tmp_path / "whole" / "lab")
    run(whole, Script(STEPS))
    lab = make_lab(tmp_path / "host" / "lab")
    device = FakeDevice()
    check = device.check
    deaths = 0

    async def dying(task: Any, source: str, gate: str, *rest: Any, **named: Any) -> Any:
        nonlocal deaths
        if gate == "correctness" and '"SKIP": True' in source and deaths < 2:
            deaths += 1
            raise HostDied("the process beside the card ended: try again")
        return await check(task, source, gate, *rest, **named)

    device.check = dying  # type: ignore[method-assign]
    run(lab, Script(STEPS), device)
    assert deaths == 2
    assert [one for one in story(lab.ledger) if one[0] != "notice"] == story(whole.ledger)
    assert [fields["text"] for name, fields in story(lab.ledger) if name == "notice"] == [
        "the process beside the card ended: try again"
    ] * 2


class Failing(FakeDevice):
    """Its own processes fail at the gate `at`, so many times."""

    def __init__(self, at: str, times: int) -> None:
        super().__init__()
        self.at, self.times = at, times

    async def check(self, task: Any, source: str, gate: str, cases: Any, **more: Any) -> Checking:
        if gate == self.at and self.times:
            self.times -= 1
            return Checking("error", "the process that imports triton ended", "", ())
        return await super().check(task, source, gate, cases, **more)


@pytest.mark.parametrize("gate", ["quick", "correctness", "integrity"])
def test_a_gate_at_which_the_judge_itself_failed_is_judged_once_more(tmp_path: Path, gate: str) -> None:
    lab = make_lab(tmp_path / "lab")
    device = Failing(gate, 1)
    run(lab, Script(STEPS[:1]), device)
    assert device.times == 0
    assert statuses(lab.ledger) == ["seed", "keep"]


def test_a_judge_that_keeps_failing_at_the_seed_blames_no_file_and_the_lab_goes_on_later(
    tmp_path: Path,
) -> None:
    lab = make_lab(tmp_path / "lab")
    with pytest.raises(EnvironmentProblem, match="memory"):
        run(lab, Script(STEPS[:1]), Failing("correctness", 2))
    assert run(lab, Script(STEPS[:1])).reason == "exhausted"
    assert statuses(lab.ledger) == ["seed", "keep"]
    assert lab.ledger.verify() == lab.ledger.last_seq()


def test_each_experiment_leaves_its_files(tmp_path: Path) -> None:
    lab = make_lab(tmp_path / "lab")
    run(lab, Script([{"SKIP": True}]))
    folder = lab.run_dir(2)
    row = lab.ledger.experiments()[1]
    assert (folder / "candidate.py").read_text() == lab.ledger.blob(row.source_sha or "").decode()
    report = json.loads((folder / "report.json").read_text())
    assert report["experiment"]["status"] == "keep"
    assert report["launches"][0]["smem_bytes"] == 49152
