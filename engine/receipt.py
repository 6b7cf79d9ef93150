"""Receipts: what anyone needs to re-check one kept win, as one self-contained JSON file.

A receipt is a slice of the lab's hash-chained events, each on a line of its own, with the texts that they
name: how the lab was made and on what it ran, the experiment from its proposal to its verdict without a gap,
what was decided about it later, and the verdicts of what it was built on and of the champion that it beat.

    {"experiment":7,"format":"kernel-lab receipt","version":1,
    "events":[
    {"seq":41,"time":…,"type":…,"prev":…,"hash":…,"fields":{name: digest},"body":{…}},
    …],
    "texts":{
    "<sha256>":"…",
    …}}

`fields` lets a changed byte be named by its field; it adds nothing to what the hashes prove. A chain shows
that a receipt was changed by accident or carelessly, not who wrote it: whoever writes all of it anew can
write anything, which is why `verify` judges the candidate again.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernel_lab.engine.errors import UsageError
from kernel_lab.engine.events import (
    ChampionChanged,
    EngineStarted,
    ExperimentFinished,
    ExperimentStarted,
    LabCreated,
    SelftestJudged,
    type_name,
)
from kernel_lab.engine.ledger.chain import Fault
from kernel_lab.engine.ledger.records import Record, digest, dumps, loads, sha256
from kernel_lab.engine.ledger.store import RECORD_COLUMNS, EventReader

FORMAT = "kernel-lab receipt"
VERSION = 1
NAME = "receipt.json"
"""Where `runs/N` has it."""
MAX_BYTES = 32 << 20
"""A larger file is no receipt: the raw samples of a race take about 100 kB."""

_EVENT_KEYS = ("seq", "time", "type", "prev", "hash", "fields", "body")
_DEEP = "it is nested too deep to have been written by kernel-lab"
_EVENT_LINE = re.compile(r'\{"seq":(\d{1,18}),')
_HASH = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Receipt:
    """The slice behind experiment `experiment`. `texts`: sha256 to candidate."""

    experiment: int
    records: tuple[Record, ...]
    texts: dict[str, str]

    def last(self, kind: type, **fields: Any) -> Any:
        """The last event of a kind whose fields equal the given ones, or None."""
        for record in reversed(self.records):
            event = record.event
            if isinstance(event, kind) and all(getattr(event, key) == value for key, value in fields.items()):
                return event
        return None


# ---- writing ---------------------------------------------------------------------------------------


def collect(ledger: EventReader, experiment: int) -> Receipt:
    """The receipt of an experiment that was kept, as of now. Raises UsageError for any other."""
    own = ledger.records(experiment=experiment)
    finished = next((r.seq for r in own if isinstance(r.event, ExperimentFinished)), None)
    if finished is None or not any(isinstance(record.event, ChampionChanged) for record in own):
        raise UsageError(f"#{experiment} was never kept: only a kept win has a receipt; see `results`")
    first = own[0].seq
    records = {r.seq: r for r in ledger.records(after=first - 1, limit=finished - first + 1)}
    records |= {record.seq: record for record in own}
    for kind in (LabCreated, EngineStarted, SelftestJudged):
        records |= _last(ledger, "type = ? AND seq <= ?", type_name(kind), finished)
    for rival in _rivals(own):
        records |= _last(ledger, "type = ? AND experiment = ?", type_name(ExperimentFinished), rival)
    ordered = tuple(records[seq] for seq in sorted(records))
    texts = {sha: ledger.blob(sha).decode() for sha in sorted(_named(ordered))}
    return Receipt(experiment, ordered, texts)


def _last(ledger: EventReader, where: str, *values: object) -> dict[int, Record]:
    rows = ledger.fetch(
        f"SELECT {RECORD_COLUMNS} FROM events WHERE {where} ORDER BY seq DESC LIMIT 1",  # noqa: S608
        values,
    )
    return {row[0]: Record.from_row(row) for row in rows}


def _rivals(records: Iterable[Record]) -> set[int]:
    """The experiment that it was built on, and the champions that it took the place of."""
    events = [record.event for record in records]
    parents = [event.parent for event in events if isinstance(event, ExperimentStarted)]
    beaten = [event.previous for event in events if isinstance(event, ChampionChanged)]
    return {number for number in (*parents, *beaten) if type(number) is int}


def _named(records: Iterable[Record]) -> set[str]:
    return {sha for record in records if (sha := loads(record.body).get("source_sha"))}


def render(receipt: Receipt) -> str:
    """The file's text: the same receipt gives the same bytes."""
    return "\n".join(_lines(receipt)) + "\n"


def _lines(receipt: Receipt) -> Iterator[str]:
    head = dumps({"format": FORMAT, "version": VERSION, "experiment": receipt.experiment})
    yield f"{head[:-1]},"
    yield '"events":['
    for number, record in enumerate(receipt.records, 1):
        comma = "," if number < len(receipt.records) else ""
        fields = dumps(_digests(json.loads(record.body)))
        yield (
            f'{{"seq":{record.seq},"time":{record.time!r},"type":{json.dumps(record.type)},'
            f'"prev":"{record.prev}","hash":"{record.hash}","fields":{fields},"body":{record.body}}}{comma}'
        )
    yield "],"
    yield '"texts":{'
    for number, (sha, text) in enumerate(sorted(receipt.texts.items()), 1):
        yield f'"{sha}":{json.dumps(text)}' + ("," if number < len(receipt.texts) else "")
    yield "}}"


def _digests(fields: dict[str, Any]) -> dict[str, str]:
    return {name: sha256(dumps(value).encode())[:8] for name, value in fields.items()}


# ---- reading ---------------------------------------------------------------------------------------


class _Wrong(Exception):
    """A receipt is not as it was written."""

    def __init__(self, seq: int | None, text: str) -> None:
        super().__init__(text)
        self.fault = Fault(seq, text)


def read(path: Path) -> tuple[Receipt | None, Fault | None]:
    """The receipt in a file and None, or None and the first thing that is wrong with it.

    Raises UsageError where the file cannot be read or is something else altogether.
    """
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as problem:
        raise UsageError(
            f"{path} cannot be read ({problem.strerror}): name a receipt or the folder of a lab"
        ) from None
    if len(data) > MAX_BYTES:
        raise UsageError(
            f"{path} is larger than {MAX_BYTES >> 20} MiB: name a receipt or the folder of a lab"
        )
    if b"receipt" not in data[:100] and b'"events"' not in data[:200]:
        raise UsageError(f"{path} is neither a receipt nor a ledger: name one, or the folder of a lab")
    try:
        return parse(data), None
    except _Wrong as wrong:
        return None, wrong.fault
    except RecursionError:
        return None, Fault(None, _DEEP)


def parse(data: bytes) -> Receipt:
    """The receipt that `render` wrote as these bytes; anything else raises and names what was changed."""
    try:
        text = data.decode("ascii")
    except UnicodeDecodeError as problem:
        seq = _seq_at(data.decode("ascii", "replace"), problem.start)
        raise _Wrong(seq, f"{_where(seq)}: byte {problem.start} is none that a receipt has") from None
    found = _load(text)
    if found.get("format") != FORMAT:
        raise _Wrong(None, "its format is not what was written")
    if found.get("version") != VERSION:
        raise _Wrong(None, f"its version is not {VERSION}: if nothing was changed, update kernel-lab")
    experiment, events, texts = found.get("experiment"), found.get("events"), found.get("texts")
    if type(experiment) is not int or not isinstance(events, list) or not isinstance(texts, dict):
        raise _Wrong(None, "its outline is not what was written")
    records = tuple(_linked(events))
    _check_texts(records, texts)
    receipt = Receipt(experiment, records, texts)
    _check_story(receipt)
    expected = render(receipt)
    if expected != text:
        at = next((n for n, (a, b) in enumerate(zip(expected, text, strict=False)) if a != b), len(expected))
        line = text.count("\n", 0, at) + 1
        raise _Wrong(_seq_at(text, at), f"line {line} is not as it was written")
    return receipt


def _load(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text, parse_constant=_no_constant)
    except RecursionError:
        raise _Wrong(None, _DEEP) from None
    except json.JSONDecodeError as problem:
        seq = _seq_at(text, problem.pos)
        whole = problem.pos >= len(text.rstrip())
        what = "the file is cut off here" if whole else f"line {problem.lineno} is no JSON"
        raise _Wrong(seq, f"{_where(seq)}: {what}") from None
    except ValueError:
        raise _Wrong(None, "it holds a number that kernel-lab does not write") from None
    if not isinstance(found, dict):
        raise _Wrong(None, "its outline is not what was written")
    return found


def _no_constant(name: str) -> float:
    raise ValueError(name)


def _seq_at(text: str, at: int) -> int | None:
    """The event on whose line a place in the text is."""
    begins = _EVENT_LINE.match(text, text.rfind("\n", 0, at) + 1)
    return int(begins[1]) if begins else None


def _where(seq: int | None) -> str:
    return "outside the events" if seq is None else f"event {seq}"


def _linked(events: list[Any]) -> Iterator[Record]:
    """Every event, if its hash and its place behind the one before are as written."""
    before: Record | None = None
    for event in events:
        record = _record(event, before)
        if before is not None and record.seq <= before.seq:
            raise _Wrong(record.seq, f"event {record.seq} stands behind event {before.seq}")
        if before is not None and record.seq == before.seq + 1 and record.prev != before.hash:
            raise _Wrong(record.seq, f"event {record.seq} ({record.type}) does not follow event {before.seq}")
        yield record
        before = record


def _record(event: Any, before: Record | None) -> Record:
    if not isinstance(event, dict) or tuple(event) != _EVENT_KEYS:
        seq = event.get("seq") if isinstance(event, dict) else None
        at = seq if type(seq) is int else None if before is None else before.seq + 1
        raise _Wrong(at, f"{_where(at)} does not have the keys of an event")
    seq, time, name, prev, own, fields, body = event.values()
    known = {
        "seq": type(seq) is int and 0 < seq < 2**63,
        "time": isinstance(time, float) and math.isfinite(time),
        "type": isinstance(name, str),
        "prev": isinstance(prev, str) and _HASH.fullmatch(prev) is not None,
        "hash": isinstance(own, str) and _HASH.fullmatch(own) is not None,
        "fields": isinstance(fields, dict),
        "body": isinstance(body, dict),
    }
    wrong = [key for key, right in known.items() if not right]
    if wrong:
        at = seq if known["seq"] else None if before is None else before.seq + 1
        raise _Wrong(at, f"{_where(at)}: {wrong[0]} is not what was written")
    written = dumps(body)
    if digest(prev, seq, time, name, written) != own:
        raise _Wrong(seq, f"event {seq} ({name[:40]}) is not what was written: {_changed(event, before)}")
    if _digests(body) != fields:
        raise _Wrong(seq, f"event {seq} ({name[:40]}): fields is not what was written")
    try:
        return Record.from_row((seq, time, name, written, prev, own))
    except Exception:  # noqa: BLE001  a forged body may hold anything
        raise _Wrong(seq, f"event {seq} ({name[:40]}) does not hold what such an event does") from None


def _changed(event: dict[str, Any], before: Record | None) -> str:
    """Which part of an event whose hash is wrong is the likely one."""
    body, fields = event["body"], event["fields"]
    digests = _digests(body)
    names = [name for name in sorted({*digests, *fields}) if digests.get(name) != fields.get(name)]
    if names:
        return f"field {names[0][:40]!r} was changed"
    if before is not None and event["seq"] == before.seq + 1 and event["prev"] != before.hash:
        return "prev was changed"
    return "seq, time, type, prev or hash was changed"


def _check_texts(records: tuple[Record, ...], texts: dict[str, Any]) -> None:
    named = {
        sha: record
        for record in records
        if isinstance(sha := loads(record.body).get("source_sha"), str) and sha
    }
    for sha, text in texts.items():
        if not isinstance(text, str) or sha not in named:
            raise _Wrong(None, f"the text {sha[:12]} is named by no event")
        try:
            right = sha256(text.encode()) == sha
        except UnicodeEncodeError:
            right = False
        if not right:
            record = named[sha]
            raise _Wrong(
                record.seq,
                f"the text {sha[:12]}, which event {record.seq} ({record.type}) names, was changed",
            )
    for sha, record in named.items():
        if sha not in texts:
            what = f"event {record.seq} ({record.type}) names the text {sha[:12]}, which is missing"
            raise _Wrong(record.seq, what)


def _check_story(receipt: Receipt) -> None:
    """The experiment is whole: from its start to its verdict, with what it was judged by."""
    number = receipt.experiment
    started = receipt.last(ExperimentStarted, experiment=number)
    finished = receipt.last(ExperimentFinished, experiment=number)
    kept = receipt.last(ChampionChanged, experiment=number)
    if started is None or finished is None or kept is None or receipt.last(LabCreated) is None:
        raise _Wrong(None, f"it is about #{number}, and its events do not tell that #{number} was kept")
    seqs = [record.seq for record in receipt.records]
    begin = next(r.seq for r in receipt.records if r.event == started)
    end = next(r.seq for r in receipt.records if r.event == finished)
    missing = sorted(set(range(begin, min(end, begin + len(seqs)) + 1)) - set(seqs))
    if missing:
        raise _Wrong(missing[0], f"event {missing[0]} is missing")
    own = [r for r in receipt.records if getattr(r.event, "experiment", None) == number]
    for rival in sorted(_rivals(own)):
        if receipt.last(ExperimentFinished, experiment=rival) is None:
            raise _Wrong(None, f"the verdict of #{rival}, which #{number} had to beat, is missing")
