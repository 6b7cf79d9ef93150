"""From a kernel's summary, its grid and arguments to a time: the model's last step.

A CTA's cycles follow from how often each of its blocks runs; the grid is run on the card's SMs in launch
order; the bytes bound the whole from below. `parts` keeps what each resource alone would take.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from . import arguments, memory, schedule
from .arch import arch_of, number
from .arguments import dram_gbs, roofs_us
from .evaluate import Run
from .match import source_tallies
from .summary import parse, source_cycles

LAUNCH_US = 1.0
"""What a kernel costs however little it does, in a replayed graph."""
FIRST_LAUNCH_US = 1.0
SM_L2_BYTES_CLK = 64.0
"""What one SM can take from L2 in a clock while the others are quiet."""
BLEND = 4.0
"""How sharply the slowest of schedule, L2 and DRAM wins: they overlap, but not to the last byte."""


def estimate_launch(
    launch: Mapping[str, Any], target: Mapping[str, Any], workload: Mapping[str, Any]
) -> dict[str, Any]:
    """Estimated time of one launch: `time_us`, `bound`, `parts`. Reads the texts in `launch`."""
    return estimate_summary(parse(launch, target), launch, target, workload)


def estimate(
    launches: Sequence[Mapping[str, Any]], target: Mapping[str, Any], workload: Mapping[str, Any]
) -> dict[str, Any]:
    """Estimated time of all launches of one call, one after the other."""
    return join([estimate_launch(x, target, workload) for x in launches], target, workload)


def join(
    estimates: Sequence[Mapping[str, Any]], target: Mapping[str, Any], workload: Mapping[str, Any]
) -> dict[str, Any]:
    """Several launches of one call as one estimate, with its share of the card's roof."""
    time = FIRST_LAUNCH_US + sum(e["time_us"] for e in estimates)
    longest = max(estimates, key=lambda e: float(e["time_us"]), default=None)
    launches = LAUNCH_US * len(estimates) + FIRST_LAUNCH_US
    bound = "launch" if longest is None or launches > time / 2 else str(longest["bound"])
    roof = max(roofs_us(target, workload))
    return {
        "time_us": time,
        "bound": bound,
        "roof_percent": 100.0 * roof / time,
        "parts": {
            "launches": [dict(e["parts"], time_us=e["time_us"], bound=e["bound"]) for e in estimates],
            "assumed": sorted({note for e in estimates for note in e["parts"]["assumed"]}),
        },
    }


def estimate_summary(
    summary: Mapping[str, Any],
    launch: Mapping[str, Any],
    target: Mapping[str, Any],
    workload: Mapping[str, Any],
) -> dict[str, Any]:
    """Estimated time of a launch whose kernel is already summarised: texts are not looked at."""
    raw = launch.get("grid") or (1,)
    grid = tuple(max(0, int(n)) for n in (*raw, 1, 1, 1)[:3])
    total = grid[0] * grid[1] * grid[2]
    assumed = set(summary["notes"])
    values, tables, sizes, rows = arguments.read(launch, workload)
    arguments.place(summary["control"], launch, values)
    limits = {"keys": max(int(number(workload, k, 1)) for k in ("Sk", "Sq")), "grid": grid}
    blocks = summary["blocks"]
    counts = _counts(summary, values, tables, limits, grid, total, assumed)
    arch = arch_of(target)
    ghz = number(target, "boost_ghz", 1.7)
    sms = max(1, int(number(target, "sms", 28)))
    residents = min(summary["residents"], max(1, -(-total // sms)))
    scale = total / max(1, len(counts))
    passes = (
        [sum(c[b] for c in counts) * scale for b in range(len(blocks))] if counts else [0.0] * len(blocks)
    )
    traffic = _traffic(
        summary, launch, passes, values, tables, limits, grid, total, residents * sms, sizes, rows, target
    )
    if traffic.unknown:
        assumed.add("addresses unknown: all tiles come from DRAM, up to the tensors' sizes")
    cold = min(1.0, traffic.dram / traffic.requested) if traffic.requested > 0 else 1.0
    pace_cycles = {
        k: _block_cycles(summary, k, cold, arch.lat_l2, arch.lat_dram) for k in range(1, residents + 1)
    }
    alone = [_cta_cycles(c, pace_cycles[1], summary) for c in counts]
    every = max(1, len(counts) // 64)
    pace = [sum(_cta_cycles(c, cycles, summary) for c in counts[::every]) for cycles in pace_cycles.values()]
    first = sum(alone[::every]) or 1.0
    pace = [max(1.0, p / first) for p in pace]
    span, filled = schedule.makespan(alone, total, sms, residents, pace)
    cycle_us = 1e-3 / ghz
    pipes = _pipe_us(summary, passes, sms / cycle_us)
    # The clock falls with the power that busy tensor cores draw.
    busy = min(1.0, pipes.get("tensor", 0.0) / max(span * cycle_us, 1e-9))
    cycle_us /= 1.0 - (1.0 - arch.loaded_clock) * busy
    pipes = _pipe_us(summary, passes, sms / cycle_us)
    span_us = max(span * cycle_us, *pipes.values()) if pipes else span * cycle_us  # no pipe works faster
    l2_rate = min(sms * arch.l2_bytes_clk, max(1, total) * SM_L2_BYTES_CLK)
    l2_us = traffic.requested / l2_rate * cycle_us
    dram_us = traffic.dram / (dram_gbs(target) * 1e3)
    time = (span_us**BLEND + l2_us**BLEND + dram_us**BLEND) ** (1 / BLEND)
    parts: dict[str, Any] = {
        "kernel": summary["kernel"],
        "schedule_us": span_us,
        "l2_us": l2_us,
        "dram_us": dram_us,
        "pipes_us": pipes,
        "ctas": total,
        "ctas_per_sm": summary["residents"],
        "waves": total / (sms * summary["residents"]),
        "sm_busy": filled,
        "requested_bytes": traffic.requested,
        "dram_bytes": traffic.dram,
        "trips": {
            str(b): passes[b] / max(1, total) for b in range(len(blocks)) if blocks[b]["kind"] != "body"
        },
        "spills": summary["spills"],
        "assumed": sorted(assumed),
    }
    time_us = LAUNCH_US + time
    if not math.isfinite(time_us) or time_us <= 0:
        time_us = LAUNCH_US
    return {"time_us": time_us, "bound": _bound(time, parts), "parts": parts}


def _counts(
    summary: Mapping[str, Any],
    values: dict[str, Any],
    tables: dict[str, tuple[list[int], int]],
    limits: dict[str, Any],
    grid: tuple[int, ...],
    total: int,
    assumed: set[str],
) -> list[list[float]]:
    """How often each block runs in the sampled CTAs, in launch order."""
    chosen = schedule.pick(total)
    program = summary["control"]
    if program is None or not summary["blocks"]:
        return [[1.0] for _ in chosen]
    run = Run(program, summary["blocks"], values, tables, limits)
    axes = program["axes"]
    known: dict[tuple[int, ...], list[float]] = {}
    out = []
    for cta in chosen:
        pid = (cta % grid[0], cta // grid[0] % grid[1], cta // (grid[0] * grid[1]))
        key = tuple(pid[a] for a in axes)
        counts = known.get(key)
        if counts is None:
            counts = known[key] = run.count(pid)
        out.append(counts)
    assumed |= run.assumed
    return out


def _traffic(
    summary: Mapping[str, Any],
    launch: Mapping[str, Any],
    passes: list[float],
    values: dict[str, Any],
    tables: dict[str, tuple[list[int], int]],
    limits: dict[str, Any],
    grid: tuple[int, ...],
    total: int,
    resident: int,
    sizes: dict[str, float],
    rows: dict[str, tuple[int, int]],
    target: Mapping[str, Any],
) -> memory.Traffic:
    blocks, sites = summary["blocks"], summary["sites"]
    loads = [s["bytes"] * passes[s["block"]] if s["kind"] == "load" else 0.0 for s in sites]
    stored = sum(s["bytes"] * passes[s["block"]] for s in sites if s["kind"] == "store")
    program = summary["address"]
    if program is None:
        return memory.Traffic(0.0, sum(sizes.values()), 0.0, True)
    run = Run(program, blocks, values, tables, limits)
    axes = program["axes"]
    known: dict[tuple[int, ...], list[tuple[int, Any, float, float, float]]] = {}

    def reach(cta: int) -> list[tuple[int, Any, float, float, float]]:
        pid = (cta % grid[0], cta // grid[0] % grid[1], cta // (grid[0] * grid[1]))
        key = tuple(pid[a] for a in axes)
        if key not in known:
            found: list[tuple[int, Any, float, float, float]] = []
            for site, argument, low, high, live in run.reach(pid):
                stride, row = rows.get(argument or "", (1, 1))
                if sites[site]["tma"]:
                    high += sites[site]["bytes"] - 1
                if stride > row:  # rows of other heads lie between: fold them away
                    lane = int(low % stride // row)
                    found.append(
                        (site, (argument, lane), low // stride * row, high // stride * row + row - 1, live)
                    )
                else:
                    found.append((site, argument, low, high, live))
            known[key] = found
        return known[key]

    looked = _sites_of(program["nodes"])
    scratch = {str(a.get("name")) for a in launch.get("args") or () if a.get("tensor") == "scratch"}
    fits = sum(sizes.get(name, 0.0) for name in scratch) < number(target, "l2_bytes", 4e6) / 2
    hot = frozenset(scratch) if fits else frozenset()
    return memory.estimate(
        reach, loads, looked, total, resident, number(target, "l2_bytes", 4e6), sizes, stored, hot
    )


def _sites_of(nodes: list[Any]) -> set[int]:
    out: set[int] = set()
    for node in nodes:
        if node[0] == "site":
            out.add(node[1])
        elif node[0] == "for":
            out |= _sites_of(node[7])
        elif node[0] == "if":
            out |= _sites_of(node[3]) | _sites_of(node[4])
        elif node[0] == "while":
            out |= _sites_of(node[3]) | _sites_of(node[6])
    return out


def _block_cycles(
    summary: Mapping[str, Any], resident: int, cold: float, lat_l2: int, lat_dram: int
) -> dict[int, list[float]]:
    """`[cycles a pass, extra of the first]` by block with `resident` CTAs on the SM, interpolated."""
    timings = summary["timings"]
    points = sorted({t["resident"] for t in timings})
    below = max((p for p in points if p <= resident), default=points[0])
    above = min((p for p in points if p >= resident), default=points[-1])
    weight = (resident - below) / (above - below) if above > below else 0.0
    out: dict[int, list[float]] = {}
    for t in timings:
        if t["resident"] not in (below, above):
            continue
        share = (1 - weight) if t["resident"] == below else weight
        if below == above:
            share = 1.0
        share *= cold if t["latency"] == lat_dram else 1 - cold
        for block, (steady, extra) in t["cycles"].items():
            pair = out.setdefault(int(block), [0.0, 0.0])
            pair[0] += share * steady
            pair[1] += share * extra
    blocks = summary["blocks"]
    missing = [b for b, x in enumerate(blocks) if x["kind"] in ("for", "while") and b not in out]
    if missing:
        source = source_tallies(blocks)
        for b in missing:
            out[b] = [
                0.0 if b in summary["flat"] else source_cycles(source[b], summary["fma_clk"], resident),
                0.0,
            ]
    return out


def _cta_cycles(counts: list[float], cycles: dict[int, list[float]], summary: Mapping[str, Any]) -> float:
    """Cycles of one CTA whose blocks run `counts` times."""
    blocks = summary["blocks"]
    time = cycles.get(0, [0.0, 0.0])[0]
    for block, (steady, extra) in cycles.items():
        if block == 0 or block >= len(counts) or counts[block] <= 0:
            continue
        parent = blocks[block]["parent"]
        entries = max(1.0, counts[parent]) if parent >= 0 else 1.0
        entries = min(entries, counts[block])
        time += counts[block] * steady * _arms(blocks, block, counts) + entries * extra
    return time


def _arms(blocks: list[dict[str, Any]], loop: int, counts: list[float]) -> float:
    """Part of a loop's code that runs: arms of its ifs that are not taken cost nothing."""
    full = real = 0.0
    passes = counts[loop]
    for number_, block in enumerate(blocks):
        home, inside = number_, block["kind"] in ("then", "else")
        while home > 0 and blocks[home]["kind"] in ("then", "else"):
            home = blocks[home]["parent"]
        if home != loop:
            continue
        cost = (
            block["flops"] / 4096
            + block["exp"] / 16
            + block["elements"] / 64
            + (block["load"] + block["store"]) / 64
            + 8
        )
        full += cost
        real += cost * (min(1.0, counts[number_] / passes) if inside else 1.0)
    return real / full if full > 0 else 1.0


def _pipe_us(summary: Mapping[str, Any], passes: list[float], per_us: float) -> dict[str, float]:
    """Time that each pipe alone would need on a card that is evenly filled."""
    alone = next((t for t in summary["timings"] if t["resident"] == 1), None)
    out: dict[str, float] = {}
    for block, use in alone["busy"].items() if alone else ():
        number_ = int(block)
        times = passes[number_] if number_ < len(passes) else 0.0
        for pipe, cycles in use.items():
            out[pipe] = out.get(pipe, 0.0) + cycles * times / per_us
    return out


def _bound(time: float, parts: Mapping[str, Any]) -> str:
    """The resource that limits the launch; `latency` where none is busy for most of the time."""
    pipes = parts["pipes_us"]
    shares = {
        "tensor": pipes.get("tensor", 0.0),
        "exp": pipes.get("exp", 0.0),
        "issue": max((pipes.get(p, 0.0) for p in ("issue", "fma", "alu", "control", "uniform")), default=0.0),
        "smem": pipes.get("smem", 0.0),
        "dram": parts["dram_us"],
        "l2": parts["l2_us"],
    }
    name = max(shares, key=lambda k: shares[k])
    if time < LAUNCH_US:
        return "launch"
    waits = name in ("dram", "l2") and shares[name] < 0.8 * parts["schedule_us"]
    return name if shares[name] >= 0.55 * time and not waits else "latency"
