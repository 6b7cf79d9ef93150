"""Read a kernel's TTIR (or TTGIR) text into a small tree of operations.

The printed form of MLIR puts one operation on a line and closes each region with a line that begins with
a brace; that is all this reader relies on. It knows no dialect: what an operation means is decided by
`program`. Text that is cut off or unknown gives a shorter tree, never an exception.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_RESULT = re.compile(r"^(%[^=]*?) = ")
_NAME = re.compile(r'^"?([A-Za-z_][\w.]*)"?')
_VALUE = re.compile(r"%[\w$.-]+(?:#\d+)?")
_PAIR = re.compile(r"(%[\w$.-]+) = (%[\w$.-]+(?:#\d+)?)")
_LOC_NAME = re.compile(r'loc\("([^"]+)"')
_TENSOR = re.compile(r"tensor<((?:\d+x)*)([^,>]+(?:<[^<>]*(?:<[^<>]*>)?[^<>]*>)?)")
_BITS = re.compile(r"(?:[a-z]*?)(\d+)")

MAX_LINES = 60_000
"""Longer texts are read up to here: no kernel of a few loops comes near it."""


@dataclass(slots=True)
class Op:
    """One operation: `results` and `operands` are SSA names as printed (`%x`, `%x#1`)."""

    name: str
    results: list[str]
    operands: list[str]
    text: str
    """The operation's text after its name, without its location."""
    types: str = ""
    """What stands after the last ` : `."""
    inits: list[str] = field(default_factory=list)
    """Values that a loop's carried arguments start from."""
    regions: list[Region] = field(default_factory=list)


@dataclass(slots=True)
class Region:
    """The operations of one region in order, with the names of its block arguments."""

    args: list[str] = field(default_factory=list)
    ops: list[Op] = field(default_factory=list)


@dataclass(slots=True)
class Func:
    """A function: its arguments as (SSA name, source name, type), and its body."""

    name: str
    args: list[tuple[str, str, str]]
    body: Region


def strip_loc(line: str) -> str:
    """The line without its trailing location."""
    at = line.rfind(" loc(")
    return line[:at] if at >= 0 else line


def tensor_of(text: str) -> tuple[tuple[int, ...], str] | None:
    """Shape and element type of the last tensor type in `text`, or None."""
    found = None
    for found in _TENSOR.finditer(text):  # noqa: B007
        pass
    if found is None:
        return None
    shape = tuple(int(n) for n in found.group(1).split("x") if n)
    return shape, found.group(2).strip()


def tensors_of(text: str) -> list[tuple[tuple[int, ...], str]]:
    """Shapes and element types of all tensor types in `text`, in order."""
    return [
        (tuple(int(n) for n in m.group(1).split("x") if n), m.group(2).strip())
        for m in _TENSOR.finditer(text)
    ]


def element_bytes(element: str) -> float:
    """Bytes of an element type such as `bf16`, `i1`, `f8E4M3FN` or `!tt.ptr<f32>` (what it points to)."""
    pointed = re.search(r"ptr<([^,>]+)", element)
    if pointed:
        element = pointed.group(1)
    bits = _BITS.search(element)
    if bits is None:
        return 4.0
    return max(int(bits.group(1)), 8) / 8 if int(bits.group(1)) <= 128 else 4.0


class _Names:
    """Printed names are only unique within a region: this gives each value a name of its own."""

    def __init__(self) -> None:
        self.used: dict[str, int] = {}
        self.scopes: list[dict[str, str]] = [{}]

    def define(self, name: str) -> str:
        base, mark, index = name.partition("#")
        if base not in self.scopes[-1]:
            seen = self.used.get(base, 0)
            self.used[base] = seen + 1
            self.scopes[-1][base] = base if not seen else f"{base}.{seen}'"
        return self.scopes[-1][base] + mark + index

    def use(self, name: str) -> str:
        base, mark, index = name.partition("#")
        for scope in reversed(self.scopes):
            if base in scope:
                return scope[base] + mark + index
        return name


def parse(text: str) -> list[Func]:
    """All functions of a module's text. Broken or cut-off text gives what could be read."""
    funcs: list[Func] = []
    names = _Names()
    stack: list[tuple[Op | None, Region]] = []
    for raw in text.split("\n", MAX_LINES)[:MAX_LINES]:
        line = raw.strip()
        if not line or line[0] == "#" or line.startswith("module"):
            continue
        if line.startswith("tt.func"):
            func = _func(line)
            funcs.append(func)
            names = _Names()
            for ssa, _, _ in func.args:
                names.define(ssa)
            stack = [(None, func.body)]
            continue
        if not stack:
            continue
        if line[0] == "}":
            _close(strip_loc(line), stack, names)
            continue
        if line.startswith("^"):
            head = line[line.find("(") + 1 :] if "(" in line else ""
            stack[-1][1].args.extend(map(names.define, _VALUE.findall(re.sub(r"loc\([^%]*", "", head))))
            continue
        line = strip_loc(line)
        op = _op(line)
        if op is None:
            continue
        stack[-1][1].ops.append(op)
        inner, op.inits = _header(op)
        op.operands = [names.use(name) for name in op.operands]
        op.inits = [names.use(name) for name in op.inits]
        op.results = [names.define(name) for name in op.results]
        if line_opens(line):
            names.scopes.append({})
            region = Region(args=[names.define(name) for name in inner])
            op.regions.append(region)
            stack.append((op, region))
    return funcs


def line_opens(line: str) -> bool:
    """Whether an operation's line opens a region."""
    return line.endswith(("{", "({"))


def _close(line: str, stack: list[tuple[Op | None, Region]], names: _Names) -> None:
    op, _ = stack.pop()
    if len(names.scopes) > 1:
        names.scopes.pop()
    if op is None:
        stack.clear()
        return
    if line_opens(line):  # `} else {`, `} do {`, `}, {`: the next region of the same operation
        region = Region()
        op.regions.append(region)
        stack.append((op, region))
        names.scopes.append({})
    elif " : " in line:
        op.types = line.rsplit(" : ", 1)[1]


def _func(line: str) -> Func:
    name = re.search(r"@([\w$.-]+)", line)
    inside = line[line.find("(") + 1 :]
    args: list[tuple[str, str, str]] = []
    for piece in re.split(r",\s*(?=%)", inside):
        found = re.match(r"(%[\w$.-]+)\s*:\s*(\S+?)(?:\s|,|\)|$)", piece)
        if found:
            kind = piece[found.start(2) :].split(" {", 1)[0].split(" loc(", 1)[0].strip()
            source = _LOC_NAME.search(piece)
            args.append((found.group(1), source.group(1) if source else found.group(1)[1:], kind))
    return Func(name.group(1) if name else "?", args, Region())


def _op(line: str) -> Op | None:
    results: list[str] = []
    found = _RESULT.match(line)
    if found:
        for name in found.group(1).split(","):
            name = name.strip()
            base, _, count = name.partition(":")
            if count.isdigit() and int(count) <= 4096:
                results.extend(f"{base}#{i}" for i in range(int(count)))
            else:
                results.append(base)
        line = line[found.end() :]
    head = _NAME.match(line)
    if head is None:
        return None
    text = line[head.end() :]
    types = text.rsplit(" : ", 1)[1] if " : " in text else ""
    return Op(head.group(1), results, _VALUE.findall(text), text, types)


def _header(op: Op) -> tuple[list[str], list[str]]:
    """What a loop's header defines (induction variable first, then the carried arguments), and what they
    start from."""
    if op.name not in ("scf.for", "scf.while"):
        return [], []
    pairs = _PAIR.findall(op.text.split(" -> ", 1)[0].split(" to ", 1)[-1])
    names = [name for name, _ in pairs]
    if op.name == "scf.for":
        names = op.operands[:1] + names
    return names, [start for _, start in pairs]
