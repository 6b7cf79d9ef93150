"""The line of champions of each task, and the commits of candidates, as part of the projections."""

from __future__ import annotations

import json

from kernel_lab.engine.ledger import commits
from kernel_lab.engine.ledger.records import loads
from kernel_lab.engine.ledger.tables import Tables

CLEAN = ("keep", "seed")
"""Statuses that may stand on a champion line."""


def champion_changed(tables: Tables, task: str, experiment: int, previous: int | None) -> None:
    """Go back to a champion that stands on the line, or grow the line where `previous` stands."""
    line = [
        row[0]
        for row in tables.execute(
            "SELECT experiment FROM champions WHERE task = ? ORDER BY position", (task,)
        )
    ]
    if experiment in line:
        cut(tables, task, line.index(experiment) + 1)
        return
    if previous in line:
        del line[line.index(previous) + 1 :]
        cut(tables, task, len(line))
    tables.execute(
        "INSERT INTO champions (task, position, experiment) VALUES (?, ?, ?)", (task, len(line), experiment)
    )
    commit_on_line(tables, experiment)


def cut(tables: Tables, task: str, length: int) -> None:
    """Keep the first `length` champions; those after it are shown under their own refs again."""
    tables.execute(
        "UPDATE experiments SET commit_id = own_commit WHERE id IN "
        "(SELECT experiment FROM champions WHERE task = ? AND position >= ?)",
        (task, length),
    )
    tables.execute("DELETE FROM champions WHERE task = ? AND position >= ?", (task, length))


def commit_on_line(tables: Tables, experiment: int) -> None:
    """Give a champion that has its verdict a commit whose parent is the champion before it."""
    for task, position in tables.execute(
        "SELECT c.task, c.position FROM champions c JOIN experiments e ON e.id = c.experiment "
        "WHERE c.experiment = ? AND e.judged IS NOT NULL",
        (experiment,),
    ).fetchall():
        before = tables.execute(
            "SELECT commit_id FROM champions WHERE task = ? AND position < ? AND commit_id IS NOT NULL "
            "ORDER BY position DESC LIMIT 1",
            (task, position),
        ).fetchone()
        commit = write_commit(tables, experiment, before[0] if before else None)
        tables.execute(
            "UPDATE champions SET commit_id = ? WHERE task = ? AND position = ?", (commit, task, position)
        )
        tables.update(experiment, commit_id=commit)


def write_commit(tables: Tables, experiment: int, parent_commit: str | None) -> str | None:
    """Note the commit of an experiment as it is judged now; None without a candidate."""
    row = tables.execute(
        "SELECT task, parent, proposer, status, description, hypothesis, lever, prediction, reasons, "
        "score, ci, score_kind, trials, judged, source_sha FROM experiments WHERE id = ?",
        (experiment,),
    ).fetchone()
    source = None if row is None else tables.blob(row[-1])
    if source is None:
        return None
    task, parent, proposer, status, description, hypothesis, lever, prediction, reasons = row[:9]
    score, ci, score_kind, trials, judged, source_sha = row[9:]
    why = loads(reasons)[-1:] if status not in CLEAN else []
    candidate = commits.Candidate(
        experiment=experiment,
        task=task,
        parent=parent,
        proposer=proposer,
        status=status,
        description=description,
        hypothesis=hypothesis,
        why=" ".join(f"{reason['gate']} {reason['probe']}: {reason['detail']}" for reason in why),
        judged=judged,
    )
    result = commits.result_json(
        {
            "id": experiment,
            "task": task,
            "parent": parent,
            "status": status,
            "lever": lever,
            "prediction": json.loads(prediction),
            "score": json.loads(score),
            "ci": json.loads(ci),
            "score_kind": score_kind,
            "trials": trials,
            "source_sha256": source_sha,
        }
    )
    text = commits.commit_object(candidate, source, result, parent_commit)
    commit = commits.object_id("commit", text.encode())
    tables.execute(
        "INSERT OR IGNORE INTO commits (id, experiment, source_sha, result, object) VALUES (?, ?, ?, ?, ?)",
        (commit, experiment, source_sha, result, text),
    )
    return commit
