"""The projection tables as a function of the events: `apply` takes them one event further.

`apply` depends on nothing but the tables it writes, the record and the blobs that the record names, so that
writing along, rebuilding and replaying give the same tables. Events of unknown type, and events about an
experiment that was never started, change nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import Any, TypeVar

from kernel_lab.engine import events as ev
from kernel_lab.engine.facts import GATES, Reason
from kernel_lab.engine.ledger import line, schema
from kernel_lab.engine.ledger.records import Record, dumps, loads
from kernel_lab.engine.ledger.tables import RUNNING, Tables, text

E = TypeVar("E", bound=ev.Event)
Handler = Callable[[Tables, Record, Any], None]
_HANDLERS: dict[type[ev.Event], Handler] = {}


def apply(tables: Tables, record: Record) -> None:
    """Take the projection tables one event further, within the caller's transaction."""
    if record.event is None:
        return
    handler = _HANDLERS.get(type(record.event))
    if handler is not None:
        handler(tables, record, record.event)


def rebuild(tables: Tables, records: Iterable[Record]) -> None:
    """Drop the projection tables and build them from all events, within the caller's transaction."""
    schema.create_projections(tables.connection)
    for record in records:
        apply(tables, record)


def _on(
    kind: type[E],
) -> Callable[[Callable[[Tables, Record, E], None]], Callable[..., None]]:
    def register(handler: Callable[[Tables, Record, E], None]) -> Callable[..., None]:
        _HANDLERS[kind] = handler
        return handler

    return register


# ---- the lab ---------------------------------------------------------------------------------------


@_on(ev.LabCreated)
def _lab_created(tables: Tables, record: Record, event: ev.LabCreated) -> None:
    _set_meta(
        tables,
        lab=event.lab,
        gpu=event.gpu,
        model=event.model,
        device_kind=event.device_kind,
        tasks=event.tasks,
        mode=event.config.get("mode", ""),
        config=event.config,
        workloads=event.workloads,
        left_out=event.left_out,
        created=record.time,
    )


@_on(ev.EngineStarted)
def _engine_started(tables: Tables, record: Record, event: ev.EngineStarted) -> None:
    _set_meta(tables, environment=event.environment, stopped=None)


@_on(ev.EngineStopped)
def _engine_stopped(tables: Tables, record: Record, event: ev.EngineStopped) -> None:
    _set_meta(tables, stopped=event.text or event.reason)


@_on(ev.ModeChanged)
def _mode_changed(tables: Tables, record: Record, event: ev.ModeChanged) -> None:
    _set_meta(tables, mode=event.mode)


@_on(ev.Paused)
def _paused(tables: Tables, record: Record, event: ev.Paused) -> None:
    _set_meta(tables, paused=True)


@_on(ev.Resumed)
def _resumed(tables: Tables, record: Record, event: ev.Resumed) -> None:
    _set_meta(tables, paused=False)


@_on(ev.Submitted)
def _submitted(tables: Tables, record: Record, event: ev.Submitted) -> None:
    before = _submissions(tables)
    waiting = [*before["waiting"], asdict(event)]
    _set_meta(tables, submissions={"last": max(before["last"], event.submission), "waiting": waiting})


def _submissions(tables: Tables) -> dict[str, Any]:
    rows = tables.execute("SELECT value FROM meta WHERE key = 'submissions'").fetchall()
    return dict(loads(rows[0][0])) if rows else {"last": 0, "waiting": []}


@_on(ev.SelftestJudged)
def _selftest_judged(tables: Tables, record: Record, event: ev.SelftestJudged) -> None:
    _set_meta(tables, selftest=asdict(event))


@_on(ev.SpaceExplored)
def _space_explored(tables: Tables, record: Record, event: ev.SpaceExplored) -> None:
    _set_meta(tables, explored={**_explored(tables), event.task: event.text})


def _explored(tables: Tables) -> dict[str, str]:
    rows = tables.execute("SELECT value FROM meta WHERE key = 'explored'").fetchall()
    return dict(loads(rows[0][0])) if rows else {}


def _listed(tables: Tables, key: str) -> list[Any]:
    rows = tables.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchall()
    return list(loads(rows[0][0])) if rows else []


def _set_meta(tables: Tables, **values: object) -> None:
    tables.executemany(
        "INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)",
        [(key, dumps(value)) for key, value in values.items()],
    )


# ---- experiments -----------------------------------------------------------------------------------


@_on(ev.ExperimentStarted)
def _started(tables: Tables, record: Record, event: ev.ExperimentStarted) -> None:
    tables.execute(
        "INSERT OR IGNORE INTO experiments (id, task, parent, proposer, status, started, phase) "
        "VALUES (?, ?, ?, ?, ?, ?, 'proposing')",
        (event.experiment, text(event.task), event.parent, text(event.proposer), RUNNING, record.time),
    )
    if event.submission is not None:
        before = _submissions(tables)
        waiting = [one for one in before["waiting"] if one["submission"] != event.submission]
        _set_meta(tables, submissions={**before, "waiting": waiting})
    explored = _explored(tables)
    if event.task in explored:
        _set_meta(tables, explored={task: text for task, text in explored.items() if task != event.task})


@_on(ev.Proposed)
def _proposed(tables: Tables, record: Record, event: ev.Proposed) -> None:
    tables.update(
        event.experiment,
        description=text(event.description),
        hypothesis=text(event.hypothesis),
        lever=text(event.lever),
        prediction=dumps(asdict(event.prediction)),
        source_sha=event.source_sha,
        proposed_sha=event.source_sha,
        ideas=dumps(event.ideas),
    )
    _set_phase(tables, event.experiment, GATES[0])


@_on(ev.Refused)
def _refused(tables: Tables, record: Record, event: ev.Refused) -> None:
    tables.update(event.experiment, reasons=_reasons((event.reason,)))


@_on(ev.Checked)
def _checked(tables: Tables, record: Record, event: ev.Checked) -> None:
    check = event.check
    tables.execute(
        "INSERT INTO checks (experiment, seq, gate, case_id, probe, status, detail, error, bound, seconds) "
        "SELECT id, ?, ?, ?, ?, ?, ?, ?, ?, ? FROM experiments WHERE id = ?",
        (
            record.seq,
            check.gate,
            text(check.case),
            text(check.probe),
            check.status,
            text(check.detail),
            check.error,
            check.limit,
            check.seconds,
            event.experiment,
        ),
    )
    _set_phase(tables, event.experiment, check.gate)


@_on(ev.GateFinished)
def _gate_finished(tables: Tables, record: Record, event: ev.GateFinished) -> None:
    if not event.passed:
        tables.update(event.experiment, reasons=_reasons(event.reasons))
    elif event.gate in GATES[:-1]:
        _set_phase(tables, event.experiment, GATES[GATES.index(event.gate) + 1])


@_on(ev.ApprovalRequested)
def _asked(tables: Tables, record: Record, event: ev.ApprovalRequested) -> None:
    tables.execute(
        "INSERT OR REPLACE INTO questions (experiment, kind, source_sha, reason, since) "
        "SELECT id, ?, ?, ?, ? FROM experiments WHERE id = ?",
        (event.kind, event.source_sha, text(event.reason), record.time, event.experiment),
    )
    _set_phase(tables, event.experiment, "person")


@_on(ev.Decided)
def _decided(tables: Tables, record: Record, event: ev.Decided) -> None:
    tables.execute("DELETE FROM questions WHERE experiment = ? AND kind = ?", (event.experiment, event.kind))
    if event.decision == "edit":
        tables.update(event.experiment, source_sha=event.source_sha)
    if event.kind == "proposal":
        _set_phase(tables, event.experiment, "trials")


@_on(ev.TrialFinished)
def _trial(tables: Tables, record: Record, event: ev.TrialFinished) -> None:
    tables.execute(
        "INSERT OR REPLACE INTO trials "
        "(experiment, trial, bucket, setting, status, vs_parent, time_us, detail) "
        "SELECT id, ?, ?, ?, ?, ?, ?, ? FROM experiments WHERE id = ?",
        (
            event.trial,
            text(event.bucket),
            dumps(event.values),
            event.status,
            event.vs_parent,
            dumps(event.time_us),
            text(event.detail),
            event.experiment,
        ),
    )
    tables.execute(
        "UPDATE experiments SET trials = (SELECT count(*) FROM trials WHERE experiment = ?1), "
        "phase = CASE status WHEN ?2 THEN 'trials' ELSE phase END WHERE id = ?1",
        (event.experiment, RUNNING),
    )


@_on(ev.TrialsSettled)
def _settled(tables: Tables, record: Record, event: ev.TrialsSettled) -> None:
    tables.update(event.experiment, source_sha=event.source_sha)


@_on(ev.SpeedJudged)
def _speed(tables: Tables, record: Record, event: ev.SpeedJudged) -> None:
    tables.update(
        event.experiment,
        score=dumps(event.speed.score),
        ci=dumps(event.speed.ci),
        score_kind=event.speed.kind,
    )


@_on(ev.ExperimentFinished)
def _finished(tables: Tables, record: Record, event: ev.ExperimentFinished) -> None:
    tables.update(
        event.experiment,
        status=event.status,
        reasons=_reasons(event.reasons),
        finished=record.time,
        judged=record.time,
        phase="",
    )
    if event.source_sha is not None:
        tables.update(event.experiment, source_sha=event.source_sha)
    held = "hold" if event.status == "held" else ""
    tables.execute("DELETE FROM questions WHERE experiment = ? AND kind != ?", (event.experiment, held))
    parent = tables.execute(
        "SELECT p.base_commit FROM experiments e JOIN experiments p ON p.id = e.parent WHERE e.id = ?",
        (event.experiment,),
    ).fetchone()
    commit = line.write_commit(tables, event.experiment, parent[0] if parent else None)
    tables.update(event.experiment, base_commit=commit, own_commit=commit, commit_id=commit)
    line.commit_on_line(tables, event.experiment)


@_on(ev.StatusRevised)
def _revised(tables: Tables, record: Record, event: ev.StatusRevised) -> None:
    row = tables.execute(
        "SELECT reasons, own_commit FROM experiments WHERE id = ?", (event.experiment,)
    ).fetchone()
    if row is None:
        return
    probes = [known for known in _listed(tables, "veto_probes") if known[0] != event.experiment]
    if event.probe and event.status == "vetoed":
        probes.append([event.experiment, text(event.probe)])
    if probes != _listed(tables, "veto_probes"):
        _set_meta(tables, veto_probes=probes)
    revision = Reason("person", text(event.category), text(event.why))
    tables.update(
        event.experiment,
        status=event.status,
        reasons=dumps([*loads(row[0]), asdict(revision)]),
        judged=record.time,
    )
    tables.execute("DELETE FROM questions WHERE experiment = ?", (event.experiment,))
    commit = line.write_commit(tables, event.experiment, row[1])
    tables.update(event.experiment, own_commit=commit, commit_id=commit)
    if event.status not in line.CLEAN:
        for task, position in tables.execute(
            "SELECT task, position FROM champions WHERE experiment = ?", (event.experiment,)
        ).fetchall():
            line.cut(tables, task, position)
    else:
        line.commit_on_line(tables, event.experiment)


@_on(ev.RemeasureRequested)
def _remeasure_requested(tables: Tables, record: Record, event: ev.RemeasureRequested) -> None:
    waiting = _listed(tables, "remeasure")
    if event.experiment not in waiting:
        _set_meta(tables, remeasure=[*waiting, event.experiment])


@_on(ev.Remeasured)
def _remeasured(tables: Tables, record: Record, event: ev.Remeasured) -> None:
    waiting = _listed(tables, "remeasure")
    _set_meta(tables, remeasure=[number for number in waiting if number != event.experiment])


@_on(ev.ChampionChanged)
def _champion_changed(tables: Tables, record: Record, event: ev.ChampionChanged) -> None:
    line.champion_changed(tables, text(event.task), event.experiment, event.previous)
    tables.execute(
        "DELETE FROM questions WHERE kind = 'plateau' "
        "AND experiment IN (SELECT id FROM experiments WHERE task = ?)",
        (text(event.task),),
    )


# ---- what people say -------------------------------------------------------------------------------


@_on(ev.IdeaSaid)
def _idea_said(tables: Tables, record: Record, event: ev.IdeaSaid) -> None:
    tables.execute(
        "INSERT OR IGNORE INTO ideas (id, text, scope, from_experiment, by, said, place) "
        "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?1)",
        (event.idea, text(event.text), event.scope, event.from_experiment, text(event.by), record.time),
    )
    tables.execute("DELETE FROM questions WHERE kind = 'plateau'")


@_on(ev.IdeaUsed)
def _idea_used(tables: Tables, record: Record, event: ev.IdeaUsed) -> None:
    row = tables.execute("SELECT used_by FROM ideas WHERE id = ?", (event.idea,)).fetchone()
    if row is not None:
        used_by = sorted({*json.loads(row[0]), event.experiment})
        tables.execute("UPDATE ideas SET used_by = ? WHERE id = ?", (json.dumps(used_by), event.idea))


@_on(ev.IdeaEdited)
def _idea_edited(tables: Tables, record: Record, event: ev.IdeaEdited) -> None:
    tables.execute("UPDATE ideas SET text = ? WHERE id = ?", (text(event.text), event.idea))


@_on(ev.IdeaMoved)
def _idea_moved(tables: Tables, record: Record, event: ev.IdeaMoved) -> None:
    """The ideas named take the places that they hold together, in the order given."""
    known = {row[0]: row[1] for row in tables.execute("SELECT id, place FROM ideas").fetchall()}
    order = [idea for idea in dict.fromkeys(event.order) if idea in known]
    places = sorted(known[idea] for idea in order)
    tables.executemany("UPDATE ideas SET place = ? WHERE id = ?", list(zip(places, order, strict=True)))


@_on(ev.IdeaWithdrawn)
def _idea_withdrawn(tables: Tables, record: Record, event: ev.IdeaWithdrawn) -> None:
    tables.execute("UPDATE ideas SET withdrawn = 1 WHERE id = ?", (event.idea,))


# ---- agents ----------------------------------------------------------------------------------------


@_on(ev.Spent)
def _spent(tables: Tables, record: Record, event: ev.Spent) -> None:
    """What was used counts whether its experiment was ever recorded or not: it was paid for."""
    tables.execute(
        "INSERT INTO spending VALUES (?, ?, ?, 1, ?, ?, ?, ?, ?, ?, ?, ?) "
        "ON CONFLICT DO UPDATE SET requests = requests + 1, "
        "input_tokens = input_tokens + excluded.input_tokens, "
        "cached_tokens = cached_tokens + excluded.cached_tokens, "
        "cache_write_tokens = cache_write_tokens + excluded.cache_write_tokens, "
        "output_tokens = output_tokens + excluded.output_tokens, "
        "thinking_tokens = thinking_tokens + excluded.thinking_tokens, "
        "usd = usd + excluded.usd, unpriced = unpriced + excluded.unpriced, "
        "incomplete = incomplete + excluded.incomplete",
        (
            event.experiment,
            text(event.proposer),
            text(event.model),
            event.input_tokens,
            event.cached_tokens,
            event.cache_write_tokens,
            event.output_tokens,
            event.thinking_tokens,
            event.usd or 0.0,
            int(event.usd is None),
            int(not event.complete),
        ),
    )


@_on(ev.Asked)
def _agent_asked(tables: Tables, record: Record, event: ev.Asked) -> None:
    tables.execute(
        "INSERT OR IGNORE INTO asked (id, experiment, text, timeout_s, since) VALUES (?, ?, ?, ?, ?)",
        (event.question, event.experiment, text(event.text), event.timeout_s, record.time),
    )


@_on(ev.Answered)
def _agent_answered(tables: Tables, record: Record, event: ev.Answered) -> None:
    tables.execute(
        "UPDATE asked SET answer = ?, by = ? WHERE id = ? AND answer IS NULL",
        (text(event.text), text(event.by), event.question),
    )


# ---- helpers ---------------------------------------------------------------------------------------


def _set_phase(tables: Tables, experiment: int, phase: str) -> None:
    """Note which gate is at work, as long as there is no verdict."""
    tables.execute(
        "UPDATE experiments SET phase = ? WHERE id = ? AND status = ?", (text(phase), experiment, RUNNING)
    )


def _reasons(reasons: Iterable[Reason]) -> str:
    return dumps([asdict(reason) for reason in reasons])
