"""Run a trace on one of an SM's four schedulers, cycle by cycle where it matters.

Each warp issues in order, one instruction a clock for all warps of the scheduler; an instruction waits for
its operands, for its pipe and at barriers. Shared memory, shuffles and global loads queue in a pipe that
the four schedulers share, so each sees a quarter of its rate; wgmma queues on the tensor pipe and runs on.
Bandwidth beyond the SM is not looked at here: `memory` adds it.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

from .arch import Arch
from .sass import ASYNC_LOAD, BARRIER, COMMIT, FREE, LOAD, LOCAL, MIO, MUFU, PIPES, TENSOR, TMA, WGMMA, Code
from .trace import ROOT, Trace

MAX_ISSUES = 30_000
"""More warps than this allows are simulated as fewer, and their time scaled."""
_SLACK = {MIO: 48.0, MUFU: 16.0}


@dataclass(frozen=True, slots=True)
class Timing:
    """Cycles of code per loop number (ROOT: outside all loops), own code without inner loops."""

    steady: dict[int, float]
    first: dict[int, float]
    busy: dict[int, dict[str, float]]
    """Cycles that each pipe is taken for by one repetition of all warps, and `issue` for all instructions."""


def run(
    code: Code,
    trace: Trace,
    warps: int,
    ctas: int,
    fma_clk: float,
    arch: Arch,
    latency: float,
    misses: float = 0.0,
) -> Timing:
    """`warps` per CTA, `ctas` on the SM; `fma_clk`: tensor multiply-adds per clock and scheduler;
    `latency`: cycles of a global load; `misses`: share of spilled registers that are not in L1."""
    total = max(1, -(-warps * ctas // 4))
    per_cta = max(1, -(-warps // 4))
    groups = max(1, total // per_cta)
    share = min(4, warps * ctas) / 4
    scale = 1.0
    length = max(1, len(trace.index))
    if total * length > MAX_ISSUES and groups > 1:
        fewer = max(1, min(groups, int(MAX_ISSUES / length / per_cta)))
        scale, groups = groups / fewer, fewer
    costs = _costs(code, trace, fma_clk, arch, latency, share * scale, misses)
    issued = _simulate(trace, costs, groups, per_cta, scale)
    pipe, cycles = costs[:2]
    return _account(trace, issued, pipe, cycles, groups * per_cta * scale)


def _costs(
    code: Code, trace: Trace, fma_clk: float, arch: Arch, latency: float, share: float, misses: float = 0.0
) -> tuple[list[int], list[float], list[float], list[int], list[float], list[int]]:
    """By position: pipe, cycles on it, latency, kind, cycles on the SM's port to L2, cycles to the next."""
    per_instr: list[tuple[int, float, float, int, float, int]] = []
    for x in code.instrs:
        cycles, wait, port = x.cycles, float(x.latency), 0.0
        if x.pipe == TENSOR:
            full = x.flops / 2 / fma_clk
            cycles = max(full, min(cycles, 4 * full)) if x.kind == WGMMA else full / arch.mma_rate
            wait = x.latency + cycles if x.kind == WGMMA else max(wait, cycles)
        elif x.pipe == MIO:
            cycles *= share
            wait += cycles
        if x.kind in (LOAD, ASYNC_LOAD, TMA):
            wait += latency - arch.lat_l2
            port = x.bytes * 4 * share / arch.port_bytes_clk
        elif x.kind == LOCAL:
            wait += misses * arch.lat_l2
            port = 2 * x.bytes * 4 * share * misses / arch.port_bytes_clk  # what comes in pushes other out
        per_instr.append((x.pipe, cycles, wait, x.kind, port, x.hold))
    rows = [per_instr[i] for i in trace.index]
    return (
        [r[0] for r in rows],
        [r[1] for r in rows],
        [r[2] for r in rows],
        [r[3] for r in rows],
        [r[4] for r in rows],
        [r[5] for r in rows],
    )


def _simulate(
    trace: Trace,
    costs: tuple[list[int], list[float], list[float], list[int], list[float], list[int]],
    ctas: int,
    per_cta: int,
    step: float,
) -> list[list[float]]:
    pipe, cycles, lat, kind, port, hold = costs
    port_free = 0.0
    count = len(pipe)
    warps = ctas * per_cta
    deps, gathers = trace.deps, trace.gathers
    free = [0.0] * len(PIPES)
    slack = [_SLACK.get(p, 0.0) for p in range(len(PIPES))]
    at = [0] * warps
    done = [[0.0] * count for _ in range(warps)]
    issued = [[0.0] * count for _ in range(warps)]
    arrived: list[list[int]] = [[] for _ in range(ctas)]
    heap = [(0.0, w, w) for w in range(warps)]  # among equals, the one that has waited longest
    clock = 0.0
    order = warps
    push, pop = heapq.heappush, heapq.heappop
    while heap:
        ready, turn, w = pop(heap)
        position = at[w]
        p = pipe[position]
        now = ready if ready > clock else clock
        if p != FREE:
            open_at = free[p] - slack[p]
            if kind[position] != WGMMA and open_at > now:
                if heap and heap[0][0] < open_at:
                    push(heap, (open_at, turn, w))
                    continue
                now = open_at
            start = now if now > free[p] else free[p]
            free[p] = start + cycles[position]
            clock = now + step
        else:
            start = now
        mine = done[w]
        what = kind[position]
        mine[position] = start + lat[position]
        issued[w][position] = now
        if port[position]:  # bytes come in through one port, one load after the other
            port_free = max(port_free, start) + port[position]
            mine[position] = port_free + lat[position]
        if what == COMMIT:
            mine[position] = max((mine[g] for g in gathers[position]), default=now)
        position += 1
        at[w] = position
        order += 1
        if position >= count:
            continue
        if what == BARRIER:
            cta = w // per_cta
            arrived[cta].append(w)
            if len(arrived[cta]) == per_cta:
                release = now + lat[position - 1]
                for other in arrived[cta]:
                    push(heap, (_ready(release, done[other], deps[at[other]]), order, other))
                arrived[cta] = []
            continue
        push(heap, (_ready(now + hold[position - 1], mine, deps[position]), order, w))
    return issued


def _ready(now: float, done: list[float], deps: tuple[int, ...]) -> float:
    for d in deps:
        if done[d] > now:
            now = done[d]
    return now


def _account(
    trace: Trace, issued: list[list[float]], pipe: list[int], cycles: list[float], warps: float
) -> Timing:
    """Mean time of the warps in each segment, summed by owner and repetition."""
    spent: dict[tuple[int, int], float] = {}
    taken: dict[tuple[int, int], dict[str, float]] = {}
    runs = len(issued)
    for number, (first, owner, turn) in enumerate(trace.segments):
        last = number + 1 == len(trace.segments)
        end = len(pipe) - 1 if last else trace.segments[number + 1][0]
        time = sum(row[end] - row[first] for row in issued) / runs if runs and end > first else 0.0
        key = (owner, turn)
        spent[key] = spent.get(key, 0.0) + max(time, 0.0)
        use = taken.setdefault(key, dict.fromkeys((*PIPES, "issue"), 0.0))
        for position in range(first, end):
            name = PIPES[pipe[position]]
            use[name] += cycles[position] * warps
            if name != "free":
                use["issue"] += warps
    turns: dict[int, int] = {}
    for owner, turn in spent:
        turns[owner] = max(turn, turns.get(owner, 0))
    steady = {owner: spent[owner, turns[owner]] for owner in turns}
    first_turn = {owner: spent.get((owner, 0), 0.0) for owner in turns}
    if ROOT in steady:
        steady[ROOT] = first_turn[ROOT] = sum(t for (owner, _), t in spent.items() if owner == ROOT)
    busy = {owner: taken[owner, turns[owner]] for owner in turns}
    for owner in turns:  # the last repetition runs against fewer rivals: no pipe gives more than it has
        if owner != ROOT:
            steady[owner] = max(steady[owner], *busy[owner].values())
    return Timing(steady, first_turn, busy)
