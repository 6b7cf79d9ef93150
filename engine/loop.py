"""The research loop of one lab: one experiment after the other, until there is a reason to stop.

    seeds → (propose → judge → decide → record)* → stop | budget | hours | exhausted

The loop keeps no state of its own: what to do next follows from the ledger, so a resumed lab goes on where
it was. One experiment runs at a time; commands are obeyed meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from kernel_lab.engine import again, artefacts, plateau
from kernel_lab.engine.bench import LabBench
from kernel_lab.engine.candidate import parse, read_candidate_file
from kernel_lab.engine.cardguard import CardGuard
from kernel_lab.engine.control import Control
from kernel_lab.engine.errors import (
    CandidateInvalid,
    EnvironmentProblem,
    HostDied,
    LabError,
    LedgerError,
    UsageError,
)
from kernel_lab.engine.events import (
    ApprovalRequested,
    ChampionChanged,
    EngineStopped,
    Event,
    ExperimentFinished,
    ExperimentStarted,
    LabCreated,
    Notice,
    PlateauReached,
    Proposed,
    Screened,
    SpaceExplored,
    type_name,
)
from kernel_lab.engine.experiment import ITSELF, Champion, Experiment, Turned
from kernel_lab.engine.facts import Prediction, Reason
from kernel_lab.engine.judge.judge import Judge
from kernel_lab.engine.judge.measured import MeasuredDevice
from kernel_lab.engine.judge.race import threshold_for
from kernel_lab.engine.judge.static import StaticDevice
from kernel_lab.engine.lab import Lab
from kernel_lab.engine.ledger import repo
from kernel_lab.engine.ledger.views import ExperimentRow
from kernel_lab.engine.profiles import GpuProfile, ModelProfile
from kernel_lab.engine.proposers.base import (
    WAIT_FOR_PEOPLE,
    Closing,
    Elsewhere,
    Ended,
    Exhausted,
    ProposalRequest,
    Proposer,
)
from kernel_lab.engine.proposers.handed_in import HandedIn
from kernel_lab.engine.requests import Requests
from kernel_lab.engine.steps import Steps
from kernel_lab.engine.tasks import TaskSpec, workload_matrix

R = TypeVar("R")
HOST_DEATHS = 3
"""How often the host may die within one experiment before the run ends."""


class Loop:
    """One lab's research. `run` returns the event that ended it."""

    def __init__(
        self,
        lab: Lab,
        device: StaticDevice,
        gpu: GpuProfile,
        model: ModelProfile,
        tasks: Mapping[str, TaskSpec],
        proposer: Proposer,
    ) -> None:
        self.lab = lab
        self.ledger = lab.ledger
        self.device = device
        self.gpu = gpu
        self.model = model
        self.tasks = dict(tasks)
        self.proposer = proposer
        self.guard: CardGuard | None = None
        self._receipt_of: dict[str, int] = {}
        self.started_at = time.monotonic()
        self.exhausted: dict[str, str] = {}
        self._judges: dict[str, Judge] = {}
        self.requests = Requests(lab.ledger, lab.config, gpu, model, device.kind)
        self._repo_problem: str | None = None
        self._wanted: str | None = None
        """Task that the proposer wants to be asked for next."""
        mode = self.ledger.view().mode or lab.config.mode
        self.control = Control(self.ledger, lambda task: self.tasks[task].entry, mode)

    async def run(self) -> EngineStopped:
        """Research until something ends it. A LabError is recorded as the reason and raised."""
        working = asyncio.create_task(self._work())  # first, so that the ledger begins with what the lab is
        serving = asyncio.create_task(self.control.serve())
        stopping = asyncio.create_task(self.control.stop_now.wait())
        try:
            await asyncio.wait({working, stopping, serving}, return_when=asyncio.FIRST_COMPLETED)
            if serving.done():
                serving.result()
            if not working.done():
                working.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await working
                return self._stopped("stop", "in an experiment, which resumes from its last step")
            return working.result()
        except LabError as error:
            with contextlib.suppress(LedgerError):  # a full disk holds no reason either
                self._stopped("error", str(error))
            raise
        finally:
            with contextlib.suppress(LedgerError):
                self.ledger.set_now({})
            for task in (serving, stopping, working):
                task.cancel()
            await asyncio.gather(serving, stopping, working, return_exceptions=True)
            if isinstance(self.proposer, Closing):
                await self.proposer.close()

    async def _work(self) -> EngineStopped:
        self._create()
        self._sync_repo()
        while True:
            self.control.obey_all()
            await self.control.runnable()
            if self.control.stopping:
                return self._stopped("stop", "by you")
            if not await self._card_ready() or await self._again():
                continue
            self._say_plateau()
            self._receipts()
            ended = self._limit()
            if ended is not None:
                return ended
            task = self._next_task()
            given_up = await self._surviving(lambda task=task: self._seed_and_one(task))  # type: ignore[misc]
            if given_up is not None:
                return self._stopped(given_up.why, given_up.text)

    def _receipts(self) -> None:
        """A win that a person kept by hand gets its receipt too, with that decision in it."""
        for task, number in self.ledger.champions().items():
            if self._receipt_of.get(task) != number:
                self._receipt_of[task] = number
                artefacts.write(self.lab, number)

    async def _card_ready(self) -> bool:
        """Where a card is measured on: whether it is well, once no other program computes on it."""
        if self.guard is None or not isinstance(self.device, MeasuredDevice):
            return True
        if self.device.unwell and not await self.guard.well():
            return False
        self.device.unwell = ""
        return await self.guard.ready() and not self.control.ended

    async def _seed_and_one(self, task: TaskSpec) -> Ended | None:
        await self._seed(task)
        return await self._one(task)

    async def _surviving(self, work: Callable[[], Coroutine[Any, Any, R]]) -> R:
        """Do the work; where its host dies, it goes on from its last step under a new one."""
        for _ in range(HOST_DEATHS - 1):
            try:
                return await work()
            except HostDied as death:
                self.ledger.append([Notice("warning", str(death))])
        return await work()

    async def _again(self) -> bool:
        """Judge again the first experiment that waits for it; False if none does."""
        row = again.next_in_line(self.ledger, self._judges)
        if row is None or self._open_experiment() is not None:
            return False
        self._now(row.id, row.task)(phase="judge again")
        settings = (self.gpu.name, self.model.name, self.lab.config.seed)
        await self._surviving(
            lambda: again.judge_again(self.ledger, self.control, self._judges, *settings, row)
        )
        artefacts.write(self.lab, row.id)
        self._sync_repo()
        return True

    def _sync_repo(self) -> None:
        """Bring the git view up to date; a git that fails costs a notice, never the run."""
        problem = repo.sync(self.ledger, self.lab.repo_dir)
        if problem is not None and problem != self._repo_problem:
            self.ledger.append([Notice("warning", problem)])
        self._repo_problem = problem

    def _create(self) -> None:
        """Record what the lab is, once: its matrix is part of every score."""
        matrices: dict[str, list[dict[str, Any]]] = {}
        left_out: list[str] = []
        for name, task in self.tasks.items():
            matrix, missing = workload_matrix(task, self.model, self.gpu)
            if not matrix:
                raise UsageError(f"no workload of {name} fits {self.gpu.title}: choose another task or model")
            matrices[name] = matrix
            left_out.extend(line for line in missing if line not in left_out)
        view = self.ledger.view()
        if view.created is None:
            config = self.lab.config.to_dict()
            self.ledger.append(
                [
                    LabCreated(
                        lab=self.lab.name,
                        device_kind="measured" if self.device.kind == "measured" else "static",
                        gpu=self.gpu.name,
                        model=self.model.name,
                        tasks=tuple(self.tasks),
                        config=config,
                        workloads=matrices,
                        left_out=tuple(left_out),
                    )
                ]
            )
        else:
            matrices = view.workloads
        self._judges = {name: Judge(self.device, task, matrices[name]) for name, task in self.tasks.items()}
        for row in self.ledger.experiments():
            if row.parent is None and row.task in self._judges:
                self._judges[row.task].threshold = threshold_for(row.score.get(ITSELF))

    async def _seed(self, task: TaskSpec) -> None:
        """Judge the seed kernel of a task; it must pass, since everything is measured against it."""
        rows = self.ledger.experiments(task=task.name)
        row = next((row for row in rows if row.parent is None), None)
        if row is not None and row.status == "seed":
            return
        number = row.id if row else self._next_id()
        judge = self._judges[task.name]
        steps = Steps(self.ledger, number)
        source = self._seed_source(task)
        candidate = judge.parse(source)
        if steps.find(ExperimentStarted) is None:
            steps.record(
                ExperimentStarted(number, task.name, None, "seed"),
                Proposed(
                    experiment=number,
                    source_sha=candidate.sha,
                    description="The kernel that everything is compared with.",
                    hypothesis="",
                    prediction=Prediction(None, None),
                    lever="seed",
                ),
                blobs=[source.encode()],
            )
        self._now(number, task.name)(phase="seed")
        itself = Champion(number, candidate, {})
        experiment = self._experiment(steps, judge, itself, itself, {})
        try:
            await experiment.judge_seed(source)
        except Turned as turned:
            why = "; ".join(f"{r.gate} {r.probe}: {r.detail}" for r in turned.reasons[:2])
            if turned.status == "error":
                raise EnvironmentProblem(
                    f"the judge failed at the seed of {task.name} ({why}): see that memory and disk suffice"
                ) from None
            raise UsageError(
                f"the seed of {task.name} does not pass ({why}): mend the file and start again"
            ) from None
        steps.record(
            ExperimentFinished(number, "seed", tuple(experiment.holds), candidate.sha),
            ChampionChanged(task.name, number, None, "the seed"),
        )
        seed = self.ledger.experiment(number)
        judge.threshold = threshold_for(seed.score.get(ITSELF) if seed is not None else None)
        artefacts.write(self.lab, number)
        self._sync_repo()

    def _seed_source(self, task: TaskSpec) -> str:
        recorded = next((r for r in self.ledger.experiments(task=task.name) if r.parent is None), None)
        if recorded is not None and recorded.source_sha:
            return self.ledger.blob(recorded.source_sha).decode()
        if self.lab.config.from_file is None:
            return task.seed_source
        own = read_candidate_file(self.lab.config.from_file)
        try:
            parse(own, task.entry)
        except CandidateInvalid:
            if len(self.tasks) == 1:
                raise
            return task.seed_source  # the file is for the other task
        return own

    async def _one(self, task: TaskSpec) -> Ended | None:
        """One experiment of `task`; a kill ends it with the verdict `interrupted`.

        The answer is that of a proposer with which the run has to end.
        """
        left_open = self._open_experiment()
        number = left_open.id if left_open else self._next_id()
        judge = self._judges[task.name]
        steps = Steps(self.ledger, number)
        rows = {row.id: row for row in self.ledger.experiments(task=task.name)}
        champion_row = rows[self.ledger.champions()[task.name]]
        champion = await self._champion(judge, champion_row)
        seed_row = next(row for row in rows.values() if row.parent is None)
        seed = await self._champion(judge, seed_row)
        request = replace(
            self.requests.make(task, number, champion_row, judge.workloads),
            bench=LabBench(
                self.ledger,
                judge,
                self.control,
                experiment=number,
                champion_us=champion.time_us,
                lab_seed=self.lab.config.seed,
            ),
        )
        known = {past.canonical_sha: past.id for past in reversed(request.history) if past.canonical_sha}
        experiment = self._experiment(steps, judge, champion, seed, known)
        proposer, submission = self._proposer(task.name)
        parent = request.start.id if submission is None else champion_row.id
        started = ExperimentStarted(number, task.name, parent, proposer.name, submission)
        running = asyncio.create_task(experiment.run(proposer, request, started))
        killing = asyncio.create_task(self.control.kill.wait())
        waiting = {running, killing}
        if not self.ledger.submissions():
            self.control.handed_in.clear()
        if left_open is None and proposer.name in WAIT_FOR_PEOPLE:
            waiting.add(asyncio.create_task(self.control.handed_in.wait()))
        self.control.running = number
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            while not running.done() and not self.control.kill.is_set() and steps.find(ExperimentStarted):
                # Something was handed in, but this experiment is past its proposal.
                await asyncio.wait({running, killing}, return_when=asyncio.FIRST_COMPLETED)
            if not running.done():
                running.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await running
                if self.control.kill.is_set():
                    self._interrupt(steps, started)
                return None
            answer = running.result()
        finally:
            self.control.running = None
            self.control.kill.clear()
            for one in waiting:
                one.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
            self.ledger.set_now({})
        self._wanted = answer.task if isinstance(answer, Elsewhere) else None
        if isinstance(answer, Elsewhere):
            return None
        if isinstance(answer, Ended):
            return answer
        if isinstance(answer, Exhausted):
            self._explored(request, answer.text)
            return None
        if submission is not None:
            self.exhausted.pop(task.name, None)  # it may be the champion now, or have opened another way
        artefacts.write(self.lab, number)
        self._sync_repo()
        return None

    def _proposer(self, task: str) -> tuple[Proposer, int | None]:
        """Who proposes next: a person who handed a candidate in, with its number, or the lab's proposer."""
        for submitted in self.ledger.submissions():
            if submitted.task == task:
                source = self.ledger.blob(submitted.source_sha).decode()
                return HandedIn(submitted, source), submitted.submission
        return self.proposer, None

    def _interrupt(self, steps: Steps, started: ExperimentStarted) -> None:
        events: list[Event] = [] if steps.find(ExperimentStarted) else [started]
        reason = Reason("person", "kill", "ended by you in the middle")
        steps.record(*events, ExperimentFinished(steps.experiment, "interrupted", (reason,), None))

    def _explored(self, request: ProposalRequest, text: str) -> None:
        """Note that there is nothing new from where the proposal was to start: elsewhere there may be."""
        start = request.start.id
        said = [idea.id for idea in request.ideas if idea.from_experiment == start]
        if said or request.parent is not None:
            self.requests.spent.add(start)
            if said:
                who = f"{self.proposer.name} knows nothing new to try from #{start}"
                self.ledger.append([Notice("info", f"idea {said[0]} goes on waiting: {who}")])
            return
        task = request.task.name
        self.exhausted[task] = text
        if self.ledger.view().explored.get(task) != text:
            self.ledger.append([SpaceExplored(task, text)])

    def _say_plateau(self) -> None:
        """Say each time a task has gone another `plateau` experiments without a keep, and ask a person."""
        for task in self.tasks.values():
            history = self.requests.history(task)
            hint = plateau.plateau(history, self.lab.config.plateau)
            if hint is None or hint.experiments % self.lab.config.plateau:
                continue
            last = plateau.since_keep(history)[-1].id
            if self.ledger.last_body(last, type_name(PlateauReached)) is not None:
                continue
            champion = self.ledger.experiment(self.ledger.champions()[task.name])
            if champion is None:
                continue
            text = (
                f"nothing was kept in {hint.experiments} experiments of {task.name} since #{champion.id}: "
                "the search widens; an idea of yours would help"
            )
            sha = champion.source_sha or ""
            self.ledger.append(
                [
                    PlateauReached(last, task.name, hint.experiments, hint.levers, text),
                    ApprovalRequested(champion.id, "plateau", sha, text),
                ]
            )

    async def _champion(self, judge: Judge, row: ExperimentRow) -> Champion:
        source = self.ledger.blob(row.source_sha or "").decode()
        recorded = Steps(self.ledger, row.id).find(Screened, source_sha=row.source_sha)
        if recorded is None:
            raise UsageError(f"#{row.id} has no times: the ledger is damaged; run `kernel-lab doctor`")
        return Champion(row.id, judge.parse(source), recorded.time_us)

    def _experiment(
        self,
        steps: Steps,
        judge: Judge,
        champion: Champion,
        seed: Champion,
        known: Mapping[str, int],
    ) -> Experiment:
        return Experiment(
            steps,
            judge,
            self.control,
            champion,
            seed,
            known,
            lab_seed=self.lab.config.seed,
            trials=self.lab.config.trials,
            now=self._now(steps.experiment, judge.task.name),
        )

    def _now(self, experiment: int, task: str) -> Any:
        def update(**fields: Any) -> None:
            since = time.time()
            self.ledger.set_now({"experiment": experiment, "task": task, "since": since, **fields})

        return update

    def _next_id(self) -> int:
        return self.ledger.last_experiment() + 1

    def _open_experiment(self) -> ExperimentRow | None:
        """The experiment that a killed engine left in the middle."""
        return next((row for row in self.ledger.running() if row.parent is not None), None)

    def _next_task(self) -> TaskSpec:
        """The task of an open experiment, of the first candidate that was handed in, or the one that the
        proposer asked for; else the one whose turn it is among those not explored."""
        left_open = self._open_experiment()
        if left_open is not None:
            return self.tasks[left_open.task]
        for submitted in self.ledger.submissions():
            return self.tasks[submitted.task]
        if self._wanted in self.tasks:
            return self.tasks[self._wanted]
        return self.tasks[self.requests.next_task(self.tasks, self.exhausted)]

    def _limit(self) -> EngineStopped | None:
        config = self.lab.config
        done = sum(
            1 for row in self.ledger.experiments() if row.parent is not None and row.status != "running"
        )
        if self._open_experiment() is None and config.budget is not None and done >= config.budget:
            return self._stopped("budget", f"all {config.budget} experiments of the budget are done")
        if config.hours is not None and time.monotonic() - self.started_at >= config.hours * 3600:
            return self._stopped("hours", f"{config.hours} hours are over")
        spent = self.ledger.spending()
        if config.usd is not None and spent.usd >= config.usd:
            return self._stopped("budget", f"the cap of {config.usd:g} USD on agents is reached")
        if config.tokens is not None and spent.tokens >= config.tokens:
            return self._stopped("budget", f"the cap of {config.tokens:,} tokens of agents is reached")
        wanted = self.ledger.submissions() or self.requests.starts()
        if len(self.exhausted) == len(self.tasks) and not wanted:
            return self._stopped("exhausted", "; ".join(sorted(set(self.exhausted.values()))))
        return None

    def _stopped(self, reason: str, text: str) -> EngineStopped:
        event = EngineStopped(reason, text)
        self.ledger.append([event])
        return event
