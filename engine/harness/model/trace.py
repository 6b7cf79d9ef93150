"""Lay a kernel's code out as one warp would run it, with what each instruction waits for.

Loops appear a few times each: the last repetition is the steady state, the first shows what it costs to
get there. All warps of a CTA follow the same trace, so dependencies are worked out once, statically.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from .sass import ASYNC_LOAD, COMMIT, LOAD, TMA, WAIT_GROUP, WAIT_TMA, WAIT_WGMMA, WGMMA, Code, Loop

ROOT = -1
REPEATS = 3
MAX_TRACE = 9_000
"""Longer traces repeat their loops twice only."""
_QUEUED = frozenset((LOAD, ASYNC_LOAD, COMMIT, WGMMA, TMA))


@dataclass(slots=True)
class Trace:
    """Positions in run order. `deps[p]`: earlier positions whose result `p` needs; `gathers[p]`: the async
    copies that a commit closes. `segments`: (first position, loop number or ROOT, repetition)."""

    index: list[int] = field(default_factory=list)
    deps: list[tuple[int, ...]] = field(default_factory=list)
    gathers: dict[int, tuple[int, ...]] = field(default_factory=dict)
    segments: list[tuple[int, int, int]] = field(default_factory=list)


def flatten(loops: list[Loop]) -> list[tuple[Loop, int]]:
    """All loops in code order with their depth: a loop's place in this list is its number."""
    out: list[tuple[Loop, int]] = []

    def walk(level: list[Loop], depth: int) -> None:
        for loop in level:
            out.append((loop, depth))
            walk(loop.inner, depth + 1)

    walk(loops, 0)
    return out


def build(code: Code, repeated: set[int]) -> Trace:
    """The trace with the loops numbered in `repeated` run several times, others once."""
    numbers = {id(loop): i for i, (loop, _) in enumerate(flatten(code.loops))}
    length = sum(
        (loop.last - loop.first + 1) for loop, _ in flatten(code.loops) if numbers[id(loop)] in repeated
    )
    repeats = REPEATS if len(code.instrs) + (REPEATS - 1) * length <= MAX_TRACE else 2
    trace = Trace()
    _span(trace, code, 0, len(code.instrs), code.loops, ROOT, 0, numbers, repeated, repeats)
    _depend(trace, code)
    return trace


def _span(
    trace: Trace,
    code: Code,
    first: int,
    end: int,
    loops: list[Loop],
    owner: int,
    turn: int,
    numbers: dict[int, int],
    repeated: set[int],
    repeats: int,
) -> None:
    at = first
    for loop in loops:
        _straight(trace, at, loop.first, owner, turn)
        number = numbers[id(loop)]
        inside = number if number in repeated else owner
        times = repeats if number in repeated else 1
        for again in range(times):
            mine = again if number in repeated else turn
            deeper = repeats if not loop.inner else 2
            _span(trace, code, loop.first, loop.last + 1, loop.inner, inside, mine, numbers, repeated, deeper)
            if loop.inner and again == 1:
                break
        at = loop.last + 1
    _straight(trace, at, end, owner, turn)


def _straight(trace: Trace, first: int, end: int, owner: int, turn: int) -> None:
    if end > first:
        trace.segments.append((len(trace.index), owner, turn))
        trace.index.extend(range(first, end))


def _depend(trace: Trace, code: Code) -> None:
    writer: dict[int, int] = {}
    open_copies: list[int] = []
    commits: list[int] = []
    matrices: list[int] = []
    loads: list[int] = []
    waits = 0
    per_wait = _loads_per_wait(code)
    deps = trace.deps
    instrs = code.instrs
    for position, index in enumerate(trace.index):
        x = instrs[index]
        kind = x.kind
        needs: list[int] = []
        for register in x.reads:
            source = writer.get(register)
            if source is not None:
                producer = instrs[trace.index[source]]
                if (
                    position - source < producer.latency + 40
                    or producer.kind in _QUEUED
                    or producer.pipe == 3
                ):
                    needs.append(source)
        if kind == WGMMA:
            needs = [n for n in needs if instrs[trace.index[n]].kind != WGMMA]
            if x.count:
                matrices.append(position)
        elif kind == ASYNC_LOAD:
            open_copies.append(position)
        elif kind == COMMIT:
            trace.gathers[position] = (*open_copies, *commits[-1:])
            open_copies = []
            commits.append(position)
        elif kind == WAIT_GROUP and len(commits) > x.count:
            needs.append(commits[-1 - x.count])
        elif kind == WAIT_WGMMA and len(matrices) > x.count:
            needs.append(matrices[-1 - x.count])
        elif kind == TMA:
            loads.append(position)
        elif kind == WAIT_TMA:
            waits += 1
            at = int(waits * per_wait) - 1
            if 0 <= at < len(loads):
                needs.append(loads[at])
        for register in x.writes:
            if kind != WGMMA:
                writer[register] = position
        deps.append(tuple(sorted(set(needs))[-6:]) if needs else ())


def _loads_per_wait(code: Code) -> float:
    """Bulk copies that a wait is for, by the loops: before them stand copies whose waits come inside."""
    inside = [x.kind for loop in code.loops for x in code.instrs[loop.first : loop.last + 1]]
    for kinds in (inside, [x.kind for x in code.instrs]):
        loads, waits = kinds.count(TMA), kinds.count(WAIT_TMA)
        if loads and waits:
            return loads / waits
    return 1.0
