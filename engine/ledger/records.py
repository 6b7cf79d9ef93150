"""What one row of `events` is, its canonical text and its place in the hash chain."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass
from typing import Any

from kernel_lab.engine.events import Event, decode

GENESIS = "0" * 64
"""`prev` of the first event."""

_NUMBER = "$number"


@dataclass(frozen=True, slots=True)
class Record:
    """One event as written. `time` is seconds since the epoch, never earlier than the record before."""

    seq: int
    time: float
    event: Event | None
    """None for a type that this version does not know: skip it."""
    type: str
    hash: str
    prev: str
    body: str
    """Canonical JSON of the event's fields, exactly as hashed."""

    @classmethod
    def from_row(cls, row: tuple[Any, ...]) -> Record:
        """From the columns seq, time, type, body, prev, hash."""
        seq, time, name, body, prev, own = row
        return cls(seq, time, decode(name, loads(body)), name, own, prev, body)


def dumps(value: Any) -> str:
    """Canonical strict JSON: sorted keys, no spaces, ASCII; infinities and NaN as {"$number": "inf"}."""
    try:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except ValueError:
        return json.dumps(_wrap(value), sort_keys=True, separators=(",", ":"), allow_nan=False)


def loads(text: str) -> Any:
    """The value that `dumps` wrote."""
    if _NUMBER in text:
        return json.loads(text, object_hook=_unwrap)
    return json.loads(text)


def digest(prev: str, seq: int, time: float, name: str, body: str) -> str:
    """sha256 in hex of `prev` followed by the canonical JSON of seq, time, type and body."""
    text = f'{prev}{{"body":{body},"seq":{seq},"time":{time!r},"type":{json.dumps(name)}}}'
    return hashlib.sha256(text.encode()).hexdigest()


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _wrap(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return {_NUMBER: repr(value)}
    if isinstance(value, dict):
        return {key: _wrap(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_wrap(item) for item in value]
    return value


def _unwrap(value: dict[str, Any]) -> Any:
    if value.keys() == {_NUMBER} and value[_NUMBER] in ("inf", "-inf", "nan"):
        return float(value[_NUMBER])
    return value
