"""Everything about one compiled kernel that does not depend on its grid or arguments.

`parse` turns the compiler's texts into a JSON-able summary: blocks of work and the programs that count them
(from TTIR), and cycles per block at one and at all resident CTAs (from the machine code). It is the slow
part, done once per kernel; `estimate` then takes milliseconds per launch.
"""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from . import issue, match, program, sass, trace, ttir
from .arch import Arch, arch_of, number, spill_misses, tensor_fma_clk

VERSION = 1
MAX_TEXT = 8_000_000
_CACHE: OrderedDict[str, dict[str, Any]] = OrderedDict()
_KEPT = 512


def occupancy(launch: Mapping[str, Any], target: Mapping[str, Any]) -> int:
    """CTAs of this kernel that one SM holds, at least 1."""
    warps = max(1, int(number(launch, "num_warps", 4)))
    registers = max(16, int(number(launch, "registers", 64)))
    smem = number(launch, "smem_bytes", 0)
    per_warp = -(-registers * 32 // 256) * 256
    limits = [
        number(target, "ctas_sm", 16),
        number(target, "warps_sm", 48) // warps,
        number(target, "registers_sm", 65536) // (per_warp * warps),
        number(target, "smem_sm_bytes", 102400) // (smem + 1024),
    ]
    return max(1, int(min(limits)))


def parse(launch: Mapping[str, Any], target: Mapping[str, Any]) -> dict[str, Any]:
    """The summary of a launch's kernel for a target; kernels seen before come from this process's cache."""
    texts = {name: str(launch.get(name) or "")[:MAX_TEXT] for name in ("ttir", "ttgir", "sass")}
    basis = [target.get(k) for k in ("arch", "sms", "boost_ghz", "tensor_tflops")]
    residents = occupancy(launch, target)
    key = hashlib.sha256(
        json.dumps(
            [
                VERSION,
                texts,
                basis,
                residents,
                *(launch.get(k) for k in ("num_warps", "smem_bytes", "spill_bytes")),
            ],
            default=str,
        ).encode()
    ).hexdigest()
    known = _CACHE.get(key)
    if known is None:
        known = _parse(texts, launch, target, residents)
        _CACHE[key] = known
        while len(_CACHE) > _KEPT:
            _CACHE.popitem(last=False)
    return known


def _parse(
    texts: dict[str, str], launch: Mapping[str, Any], target: Mapping[str, Any], residents: int
) -> dict[str, Any]:
    arch = arch_of(target)
    funcs = ttir.parse(texts["ttir"]) or ttir.parse(texts["ttgir"])
    kernel = program.build(funcs)
    code = sass.parse(texts["sass"], arch)
    warps = max(1, int(number(launch, "num_warps", 4)))
    consumers = _consumers(code, warps)
    found, unroll, flat = match.align(kernel["blocks"], code, consumers)
    laid = trace.build(code, set(found.values()))
    element, accumulate = _matrix_kind(kernel["blocks"])
    fma_clk = tensor_fma_clk(target, element, accumulate)
    _unknown_matrices(code, kernel["blocks"], found)
    _bulk_bytes(code, kernel, found, unroll, consumers)
    counts = sorted({1, residents} | ({max(2, residents // 2)} if residents >= 4 else set()))
    timings = []
    spilled = number(launch, "spill_bytes", 0) * 32 * warps
    for resident in counts if code.instrs else ():
        misses = spill_misses(arch, number(launch, "smem_bytes", 0), spilled, resident)
        for latency in (arch.lat_l2, arch.lat_dram):
            time = issue.run(code, laid, consumers, resident, fma_clk, arch, float(latency), misses)
            timings.append(_by_block(resident, latency, time, found, unroll))
    return {
        "version": VERSION,
        "kernel": str(launch.get("kernel") or "?"),
        "warps": warps,
        "residents": residents,
        **kernel,
        "timings": timings or _from_source(kernel["blocks"], counts, arch, fma_clk),
        "matched": sorted(found),
        "flat": sorted(flat),
        "fma_clk": fma_clk,
        "spills": sum(x.op.startswith(("LDL", "STL")) for x in code.instrs),
        "instructions": len(code.instrs),
        "notes": kernel["notes"]
        + ([] if code.instrs else ["no machine code: estimated from the source alone"]),
    }


def _consumers(code: sass.Code, warps: int) -> int:
    """Warps that run the tensor loop: in a warp-specialised kernel, one warpgroup for each copy of it."""
    if not any(x.op.startswith("USETMAXREG") for x in code.instrs):
        return warps
    flops = [
        sum(x.flops for x in code.instrs[loop.first : loop.last + 1])
        for loop, _ in trace.flatten(code.loops)
        if not loop.inner
    ]
    most = max(flops, default=0.0)
    copies = sum(f > 0.9 * most for f in flops) if most > 0 else 0
    return 4 * copies if copies else warps


def _matrix_kind(blocks: list[dict[str, Any]]) -> tuple[str, str]:
    dots = [dot for block in blocks for dot in block["dots"]]
    return (str(dots[-1][3]), str(dots[-1][4])) if dots else ("f16", "f32")


def _unknown_matrices(code: sass.Code, blocks: list[dict[str, Any]], found: dict[int, int]) -> None:
    """tcgen05 instructions do not name their shape: they share out what the source asks for."""
    unknown = [x for x in code.instrs if x.flops < 0]
    total = sum(block["flops"] for block in blocks)
    for x in unknown:
        x.flops = total / len(unknown) / 4


def _bulk_bytes(
    code: sass.Code, kernel: dict[str, Any], found: dict[int, int], unroll: dict[int, int], warps: int
) -> None:
    """Bulk copies do not name their size: those of a loop share out what its source loads. Every warp runs
    the instruction in the trace, so each is given its part."""
    loops = trace.flatten(code.loops)
    for block in sorted({site["block"] for site in kernel["sites"] if site["tma"]}):
        sites = [s for s in kernel["sites"] if s["tma"] and s["block"] == block and s["kind"] == "load"]
        home = block
        while home > 0 and home not in found:
            home = kernel["blocks"][home]["parent"]
        first, last = 0, len(code.instrs) - 1
        if home in found:
            loop = loops[found[home]][0]
            first, last = loop.first, loop.last
        copies = [x for x in code.instrs[first : last + 1] if x.kind == sass.TMA]
        for x in copies:
            x.bytes = max(x.bytes, sum(s["bytes"] for s in sites) * unroll.get(home, 1) / len(copies) / warps)


def _by_block(
    resident: int, latency: int, time: issue.Timing, found: dict[int, int], unroll: dict[int, int]
) -> dict[str, Any]:
    """Cycles per pass of each source loop: `[steady, extra of the first pass]`, block 0 for the rest."""
    cycles: dict[str, list[float]] = {"0": [round(time.steady.get(trace.ROOT, 0.0), 1), 0.0]}
    busy: dict[str, dict[str, float]] = {}
    for block, loop in found.items():
        each = unroll[block]
        steady = time.steady.get(loop, 0.0) / each
        cycles[str(block)] = [round(steady, 2), round(max(0.0, time.first.get(loop, 0.0) - steady * each), 1)]
        busy[str(block)] = {
            k: round(v / each, 1) for k, v in time.busy.get(loop, {}).items() if v and k != "free"
        }
    busy["0"] = {k: round(v, 1) for k, v in time.busy.get(trace.ROOT, {}).items() if v and k != "free"}
    return {"resident": resident, "latency": latency, "cycles": cycles, "busy": busy}


def source_cycles(tally: Mapping[str, float], fma_clk: float, resident: int) -> float:
    """A cautious guess from the source's work alone: pipes one after the other instead of side by side."""
    tensor = tally["flops"] / (8 * fma_clk)
    special = tally["exp"] / 16
    plain = tally["elements"] / 48
    moved = (tally["load"] + tally["store"]) / 32
    return resident * (tensor + special + plain + moved) + 60.0


def _from_source(
    blocks: list[dict[str, Any]], counts: list[int], arch: Arch, fma_clk: float
) -> list[dict[str, Any]]:
    source = match.source_tallies(blocks)
    out = []
    for resident in counts:
        for latency in (arch.lat_l2, arch.lat_dram):
            cycles = {str(b): [source_cycles(t, fma_clk, resident) + latency, 0.0] for b, t in source.items()}
            out.append(
                {
                    "resident": resident,
                    "latency": latency,
                    "cycles": cycles or {"0": [2000.0, 0.0]},
                    "busy": {},
                }
            )
    return out
