"""The integer arithmetic that decides how often blocks run and where tiles lie in memory.

A *program* is that part of a kernel, as nested lists over numbered slots: `control` counts blocks, `address`
also follows the pointers of tiles. `evaluate` runs them for chosen program ids. All of it is plain lists and
dicts, so that it goes to disk as JSON.
"""

from __future__ import annotations

import re
from typing import Any

from .blocks import Builder
from .ttir import Func, Op, Region, element_bytes, tensors_of

LOOPS = ("scf.for", "scf.while")
_PURE_NAMES = (
    "arith.addi arith.subi arith.muli arith.divsi arith.divui arith.remsi arith.remui arith.ceildivsi "
    "arith.ceildivui arith.floordivsi arith.minsi arith.minui arith.maxsi arith.maxui arith.andi arith.ori "
    "arith.xori arith.shli arith.shrsi arith.shrui arith.cmpi arith.select arith.extsi arith.extui "
    "arith.trunci arith.index_cast arith.bitcast arith.sitofp arith.uitofp arith.fptosi arith.fptoui "
    "arith.addf arith.subf arith.mulf arith.divf arith.cmpf arith.maxnumf arith.minnumf math.ceil math.floor "
    "math.absi arith.constant tt.get_program_id tt.get_num_programs tt.make_range tt.splat tt.unsplat "
    "tt.expand_dims tt.broadcast tt.reshape tt.trans tt.addptr tt.bitcast tt.load ttg.convert_layout "
    "tt.make_tensor_descriptor tt.descriptor_load tt.descriptor_store tt.make_tensor_ptr tt.advance "
    "llvm.intr.assume"
)
PURE = frozenset(_PURE_NAMES.split())


class Slice:
    """The operations that a set of values depends on, through loops and branches."""

    def __init__(self, builder: Builder, roots: list[str]) -> None:
        self.builder = builder
        self.values: set[str] = set()
        self.axes: set[int] = set()
        work = list(roots)
        while work:
            name = work.pop()
            if name in self.values:
                continue
            self.values.add(name)
            work.extend(self._needs(name))

    def _needs(self, name: str) -> list[str]:
        found = self.builder.defs.get(name)
        if found is None:
            return []
        kind, index = found[0], found[2]
        op: Op = found[1]
        if kind == "iv":
            return op.operands[1:4]
        if kind == "arg":
            return _at(op.inits, index) + _at(yields_of(op.regions[0]), index)
        if kind == "before":
            return _at(op.inits, index) + _at(yields_of(op.regions[1]), index)
        if kind == "after":
            return _at(forwards_of(op), index)
        if op.name == "scf.for" and op.regions:
            return _at(op.inits, index) + _at(yields_of(op.regions[0]), index)
        if op.name == "scf.while":
            return _at(forwards_of(op), index)
        if op.name == "scf.if":
            return op.operands[:1] + [v for region in op.regions for v in _at(yields_of(region), index)]
        if op.name == "tt.get_program_id":
            self.axes.add(axis_of(op))
        return op.operands if op.name in PURE else []


def axis_of(op: Op) -> int:
    """The grid axis of a program-id operation."""
    return {"x": 0, "y": 1, "z": 2}.get(op.text.split(":")[0].strip()[:1], 0)


def _at(names: list[str], index: int) -> list[str]:
    return names[index : index + 1]


def yields_of(region: Region) -> list[str]:
    """What the region hands on at its end."""
    for op in reversed(region.ops):
        if op.name == "scf.yield":
            return op.operands
    return []


def forwards_of(op: Op) -> list[str]:
    """What a while loop's condition hands to its body and its results."""
    for inner in reversed(op.regions[0].ops):
        if inner.name == "scf.condition":
            return inner.operands[1:]
    return []


def condition_of(op: Op) -> list[str]:
    """The while loop's condition value."""
    for inner in reversed(op.regions[0].ops):
        if inner.name == "scf.condition":
            return inner.operands[:1]
    return []


class Emitter:
    """Writes the program of a slice: nested lists that `evaluate` runs over numbered slots."""

    def __init__(self, builder: Builder, roots: list[str], sites: frozenset[int]) -> None:
        self.builder = builder
        self.slice = Slice(builder, roots)
        self.sites = sites
        self.slots: dict[str, int] = {}
        self.params = [[self._slot(ssa), source] for ssa, source, _ in builder.func.args]
        self.nodes = self._region(builder.func.body)

    def program(self) -> dict[str, Any]:
        return {
            "params": self.params,
            "slots": len(self.slots),
            "nodes": self.nodes,
            "axes": sorted(self.slice.axes),
        }

    def _slot(self, name: str) -> int:
        return self.slots.setdefault(name, len(self.slots))

    def _slots_of(self, names: list[str]) -> list[int]:
        return [self._slot(n) for n in names]

    def _region(self, region: Region) -> list[Any]:
        nodes: list[Any] = []
        for op in region.ops:
            if op.name == "scf.for" and op.regions and len(op.operands) >= 4:
                nodes.append(self._for(op))
            elif op.name == "scf.while" and len(op.regions) == 2:
                nodes.append(self._while(op))
            elif op.name == "scf.if" and op.regions:
                nodes.append(self._if(op))
            else:
                site = self.builder.site_of_op.get(id(op))
                wanted = any(name in self.slice.values for name in op.results)
                if site is not None and site in self.sites and op.operands:
                    nodes.append(["site", site, self._slots_of(_site_operands(op))])
                if wanted and op.results:
                    code = op.name if op.name in PURE else "?"
                    ins = self._slots_of(op.operands) if code != "?" else []
                    nodes.append([code, self._slot(op.results[0]), ins, _attribute(op)])
        return nodes

    def _pairs(self, targets: list[str], sources: list[str]) -> list[list[int]]:
        """(target, source) slots of the carried values that matter."""
        return [
            [self._slot(t), self._slot(s)]
            for t, s in zip(targets, sources, strict=False)
            if t in self.slice.values
        ]

    def _for(self, op: Op) -> list[Any]:
        body = op.regions[0]
        iv, carried = (body.args[0], body.args[1:]) if body.args else (op.operands[0], [])
        inner = self._region(body)
        init = self._pairs(carried, op.inits)
        step = self._pairs(carried, yields_of(body))
        out = self._pairs(op.results, carried)
        bounds = self._slots_of(op.operands[1:4])
        varies = _reads_any(inner, {self._slot(iv), *(t for t, _ in init)})
        return [
            "for",
            self.builder.block_of_op[id(op)],
            bounds,
            self._slot(iv),
            init,
            step,
            out,
            inner,
            varies,
        ]

    def _while(self, op: Op) -> list[Any]:
        before, after = op.regions
        init = self._pairs(before.args, op.inits)
        test = self._region(before)
        condition = self._slots_of(condition_of(op))
        forward = self._pairs(after.args, forwards_of(op))
        body = self._region(after)
        step = self._pairs(before.args, yields_of(after))
        out = self._pairs(op.results, forwards_of(op))
        return ["while", self.builder.block_of_op[id(op)], init, test, condition, forward, body, step, out]

    def _if(self, op: Op) -> list[Any]:
        block = self.builder.block_of_op[id(op)]
        arms = [self._region(region) for region in op.regions[:2]]
        yields = [self._pairs(op.results, yields_of(region)) for region in op.regions[:2]]
        while len(arms) < 2:
            arms.append([])
            yields.append([])
        return ["if", block, self._slots_of(op.operands[:1]), arms[0], arms[1], yields[0], yields[1]]


def _site_operands(op: Op) -> list[str]:
    names = op.operands
    if op.name in ("tt.descriptor_store",):
        return [names[0], *names[1:-1]]
    if op.name == "tt.store":
        return [names[0], *names[2:3]]
    if op.name == "tt.load":
        return names[:2]
    return names


def _attribute(op: Op) -> Any:
    """The constant part of an operation: a value, a predicate, a range, an axis, a size."""
    if op.name == "arith.constant":
        body = op.text.strip()
        found = re.match(r"(?:dense<)?(true|false|-?\d+(?:\.\d+(?:[eE][+-]?\d+)?)?)(?![\dxX])", body)
        if found is None:
            return None
        word = found.group(1)
        if word in ("true", "false"):
            return int(word == "true")
        return float(word) if "." in word else int(word)
    if op.name in ("arith.cmpi", "arith.cmpf"):
        return op.text.strip().split(",", 1)[0]
    if op.name == "tt.make_range":
        return [int(n) for n in re.findall(r"(?:end|start) = (-?\d+)", op.text)][::-1]
    if op.name in ("tt.get_program_id", "tt.get_num_programs"):
        return axis_of(op)
    if op.name in ("tt.addptr", "tt.load", "tt.make_tensor_descriptor", "tt.descriptor_load"):
        pointed = tensors_of(op.types)
        return element_bytes(pointed[0][1] if pointed else op.types)
    return None


def _reads_any(nodes: list[Any], slots: set[int]) -> bool:
    """Whether control inside `nodes` depends on one of `slots`; a site is none."""
    tainted = set(slots)
    hit = False
    for node in nodes:
        kind = node[0]
        if kind == "for":
            hit |= bool(tainted & set(node[2])) or _reads_any(node[7], tainted | {t for t, _ in node[4]})
        elif kind == "while":
            hit = True
        elif kind == "if":
            hit |= (
                bool(tainted & set(node[2])) or _reads_any(node[3], tainted) or _reads_any(node[4], tainted)
            )
            tainted |= {t for t, _ in node[5] + node[6]}
        elif kind == "site":
            continue
        elif tainted & set(node[2]):
            tainted.add(node[1])
    return hit


def control_roots(builder: Builder, region: Region) -> list[str]:
    """Values that decide how often anything runs."""
    roots: list[str] = []
    for op in region.ops:
        if op.name == "scf.for":
            roots.extend(op.operands[1:4])
        elif op.name == "scf.while":
            roots.extend(condition_of(op) if len(op.regions) == 2 else [])
        elif op.name == "scf.if":
            roots.extend(op.operands[:1])
        for inner in op.regions:
            if op.name in (*LOOPS, "scf.if"):
                roots.extend(control_roots(builder, inner))
    return roots


def site_roots(builder: Builder, region: Region, wanted: frozenset[int]) -> list[str]:
    """Pointers, masks and coordinates of the wanted memory sites."""
    roots: list[str] = []
    for op in region.ops:
        if builder.site_of_op.get(id(op)) in wanted:
            roots.extend(_site_operands(op))
        for inner in op.regions:
            roots.extend(site_roots(builder, inner, wanted))
    return roots


def build(funcs: list[Func]) -> dict[str, Any]:
    """Blocks, sites, and the control and address programs of a module's kernel, JSON-able."""
    if not funcs:
        return {
            "blocks": [],
            "sites": [],
            "control": None,
            "address": None,
            "notes": ["no function in the text"],
        }
    by_name = {f.name: f for f in funcs}
    kernel = funcs[0]
    builder = Builder(kernel, by_name)
    roots = control_roots(builder, kernel.body)
    looped = {
        i for i, s in enumerate(builder.sites) if s["kind"] == "load" and builder.blocks[s["block"]]["loops"]
    }
    chosen = frozenset(looped or {i for i, s in enumerate(builder.sites) if s["kind"] == "load"})
    control = Emitter(builder, roots, frozenset()).program()
    address = Emitter(builder, roots + site_roots(builder, kernel.body, chosen), chosen).program()
    return {
        "blocks": builder.blocks,
        "sites": builder.sites,
        "control": control,
        "address": address,
        "notes": sorted(builder.notes),
    }
