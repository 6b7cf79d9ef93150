"""Reading the sections of a task.toml: every wrong value refused with file, line and remedy."""

from __future__ import annotations

import re
from typing import Any

from kernel_lab.engine.task_types import (
    DIMS,
    DTYPE_BYTES,
    LAYOUTS,
    MAX_DECODE_QUERIES,
    Baseline,
    Bucket,
    Template,
    Workload,
)
from kernel_lab.engine.tomlread import Table, near

_ID = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}", re.IGNORECASE)


def _new_id(table: Table, key: str, seen: set[str]) -> str:
    word = table.text(key)
    if not _ID.fullmatch(word):
        table.fail(key, f'"{word}" is no name', "use letters, digits, '.', '_' and '-', at most 64")
    if word in seen:
        table.fail(key, f'"{word}" is there twice', "give each a name of its own")
    seen.add(word)
    return word


def read_buckets(root: Table) -> tuple[Bucket, ...]:
    tables = root.tables("bucket")
    seen: set[str] = set()
    buckets: list[Bucket] = []
    for index, table in enumerate(tables):
        bucket = Bucket(_new_id(table, "name", seen), table.text("doc"), _rule(table.table("when")))
        last = index == len(tables) - 1
        if bool(bucket.when) is last:
            table.fail("when", "the last bucket, and only that, holds whatever is left", "give it when = {}")
        table.done()
        buckets.append(bucket)
    return tuple(buckets)


def _rule(when: Table) -> dict[str, int | bool]:
    rule: dict[str, int | bool] = {}
    bounds = [f"{dim}_{side}" for dim in DIMS for side in ("min", "max")]
    for key in when.names():
        if key in ("causal", "chunk"):
            rule[key] = when.boolean(key)
        elif key in bounds:
            rule[key] = when.integer(key)
        else:
            known = ["causal", "chunk", *bounds]
            when.fail(key, f'unknown bound "{key}"{near(key, known)}', f"use {', '.join(known)}")
    for dim in DIMS:
        if rule.get(f"{dim}_min", 0) > rule.get(f"{dim}_max", float("inf")):
            when.fail(f"{dim}_min", f"{dim} cannot be above its maximum", f"exchange {dim}_min and {dim}_max")
    return rule


def read_templates(root: Table, entry: str) -> tuple[Template, ...]:
    seen: set[str] = set()
    templates: list[Template] = []
    for table in root.tables("workload"):
        template = Template(
            id=_new_id(table, "id", seen),
            B=table.integer("B", high=65_536),
            Sq=table.integer("Sq", high=2**22),
            Sk=table.integer("Sk", high=2**22),
            causal=table.boolean("causal"),
            weight=table.number("weight", high=1e6),
            seq_lens=table.text("seq_lens", one_of=("full", "ragged")) if entry == "decode" else None,
            min_memory_bytes=table.integer("min_memory_bytes", low=0, default=0),
        )
        if entry == "decode":
            _check_decode(table, template.Sq, template.Sk, template.causal)
        table.done()
        templates.append(template)
    return tuple(templates)


def _check_decode(table: Table, queries: int, room: int, causal: bool) -> None:
    if queries > min(MAX_DECODE_QUERIES, room):
        table.fail("Sq", f'"Sq" is {queries}', f"decode takes 1 to {MAX_DECODE_QUERIES} queries, at most Sk")
    if not causal:
        table.fail("causal", "decode is causal among its queries", "use causal = true")


def read_tolerances(root: Table) -> dict[str, dict[str, float]]:
    group = root.table("tolerance")
    result: dict[str, dict[str, float]] = {}
    for dtype in DTYPE_BYTES:
        table = group.table(dtype)
        result[dtype] = {
            "factor": table.number("factor", high=10),
            "floor_abs": table.number("floor_abs", high=0.1),
            "floor_rel": table.number("floor_rel", high=0.1),
        }
        table.done()
    group.done()
    return result


def read_static_cases(root: Table, entry: str) -> tuple[Workload, ...]:
    seen: set[str] = set()
    cases: list[Workload] = []
    for table in root.tables("static_case"):
        case: Workload = {"id": _new_id(table, "id", seen)}
        case.update({dim: table.integer(dim, high=4096) for dim in DIMS})
        if case["Hq"] % case["Hkv"]:
            table.fail("Hkv", f'"Hkv" is {case["Hkv"]}', f"it must divide Hq, which is {case['Hq']}")
        case["dtype"] = "fp16"
        case["causal"] = table.boolean("causal")
        case["layout"] = table.text("layout", one_of=LAYOUTS, default="contiguous")
        case["distribution"] = table.text("distribution", default="normal")
        if entry == "decode":
            _check_decode(table, case["Sq"], case["Sk"], case["causal"])
            case["seq_lens"] = _lengths(table, case["B"], case["Sk"])
        table.done()
        cases.append(case)
    return tuple(cases)


def _lengths(table: Table, batch: int, room: int) -> list[int]:
    lengths = table.value("seq_lens", "[lengths]")
    whole = isinstance(lengths, list) and all(isinstance(n, int) and not isinstance(n, bool) for n in lengths)
    if not whole or len(lengths) != batch or not all(0 <= n <= room for n in lengths):
        table.fail(
            "seq_lens", f'"seq_lens" is {lengths!r}', f"it must be {batch} whole numbers from 0 to {room}"
        )
    return list(lengths)


_HIDDEN_NUMBERS = ("B", "Hkv", "group", "Sq", "Sk", "D")


def read_hidden(table: Table, *, nested: bool) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key in table.names():
        if key == "static" and not nested:
            result[key] = read_hidden(table.table(key), nested=True)
        elif key in _HIDDEN_NUMBERS and isinstance(table.value(key, "a range"), dict):
            bounds = table.table(key)
            low = bounds.integer("min", low=1)
            result[key] = {"min": low, "max": bounds.integer("max", low=low, high=2**22)}
            bounds.done()
        elif key in (*_HIDDEN_NUMBERS, "causal", "layout", "distribution"):
            result[key] = _choices(table, key)
        else:
            known = (*_HIDDEN_NUMBERS, "causal", "layout", "distribution", "static")
            table.fail(key, f'unknown range "{key}"{near(key, known)}', f"use {', '.join(known)}")
    for needed in () if nested else (*_HIDDEN_NUMBERS, "causal", "layout", "distribution"):
        table.value(needed, "a list of choices, or { min = …, max = … }")
    return result


def _choices(table: Table, key: str) -> list[Any]:
    values = table.value(key, "a list of choices")
    kind = int if key in _HIDDEN_NUMBERS else bool if key == "causal" else str
    if not isinstance(values, list) or not values or not all(type(value) is kind for value in values):
        table.fail(key, f'"{key}" is {values!r}', "it must be a list of choices, or { min = …, max = … }")
    if kind is int and min(values) < 1:
        table.fail(key, f'"{key}" holds {min(values)}', "use whole numbers of at least 1")
    return list(values)


def read_baselines(root: Table) -> tuple[Baseline, ...]:
    seen: set[str] = set()
    baselines: list[Baseline] = []
    for table in root.tables("baseline"):
        calls = table.table("call")
        baseline = Baseline(
            name=_new_id(table, "name", seen),
            title=table.text("title"),
            call={kind: calls.text(kind) for kind in calls.names()},
        )
        if not baseline.call:
            table.fail("call", "no call is named", "add the exact call for each kind of workload")
        table.done()
        baselines.append(baseline)
    return tuple(baselines)
