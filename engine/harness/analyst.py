"""Trusted: plans the calls of a screening, and turns captured launches into limits, launches and times.

One process serves one job: it first answers with the plan for each workload, then waits for the launches.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import model
import tensors
from wire import Wire


def run(wire: Wire, specification: dict[str, Any], descriptors: list[int]) -> int:
    workloads = specification["workloads"]
    try:
        reference = tensors.load_reference(specification["task_dir"])
        plans = [plan(reference, workload) for workload in workloads]
    except Exception as failure:  # noqa: BLE001 (a task's own code can fail in any way)
        wire.send(failed=f"the task cannot lay out its inputs: {type(failure).__name__}: {failure}")
        return 0
    flops = {w["id"]: float(reference.flops(w)) for w in workloads}
    moved = {w["id"]: float(reference.moved_bytes(w)) for w in workloads}
    wire.send(plans=plans)
    work = wire.receive()
    try:
        facts = analyse(work["launches"], work["artifacts"], specification["target"], workloads)
    except Exception as failure:  # noqa: BLE001 (the host reports it as its own fault)
        import traceback

        traceback.print_exc()
        wire.send(failed=f"the time model failed: {type(failure).__name__}: {failure}")
        return 0
    wire.send(facts={**facts, "flops": flops, "moved_bytes": moved})
    return 0


def plan(reference: Any, workload: dict[str, Any]) -> dict[str, Any]:
    """What a capture needs for one workload: the layout of the inputs, the call, the shape of the answer."""
    inputs = tensors.meta_inputs(reference, workload)
    first = next(iter(inputs.values()))
    return {
        "layout": tensors.layouts(inputs),
        "call": tensors.call_of(reference, inputs, workload),
        "out": {"shape": list(first.shape), "dtype": str(first.dtype).removeprefix("torch.")},
    }


def analyse(
    launches: list[list[dict[str, Any]]],
    artifacts: dict[str, str],
    target: dict[str, Any],
    workloads: list[dict[str, Any]],
) -> dict[str, Any]:
    """Launch facts, times and bounds by workload. `artifacts`: unit to the file of its machine code."""
    units = {key: json.loads(Path(path).read_text(encoding="utf-8")) for key, path in artifacts.items()}
    described: list[dict[str, Any]] = []
    times: dict[str, float] = {}
    parts: dict[str, dict[str, Any]] = {}
    for workload, launched in zip(workloads, launches, strict=True):
        full = [{**units[launch["unit"]], **launch} for launch in launched]
        singles = [model.estimate_summary(launch["summary"], launch, target, workload) for launch in full]
        total = model.join(singles, target, workload)
        times[workload["id"]] = float(total["time_us"])
        parts[workload["id"]] = {key: value for key, value in total.items() if key != "time_us"}
        described += _described(full, singles, target, workload["id"])
    return {"launches": described, "time_us": times, "parts": parts}


def _described(
    launches: list[dict[str, Any]], estimates: list[dict[str, Any]], target: dict[str, Any], workload: str
) -> list[dict[str, Any]]:
    """The fields of a Launch for each launch of one call."""
    whole = sum(float(estimate["time_us"]) for estimate in estimates) or 1.0
    found = []
    for launch, estimate in zip(launches, estimates, strict=True):
        ctas = model.occupancy(launch, target)
        kept = ("kernel", "grid", "num_warps", "smem_bytes", "registers", "spill_bytes", "tensor_cores")
        found.append({
            "workload": workload,
            **{key: launch[key] for key in kept},
            "ctas_per_sm": ctas,
            "occupancy": min(1.0, ctas * launch["num_warps"] / int(target["warps_sm"])),
            "time_us": float(estimate["time_us"]),
            "share": float(estimate["time_us"]) / whole,
        })  # fmt: skip
    return found
