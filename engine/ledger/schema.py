"""Tables of a lab's database, their version, and the ladder from older versions."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

APPLICATION_ID = 0x4B4C4142
"""`KLAB` in the file's header: tells a lab's database from any other SQLite file."""

PROJECTIONS_VERSION = 3
"""Raised when the projection tables change: an older ledger then rebuilds them from its events."""

TRUTH = """
CREATE TABLE events (
    seq INTEGER PRIMARY KEY,
    time REAL NOT NULL,
    type TEXT NOT NULL,
    experiment INTEGER,
    body TEXT NOT NULL,
    prev TEXT NOT NULL,
    hash TEXT NOT NULL
);
CREATE INDEX events_by_experiment ON events (experiment, type) WHERE experiment IS NOT NULL;
CREATE TABLE commands (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    time REAL NOT NULL,
    by TEXT NOT NULL,
    type TEXT NOT NULL,
    body TEXT NOT NULL,
    obeyed_seq INTEGER,
    result TEXT
);
CREATE INDEX commands_pending ON commands (id) WHERE obeyed_seq IS NULL;
CREATE TABLE now (id INTEGER PRIMARY KEY CHECK (id = 1), body TEXT NOT NULL);
CREATE TABLE blobs (sha TEXT PRIMARY KEY, data BLOB NOT NULL);
"""

PROJECTIONS = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE experiments (
    id INTEGER PRIMARY KEY,
    task TEXT NOT NULL,
    parent INTEGER,
    proposer TEXT NOT NULL,
    status TEXT NOT NULL,
    description TEXT NOT NULL DEFAULT '',
    hypothesis TEXT NOT NULL DEFAULT '',
    lever TEXT NOT NULL DEFAULT '',
    prediction TEXT NOT NULL DEFAULT 'null',
    source_sha TEXT,
    proposed_sha TEXT,
    reasons TEXT NOT NULL DEFAULT '[]',
    score TEXT NOT NULL DEFAULT '{}',
    ci TEXT NOT NULL DEFAULT '{}',
    score_kind TEXT,
    trials INTEGER NOT NULL DEFAULT 0,
    started REAL NOT NULL,
    finished REAL,
    judged REAL,        -- when the verdict that stands was given
    phase TEXT NOT NULL DEFAULT '',
    ideas TEXT NOT NULL DEFAULT '[]',
    base_commit TEXT,   -- as first judged: what commits of children point at
    own_commit TEXT,    -- tip of refs/experiments/N: as first judged, then one commit for each revision
    commit_id TEXT      -- what people are shown: on the champion line, else own_commit
);
CREATE INDEX experiments_by_task ON experiments (task, id);
CREATE INDEX experiments_by_parent ON experiments (parent);
CREATE INDEX experiments_by_status ON experiments (status);
CREATE TABLE trials (
    experiment INTEGER NOT NULL,
    trial INTEGER NOT NULL,
    bucket TEXT NOT NULL,
    setting TEXT NOT NULL,
    status TEXT NOT NULL,
    vs_parent REAL,
    time_us TEXT NOT NULL,
    detail TEXT NOT NULL,
    PRIMARY KEY (experiment, trial, bucket)
) WITHOUT ROWID;
CREATE TABLE checks (
    experiment INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    gate TEXT NOT NULL,
    case_id TEXT NOT NULL,
    probe TEXT NOT NULL,
    status TEXT NOT NULL,
    detail TEXT NOT NULL,
    error REAL,
    bound REAL,
    seconds REAL NOT NULL,
    PRIMARY KEY (experiment, seq)
) WITHOUT ROWID;
CREATE TABLE ideas (
    id INTEGER PRIMARY KEY,
    text TEXT NOT NULL,
    scope TEXT NOT NULL,
    from_experiment INTEGER,
    by TEXT NOT NULL,
    used_by TEXT NOT NULL DEFAULT '[]',
    withdrawn INTEGER NOT NULL DEFAULT 0,
    said REAL NOT NULL,
    place INTEGER NOT NULL -- order in which those that wait are heeded
);
CREATE TABLE questions (
    experiment INTEGER NOT NULL,
    kind TEXT NOT NULL,
    source_sha TEXT NOT NULL,
    reason TEXT NOT NULL,
    since REAL NOT NULL,
    PRIMARY KEY (experiment, kind)
) WITHOUT ROWID;
CREATE TABLE asked (
    id INTEGER PRIMARY KEY,
    experiment INTEGER NOT NULL,
    text TEXT NOT NULL,
    timeout_s REAL NOT NULL,
    since REAL NOT NULL,
    answer TEXT,
    by TEXT NOT NULL DEFAULT ''
);
CREATE TABLE spending (
    experiment INTEGER NOT NULL,
    proposer TEXT NOT NULL,
    model TEXT NOT NULL,
    requests INTEGER NOT NULL,
    input_tokens INTEGER NOT NULL,
    cached_tokens INTEGER NOT NULL,
    cache_write_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    thinking_tokens INTEGER NOT NULL,
    usd REAL NOT NULL,
    unpriced INTEGER NOT NULL,   -- requests whose price nobody knows
    incomplete INTEGER NOT NULL, -- requests whose output is estimated
    PRIMARY KEY (experiment, proposer, model)
) WITHOUT ROWID;
CREATE TABLE champions (
    task TEXT NOT NULL,
    position INTEGER NOT NULL,
    experiment INTEGER NOT NULL,
    commit_id TEXT,
    PRIMARY KEY (task, position)
) WITHOUT ROWID;
CREATE INDEX champions_by_experiment ON champions (experiment);
CREATE TABLE commits (
    position INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    experiment INTEGER NOT NULL,
    source_sha TEXT NOT NULL,
    result TEXT NOT NULL,
    object TEXT NOT NULL
);
"""

PROJECTION_TABLES = (
    "meta",
    "experiments",
    "trials",
    "checks",
    "ideas",
    "questions",
    "asked",
    "spending",
    "champions",
    "commits",
)


def _create(connection: sqlite3.Connection) -> None:
    _run(connection, TRUTH)


MIGRATIONS: tuple[Callable[[sqlite3.Connection], None], ...] = (_create,)
"""Step i takes the truth tables from version i to i + 1."""


def version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def migrate(connection: sqlite3.Connection) -> bool:
    """Bring the truth tables up to date, within the caller's transaction. True if anything changed."""
    first = version(connection)
    for step in MIGRATIONS[first:]:
        step(connection)
    if first < len(MIGRATIONS):
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
    return first < len(MIGRATIONS)


def create_projections(connection: sqlite3.Connection) -> None:
    """Drop the projection tables if they exist and create them empty, within the caller's transaction."""
    for table in PROJECTION_TABLES:
        connection.execute(f"DROP TABLE IF EXISTS {table}")
    _run(connection, PROJECTIONS)


def _run(connection: sqlite3.Connection, script: str) -> None:
    """Statements one by one: `executescript` would commit the transaction around them."""
    for statement in script.split(";\n"):
        if statement.strip():
            connection.execute(statement)
