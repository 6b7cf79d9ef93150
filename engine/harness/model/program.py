"""Turn a parsed kernel into what the estimate needs: blocks of work, and programs that count them.

A *block* is a piece of code without control flow of its own: the kernel's body, a loop's body, an arm of
an `if`. Each carries a tally of the work that one pass costs one CTA. A *program* is the part of the
kernel's integer arithmetic that decides how often each block runs (`control`) and where its tiles lie in
memory (`address`); `evaluate` runs it for chosen program ids. All of it is plain lists and dicts, so that
it goes to disk as JSON.
"""

from __future__ import annotations

import re
from typing import Any

from .ttir import Func, Op, Region, element_bytes, tensor_of, tensors_of

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
DOTS = ("tt.dot", "tt.dot_scaled", "ttng.warp_group_dot", "ttng.tc_gen5_mma", "ttng.tc_gen5_mma_scaled")
LOADS = ("tt.load", "tt.descriptor_load", "tt.descriptor_gather", "ttg.async_copy_global_to_local")
STORES = ("tt.store", "tt.descriptor_store", "tt.descriptor_reduce", "tt.descriptor_scatter")
SPECIAL = tuple("math." + name for name in ("exp2", "exp", "log", "log2", "rsqrt", "sqrt", "tanh", "erf"))
TALLY = ("flops", "exp", "elements", "load", "store", "loads", "stores", "atomics")


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
        if kind == "load" and len(shape) >= 2 and (not tally["tile"] or shape[0] < tally["tile"]):
            tally["tile"] = min(shape)
        self.site_of_op[id(op)] = len(self.sites)
        self.sites.append({"block": block, "kind": kind, "bytes": size_bytes, "tma": "descriptor" in op.name})


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
