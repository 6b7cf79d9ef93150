"""Frozen rows that front ends and proposers read, and the queries that give them.

All rows come from the projection tables (see `projections`), so that a question about 10,000 experiments
costs milliseconds. Texts in rows are of untrusted origin: data, never markup.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from kernel_lab.engine.events import QuestionKind, SelftestJudged, SpeedJudged, Submitted, build, type_name
from kernel_lab.engine.facts import Check, Prediction, Reason, ScoreKind, Speed
from kernel_lab.engine.ledger.records import loads
from kernel_lab.engine.ledger.tables import RUNNING


@dataclass(frozen=True, slots=True)
class ExperimentRow:
    """One experiment as it stands now. Times are seconds since the epoch."""

    id: int
    task: str
    parent: int | None
    proposer: str
    status: str
    """A verdict of `facts.VERDICTS`, or `running`."""
    description: str
    hypothesis: str
    lever: str
    prediction: Prediction | None
    source_sha: str | None
    """Blob of the newest text of the candidate: as proposed, edited, or with settled trials."""
    reasons: tuple[Reason, ...]
    """Why it is not kept; revisions by a person are appended with gate `person`."""
    score: dict[str, float]
    """Baseline (`fa2`, `seed`, `champion`, …) to weighted geometric mean ratio, above 1 is faster."""
    ci: dict[str, tuple[float, float]]
    score_kind: ScoreKind | None
    trials: int
    started: float
    finished: float | None
    commit: str | None
    """Id in `repo/`: on the champion line while it is part of it, else of `refs/experiments/N`."""
    phase: str
    """The gate at work while it runs (`proposing`, `screen`, `trials`, `person`, …), else empty."""
    ideas: tuple[int, ...]
    """What people said that it answers."""
    proposed_sha: str | None = None
    """Blob of the candidate as the proposer wrote it."""


@dataclass(frozen=True, slots=True)
class TrialRow:
    """One setting tried within an experiment."""

    experiment: int
    trial: int
    bucket: str
    values: dict[str, Any]
    status: str
    vs_parent: float | None
    time_us: dict[str, float]
    detail: str


@dataclass(frozen=True, slots=True)
class CheckRow:
    """One check of one gate; fields as in `facts.Check`."""

    experiment: int
    gate: str
    case: str
    probe: str
    status: str
    detail: str
    error: float | None
    limit: float | None
    seconds: float

    @property
    def check(self) -> Check:
        return Check(
            self.gate,
            self.case,
            self.probe,
            self.status,  # type: ignore[arg-type]
            self.detail,
            self.error,
            self.limit,
            self.seconds,
        )


@dataclass(frozen=True, slots=True)
class IdeaRow:
    """What a person said, and which experiments answered it."""

    id: int
    text: str
    scope: str
    from_experiment: int | None
    by: str
    used_by: tuple[int, ...]
    withdrawn: bool
    said: float = 0.0

    @property
    def waiting(self) -> bool:
        """Whether the next proposal should heed it."""
        return not self.withdrawn and (self.scope == "always" or not self.used_by)


@dataclass(frozen=True, slots=True)
class OpenQuestion:
    """Something that waits for a person. `since`: seconds since the epoch."""

    experiment: int
    kind: QuestionKind
    source_sha: str
    reason: str
    since: float


@dataclass(frozen=True, slots=True)
class AskedRow:
    """A question of an agent. `answer` is None while it waits; `since` is seconds since the epoch."""

    id: int
    experiment: int
    text: str
    timeout_s: float
    since: float
    answer: str | None
    by: str


@dataclass(frozen=True, slots=True)
class Spending:
    """What agents used. `usd` covers all but `unpriced` requests; `incomplete` ones have estimated output."""

    requests: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int = 0
    thinking_tokens: int = 0
    usd: float = 0.0
    unpriced: int = 0
    incomplete: int = 0
    proposals: int = 0
    """Experiments that anything was used for."""

    @property
    def tokens(self) -> int:
        """All tokens that a cap counts: read, from a cache or not, and written; thinking is in the output."""
        return self.input_tokens + self.cached_tokens + self.cache_write_tokens + self.output_tokens


@dataclass(frozen=True, slots=True)
class LabView:
    """The lab as a whole."""

    lab: str
    gpu: str
    model: str
    device_kind: str
    tasks: tuple[str, ...]
    mode: str
    paused: bool
    champions: dict[str, int]
    """Task to the experiment kept for now."""
    counts: dict[str, int]
    """Status (`running` included) to number of experiments."""
    last_seq: int
    engine_alive: bool
    environment: dict[str, Any]
    created: float | None = None
    config: dict[str, Any] = field(default_factory=dict)
    workloads: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    explored: dict[str, str] = field(default_factory=dict)
    """Task to what its proposer said when it had nothing new to try; gone when it tries something again."""
    submissions: tuple[Submitted, ...] = ()
    """Candidates that people handed in and that wait to be judged, in their order."""
    selftest: SelftestJudged | None = None
    """How the judge does against cheats; None in a lab that never tried it."""
    remeasure: tuple[int, ...] = ()
    """Experiments that wait to be judged again."""
    veto_probes: tuple[tuple[int, str], ...] = ()
    """Patterns that vetoes named, each with the experiment that was vetoed for it."""
    stopped: str | None = None
    """Why the engine last stopped on purpose; None while none did since the last start."""
    asked: tuple[AskedRow, ...] = ()
    """Questions of agents that wait for an answer."""
    spending: Spending = Spending()
    """What agents used so far."""


def provisional(selftest: SelftestJudged | None) -> str:
    """Why what is kept counts only provisionally, in a few words; empty if it counts, or nobody knows."""
    if selftest is None or selftest.state == "green":
        return ""
    if selftest.disabled:
        return f"switched off: {', '.join(selftest.disabled)}"
    if selftest.state == "red":
        return f"judge red: {', '.join(selftest.red)}"
    return "judge not tried" if selftest.state == "off" else "judge being tried"


MAX_INTEGER = 2**63 - 1
"""The largest number that the database can be asked about."""

_FIELDS = tuple(item.name for item in fields(ExperimentRow))
_COLUMNS = ", ".join("commit_id" if name == "commit" else name for name in _FIELDS)


class Views:
    """Questions to a database that holds the projections; shared by the ledger and every reader."""

    connection: sqlite3.Connection

    def fetch(self, sql: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """All rows of one query, read at once so that no read transaction stays open."""
        return self.connection.execute(sql, parameters).fetchall()

    def experiments(
        self,
        task: str | None = None,
        limit: int | None = None,
        after: int | None = None,
        before: int | None = None,
    ) -> list[ExperimentRow]:
        """Experiments in ascending order of id.

        `after` and `before` bound the ids (exclusive). With `limit`, the first ones following `after` if
        that is given, else the newest ones.
        """
        where, parameters = ["1"], list[object]()
        for clause, value in (("task = ?", task), ("id > ?", after), ("id < ?", before)):
            if value is not None:
                where.append(clause)
                parameters.append(value)
        order = "ASC" if after is not None else "DESC"
        rows = self.fetch(
            f"SELECT {_COLUMNS} FROM experiments WHERE {' AND '.join(where)} "  # noqa: S608
            f"ORDER BY id {order} LIMIT ?",
            [*parameters, -1 if limit is None else limit],
        )
        return [_experiment(row) for row in (rows if order == "ASC" else reversed(rows))]

    def experiment(self, n: int) -> ExperimentRow | None:
        if abs(n) > MAX_INTEGER:
            return None
        rows = self.fetch(f"SELECT {_COLUMNS} FROM experiments WHERE id = ?", (n,))  # noqa: S608
        return _experiment(rows[0]) if rows else None

    def last_experiment(self) -> int:
        """Highest number given so far; 0 in a new lab."""
        return int(self.fetch("SELECT coalesce(max(id), 0) FROM experiments")[0][0])

    def running(self) -> list[ExperimentRow]:
        """Experiments without a verdict, in ascending order."""
        rows = self.fetch(
            f"SELECT {_COLUMNS} FROM experiments WHERE status = ? ORDER BY id",  # noqa: S608
            (RUNNING,),
        )
        return [_experiment(row) for row in rows]

    def descendants(self, n: int) -> list[int]:
        """Experiments that were built on `n`, directly or not, in ascending order."""
        rows = self.fetch(
            "WITH RECURSIVE line(id) AS (SELECT id FROM experiments WHERE parent = ? "
            "UNION SELECT e.id FROM experiments e JOIN line ON e.parent = line.id) "
            "SELECT id FROM line ORDER BY id",
            (n,),
        )
        return [row[0] for row in rows]

    def champion_line(self, task: str) -> list[int]:
        """The seed and every kept champion after it that no veto has touched, oldest first."""
        rows = self.fetch("SELECT experiment FROM champions WHERE task = ? ORDER BY position", (task,))
        return [row[0] for row in rows]

    def champions(self) -> dict[str, int]:
        """Task to the experiment kept for now."""
        return dict(self.fetch("SELECT task, experiment FROM champions ORDER BY task, position"))

    def trials(self, n: int) -> list[TrialRow]:
        rows = self.fetch(
            "SELECT experiment, trial, bucket, setting, status, vs_parent, time_us, detail "
            "FROM trials WHERE experiment = ? ORDER BY trial, bucket",
            (n,),
        )
        return [
            TrialRow(experiment, trial, bucket, loads(setting), status, vs_parent, loads(time_us), detail)
            for experiment, trial, bucket, setting, status, vs_parent, time_us, detail in rows
        ]

    def checks(self, n: int) -> list[CheckRow]:
        """Checks of one experiment in the order in which they ended."""
        rows = self.fetch(
            "SELECT experiment, gate, case_id, probe, status, detail, error, bound, seconds "
            "FROM checks WHERE experiment = ? ORDER BY seq",
            (n,),
        )
        return [CheckRow(*row) for row in rows]

    def speed(self, n: int) -> Speed | None:
        """The newest judgement of speed, with every workload's time; None if it was never reached."""
        body = self.last_body(n, type_name(SpeedJudged))
        return None if body is None else build(SpeedJudged, loads(body)).speed

    def last_body(self, n: int, name: str) -> str | None:
        """Fields of the newest event of one type about an experiment, as JSON."""
        rows = self.fetch(
            "SELECT body FROM events WHERE experiment = ? AND type = ? ORDER BY seq DESC LIMIT 1", (n, name)
        )
        return rows[0][0] if rows else None

    def ideas(self) -> list[IdeaRow]:
        """What people said, in the order in which it is heeded."""
        rows = self.fetch(
            "SELECT id, text, scope, from_experiment, by, used_by, withdrawn, said FROM ideas "
            "ORDER BY place, id"
        )
        return [
            IdeaRow(idea, text, scope, origin, by, tuple(json.loads(used_by)), bool(withdrawn), said)
            for idea, text, scope, origin, by, used_by, withdrawn, said in rows
        ]

    def waiting_ideas(self) -> list[IdeaRow]:
        """What the next proposal should heed: without what a candidate answers that was handed in."""
        answered = {idea for one in self.submissions() for idea in one.ideas}
        return [idea for idea in self.ideas() if idea.waiting and idea.id not in answered]

    def submissions(self) -> tuple[Submitted, ...]:
        """Candidates that people handed in and that wait to be judged, in their order."""
        return tuple(build(Submitted, one) for one in self._handed_in().get("waiting", ()))

    def last_submission(self) -> int:
        """Highest number given to a candidate that was handed in; 0 if there was none."""
        return int(self._handed_in().get("last", 0))

    def _handed_in(self) -> dict[str, Any]:
        rows = self.fetch("SELECT value FROM meta WHERE key = 'submissions'")
        return dict(loads(rows[0][0])) if rows else {}

    def open_questions(self) -> list[OpenQuestion]:
        """What waits for a person, longest first."""
        rows = self.fetch(
            "SELECT experiment, kind, source_sha, reason, since FROM questions ORDER BY since, experiment"
        )
        return [OpenQuestion(*row) for row in rows]

    def agent_questions(self, *, waiting: bool = True) -> list[AskedRow]:
        """Questions of agents, longest waiting first: those that wait for an answer, or all."""
        where = "answer IS NULL" if waiting else "1"
        rows = self.fetch(
            f"SELECT id, experiment, text, timeout_s, since, answer, by FROM asked WHERE {where} ORDER BY id"  # noqa: S608
        )
        return [AskedRow(*row) for row in rows]

    def spending(self, experiment: int | None = None) -> Spending:
        """What agents used, in all or for one experiment."""
        where, parameters = ("1", ()) if experiment is None else ("experiment = ?", (experiment,))
        rows = self.fetch(
            "SELECT coalesce(sum(requests), 0), coalesce(sum(input_tokens), 0), "  # noqa: S608
            "coalesce(sum(cached_tokens), 0), coalesce(sum(cache_write_tokens), 0), "
            "coalesce(sum(output_tokens), 0), coalesce(sum(thinking_tokens), 0), coalesce(sum(usd), 0.0), "
            "coalesce(sum(unpriced), 0), coalesce(sum(incomplete), 0), count(DISTINCT experiment) "
            f"FROM spending WHERE {where}",
            parameters,
        )
        return Spending(*rows[0])

    def counts(self) -> dict[str, int]:
        """Status (`running` included) to number of experiments."""
        return dict(self.fetch("SELECT status, count(*) FROM experiments GROUP BY status"))

    def last_seq(self) -> int:
        return int(self.fetch("SELECT coalesce(max(seq), 0) FROM events")[0][0])

    def engine_alive(self) -> bool:
        """Whether an engine owns this lab now; a recording has none."""
        return False

    def view(self) -> LabView:
        meta = {key: loads(value) for key, value in self.fetch("SELECT key, value FROM meta")}
        return LabView(
            lab=meta.get("lab", ""),
            gpu=meta.get("gpu", ""),
            model=meta.get("model", ""),
            device_kind=meta.get("device_kind", ""),
            tasks=tuple(meta.get("tasks", ())),
            mode=meta.get("mode", ""),
            paused=meta.get("paused", False),
            champions=self.champions(),
            counts=self.counts(),
            last_seq=self.last_seq(),
            engine_alive=self.engine_alive(),
            environment=meta.get("environment", {}),
            created=meta.get("created"),
            config=meta.get("config", {}),
            workloads=meta.get("workloads", {}),
            left_out=tuple(meta.get("left_out", ())),
            explored=meta.get("explored", {}),
            submissions=self.submissions() if "submissions" in meta else (),
            selftest=build(SelftestJudged, meta["selftest"]) if "selftest" in meta else None,
            remeasure=tuple(meta.get("remeasure", ())),
            veto_probes=tuple((number, text) for number, text in meta.get("veto_probes", ())),
            stopped=meta.get("stopped"),
            asked=tuple(self.agent_questions()),
            spending=self.spending(),
        )


def _experiment(row: tuple[Any, ...]) -> ExperimentRow:
    values = dict(zip(_FIELDS, row, strict=True))
    prediction = loads(values["prediction"])
    values["prediction"] = None if prediction is None else Prediction(**prediction)
    values["reasons"] = _reasons(loads(values["reasons"]))
    values["score"] = loads(values["score"])
    values["ci"] = {key: (low, high) for key, (low, high) in loads(values["ci"]).items()}
    values["ideas"] = tuple(loads(values["ideas"]))
    return ExperimentRow(**values)


def _reasons(items: Iterable[dict[str, str]]) -> tuple[Reason, ...]:
    return tuple(Reason(**item) for item in items)
