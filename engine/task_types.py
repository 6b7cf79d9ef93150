"""What a task folder holds, as frozen dataclasses; tables that go to the host stay plain dicts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

ENTRIES = ("attention", "decode")
DIMS = ("B", "Hq", "Hkv", "Sq", "Sk", "D")
LAYOUTS = ("contiguous", "strided", "offset")
DTYPE_BYTES = {"fp16": 2, "bf16": 2}
MAX_DECODE_QUERIES = 8

Workload = dict[str, Any]
"""One shape as plain JSON values: id, task, bucket, weight, B, Hq, Hkv, Sq, Sk, D, dtype, causal and, for
decode, seq_lens (None where every sequence fills the cache)."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """A class of calls that shares one setting of the tunables. `when` bounds what the host can see."""

    name: str
    doc: str
    when: dict[str, int | bool]


@dataclass(frozen=True, slots=True)
class Template:
    """A timed shape without its heads, which come from the model. `seq_lens`: `full`, `ragged` or None."""

    id: str
    B: int
    Sq: int
    Sk: int
    causal: bool
    weight: float
    seq_lens: str | None
    min_memory_bytes: int


@dataclass(frozen=True, slots=True)
class Baseline:
    """What candidates are compared with; `call` maps a kind of workload to the exact call."""

    name: str
    title: str
    call: dict[str, str]


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """One task folder, read. Tables that go to the host stay plain dicts."""

    name: str
    title: str
    entry: str
    summary: str
    folder: Path
    buckets: tuple[Bucket, ...]
    workloads: tuple[Template, ...]
    tolerances: dict[str, dict[str, float]]
    """dtype to `factor`, `floor_abs`, `floor_rel`."""
    static_cases: tuple[Workload, ...]
    hidden: dict[str, Any]
    """Dimension to a list of choices or `{"min", "max"}`; `static` replaces them where there is no card."""
    baselines: tuple[Baseline, ...]
    seed_source: str
    notes: str
