"""What a launch's arguments and its workload say: values, tables, sizes, and the least time they allow."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from .arch import number

DRAM_SHARE = 0.93
"""Part of the profile's DRAM rate that a plain streaming kernel reaches, where none was measured."""


def roofs_us(target: Mapping[str, Any], workload: Mapping[str, Any]) -> tuple[float, float]:
    """Least time for the workload's arithmetic and for its bytes on this card."""
    batch, heads, kv_heads = (max(1, int(number(workload, k, 1))) for k in ("B", "Hq", "Hkv"))
    queries, keys, dim = (max(1, int(number(workload, k, 1))) for k in ("Sq", "Sk", "D"))
    lens = workload.get("seq_lens")
    lengths = [int(n) for n in lens] if isinstance(lens, list) else [keys] * batch
    causal = bool(workload.get("causal", True)) or "decode" in str(workload.get("task", ""))
    pairs = 0.0
    for length in lengths:
        first = length - queries
        if not causal:
            pairs += float(queries * length)
        else:
            seen = min(queries, length)
            pairs += seen * (max(0, first) + 1 + length) / 2 if seen > 0 else 0.0
    rates = target.get("tensor_tflops")
    rates = rates if isinstance(rates, Mapping) else {}
    name = str(workload.get("dtype") or "bf16")
    peak = float(rates.get(name + "_measured") or rates.get(name) or rates.get("bf16") or 25.0)
    moved = 2.0 * dim * (2 * batch * heads * queries + 2 * kv_heads * sum(lengths))
    return 4.0 * heads * dim * pairs / peak / 1e6, moved / dram_gbs(target) / 1e3


def dram_gbs(target: Mapping[str, Any]) -> float:
    """The DRAM rate that a streaming kernel reaches: the measured one, or most of the rated one."""
    measured = number(target, "dram_measured_gbs", 0.0)
    return measured or DRAM_SHARE * number(target, "dram_gbs", 360.0)


def read(
    launch: Mapping[str, Any], workload: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, tuple[list[int], int]], dict[str, float], dict[str, tuple[int, int]]]:
    """Values by argument name, known integer tensors, tensor sizes, (row stride, row bytes) of tensors."""
    values: dict[str, Any] = {}
    tables: dict[str, tuple[list[int], int]] = {}
    sizes: dict[str, float] = {}
    rows: dict[str, tuple[int, int]] = {}
    for arg in launch.get("args") or ():
        name, kind = str(arg.get("name")), arg.get("kind")
        if kind in ("ptr", "desc"):
            item = int(arg.get("itemsize") or 2)
            shape = [int(n) for n in arg.get("shape") or ()]
            strides = [int(n) for n in arg.get("strides") or ()]
            count = math.prod(shape) if shape else 0
            sizes[name] = float(count * item)
            values[name] = ("p", name, 0)
            if kind == "desc":
                values[name] = ("d", values[name], tuple(strides), item)
            if len(shape) >= 2 and len(strides) == len(shape):
                rows[name] = (max(1, strides[-2] * item), max(1, shape[-1] * item))
            if arg.get("tensor") == "seq_lens":
                lens = workload.get("seq_lens") or [workload.get("Sk") or 1] * int(number(workload, "B", 1))
                tables[name] = ([int(n) for n in lens], item)
        elif isinstance(arg.get("value"), (int, float)):
            values[name] = arg["value"]
    return values, tables, sizes, rows


def place(program: Mapping[str, Any] | None, launch: Mapping[str, Any], values: dict[str, Any]) -> None:
    """Arguments that the compiler renamed (`arg0`, …) are taken by position."""
    params = [source for _, source in program["params"]] if program else []
    if not params or any(p in values for p in params):
        return
    given = [str(a.get("name")) for a in launch.get("args") or () if str(a.get("name")) in values]
    for param, name in zip(params, given, strict=False):
        values[param] = values[name]
