"""The work that a kernel's source asks for, piece by piece.

A *block* is a piece of code without control flow of its own: the kernel's body, a loop's body, an arm of an
`if`. Each carries a tally of what one pass costs one CTA. A *site* is one load or store of a tile.
"""

from __future__ import annotations

import re
from typing import Any

from .ttir import Func, Op, Region, element_bytes, tensor_of, tensors_of

DOTS = ("tt.dot", "tt.dot_scaled", "ttng.warp_group_dot", "ttng.tc_gen5_mma", "ttng.tc_gen5_mma_scaled")
LOADS = ("tt.load", "tt.descriptor_load", "tt.descriptor_gather", "ttg.async_copy_global_to_local")
STORES = ("tt.store", "tt.descriptor_store", "tt.descriptor_reduce", "tt.descriptor_scatter")
SPECIAL = tuple("math." + name for name in ("exp2", "exp", "log", "log2", "rsqrt", "sqrt", "tanh", "erf"))
TALLY = ("flops", "exp", "elements", "load", "store", "loads", "stores", "copies", "atomics")


class Builder:
    """Walks one function once; afterwards `blocks`, `sites` and the programs can be asked for."""

    def __init__(self, func: Func, by_name: dict[str, Func]) -> None:
        self.func = func
        self.by_name = by_name
        self.blocks: list[dict[str, Any]] = []
        self.sites: list[dict[str, Any]] = []
        self.defs: dict[str, tuple[str, Any, int]] = {}
        self.block_of_op: dict[int, int] = {}
        self.site_of_op: dict[int, int] = {}
        self.notes: set[str] = set()
        self._walk(func.body, self._block("body", -1), depth=0)

    def _block(self, kind: str, parent: int) -> int:
        tally: dict[str, Any] = dict.fromkeys(TALLY, 0.0)
        loops = 0 if parent < 0 else self.blocks[parent]["loops"] + (kind in ("for", "while"))
        tally.update(kind=kind, parent=parent, loops=loops, dots=[], tile=0)
        self.blocks.append(tally)
        return len(self.blocks) - 1

    def _walk(self, region: Region, block: int, depth: int) -> None:
        for op in region.ops:
            for index, name in enumerate(op.results):
                self.defs[name] = ("op", op, index)
            if op.name == "scf.for" and op.regions:
                self._loop(op, "for", op.regions[0], block, depth)
            elif op.name == "scf.while" and len(op.regions) == 2:
                before, after = op.regions
                self._carry("before", op, before.args)
                self._carry("after", op, after.args)
                inner = self._block("while", block)
                self.block_of_op[id(op)] = inner
                self._walk(before, inner, depth + 1)
                self._walk(after, inner, depth + 1)
            elif op.name == "scf.if" and op.regions:
                first, second = self._block("then", block), self._block("else", block)
                self.block_of_op[id(op)] = first  # the other arm is the next block
                self._walk(op.regions[0], first, depth)
                if len(op.regions) > 1:
                    self._walk(op.regions[1], second, depth)
            else:
                self._tally(op, block)
                if op.name == "tt.call" and depth < 24:
                    self._call(op, block, depth)
                for nested in op.regions if op.name in ("ttg.warp_specialize", "scf.execute_region") else ():
                    self._walk(nested, block, depth + 1)

    def _loop(self, op: Op, kind: str, body: Region, block: int, depth: int) -> None:
        if body.args:
            self.defs[body.args[0]] = ("iv", op, 0)
            self._carry("arg", op, body.args[1:])
        inner = self._block(kind, block)
        self.block_of_op[id(op)] = inner
        self._walk(body, inner, depth + 1)

    def _carry(self, kind: str, op: Op, names: list[str]) -> None:
        for index, name in enumerate(names):
            self.defs[name] = (kind, op, index)

    def _call(self, op: Op, block: int, depth: int) -> None:
        target = re.search(r"@([\w$.-]+)", op.text)
        callee = self.by_name.get(target.group(1)) if target else None
        if callee is not None and callee is not self.func:
            self.notes.add("a called function counts once at its call, its own bounds unknown")
            self._walk(callee.body, block, depth + 8)

    def _tally(self, op: Op, block: int) -> None:
        tally = self.blocks[block]
        name = op.name
        if name in DOTS:
            shapes = [shape for shape, _ in tensors_of(op.types) if len(shape) >= 2]
            if len(shapes) >= 2:
                left, right = shapes[0], shapes[1]
                batch = 1
                for size in left[:-2]:
                    batch *= size
                m, k, n = left[-2], left[-1], right[-1]
                tally["flops"] += 2.0 * batch * m * n * k
                tally["dots"].append([m, n, k, tensors_of(op.types)[0][1], tensors_of(op.types)[-1][1]])
            return
        if name in LOADS or name in STORES:
            self._site(op, block, "load" if name in LOADS else "store")
            return
        if "atomic" in name:
            tally["atomics"] += 1
            return
        shaped = tensor_of(op.types)
        if shaped is None:
            return
        count = 1.0
        for size in shaped[0]:
            count *= size
        if name in SPECIAL:
            tally["exp"] += count
        elif name.startswith(("arith.", "math.", "tt.reduce", "tt.scan")) and name != "arith.constant":
            if name == "tt.reduce":
                shaped_in = tensors_of(op.types)
                count = 1.0
                for size in shaped_in[0][0] if shaped_in else ():
                    count *= size
            tally["elements"] += count

    def _site(self, op: Op, block: int, kind: str) -> None:
        tensors = tensors_of(op.types)
        if not tensors:
            return  # a scalar: its bytes do not matter, its value may (`evaluate` looks it up)
        shape, element = tensors[0]
        if kind == "load" and op.name.startswith("tt.descriptor"):
            shape, element = tensors[-1]
        count = 1.0
        for size in shape:
            count *= size
        size_bytes = count * element_bytes(element)
        tally = self.blocks[block]
        tally[kind] += size_bytes
        tally[kind + "s"] += 1
        tally["copies"] += kind == "load" and "descriptor" in op.name
        if kind == "load" and len(shape) >= 2 and (not tally["tile"] or shape[0] < tally["tile"]):
            tally["tile"] = min(shape)
        self.site_of_op[id(op)] = len(self.sites)
        self.sites.append({"block": block, "kind": kind, "bytes": size_bytes, "tma": "descriptor" in op.name})
