"""Marks that flow through a candidate's host code, and what is known about every name of it.

    tensor     a tensor                          input    it comes from the arguments of the call
    tensors    a container with tensors in it    passed   it came in through a parameter
    fresh      it was allocated in this file     copied   it holds what an input held
    kept       a tensor that lives from call to call; `keptsize`: its shape, strides or size
    shared     a module-level container, or a part of one, or the result of a cached function
    inner      a fresh container whose items may be shared
    fact       a number that describes the device
    history    a plain value that depends on what earlier calls left behind
    kernel     a compiled function; `kernels` a container of such; `launcher` is kernel[grid]

Marks are on the safe side: a name has every mark that any of its assignments gave it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from kernel_lab.engine.candidate import ENTRY_PARAMETERS
from kernel_lab.engine.judge.lint_module import FunctionNode, Module
from kernel_lab.engine.judge.lint_names import MUTATES

Marks = frozenset[str]
NONE: Marks = frozenset()
TENSORS: Marks = frozenset({"tensor", "tensors"})
CARRIED: Marks = frozenset({"input", "passed", "copied", "fresh", "kept", "history", "fact"})


def union(marks: Iterable[Marks]) -> Marks:
    """All marks together."""
    return frozenset().union(*marks)


def contained(marks: Marks) -> Marks:
    """Marks of a container that holds a value with these marks."""
    found = set(marks & (CARRIED | {"tensors", "kernels", "inner"}))
    if "tensor" in marks:
        found.add("tensors")
    if "kernel" in marks:
        found.add("kernels")
    if "shared" in marks:
        found.add("inner")
    return frozenset(found)


def element(marks: Marks) -> Marks:
    """Marks of what comes out of a value by subscript or iteration."""
    found = set(marks & (CARRIED | {"tensor", "shared", "kernels", "inner", "keptsize"}))
    if "tensors" in marks:
        found |= {"tensor", "tensors"}
    if "kernels" in marks:
        found.add("kernel")
    if "inner" in marks:
        found.add("shared")
    return frozenset(found)


class Knowledge:
    """Marks of every name of every host function, of what functions return and of what variables hold."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.stores = _changed_names(module)
        """Module-level variables that calls change."""
        self.changed = False
        self._names: dict[tuple[int, str], set[str]] = {}
        self._results: dict[int, set[str]] = {}
        self._held: dict[str, set[str]] = {}
        self._inner: dict[int, dict[str, FunctionNode]] = {}
        entry = module.hosts.get(module.entry)
        if entry is not None:
            for name in _tensor_parameters(module.entry, entry):
                self.mark(entry, name, {"tensor", "input"})

    def mark(self, function: FunctionNode, name: str, marks: Iterable[str]) -> None:
        """Add marks to a name of a function."""
        self._grow(self._names.setdefault((id(function), name), set()), marks)

    def returns(self, function: FunctionNode, marks: Iterable[str]) -> None:
        """Add marks to a function's result."""
        self._grow(self._results.setdefault(id(function), set()), marks)

    def holds(self, variable: str, marks: Iterable[str]) -> None:
        """Add marks to what a module-level variable holds."""
        self._grow(self._held.setdefault(variable, set()), marks)

    def _grow(self, known: set[str], marks: Iterable[str]) -> None:
        before = len(known)
        known.update(marks)
        self.changed = self.changed or len(known) != before

    def owner(self, chain: tuple[FunctionNode, ...], name: str) -> FunctionNode | None:
        """The function, from the innermost outwards, that binds a name."""
        return next((one for one in chain if (id(one), name) in self._names), None)

    def of(self, function: FunctionNode, name: str) -> Marks:
        """Marks of a name that `function` binds."""
        return frozenset(self._names.get((id(function), name), ()))

    def result(self, function: FunctionNode) -> Marks:
        """Marks of what a function returns."""
        return frozenset(self._results.get(id(function), ()))

    def read(self, variable: str) -> Marks:
        """Marks of what comes out of a module-level variable that calls change."""
        held = self._held.get(variable, set())
        if held & TENSORS:
            return frozenset({"kept", *held})
        return frozenset({"fact"}) if "fact" in held else NONE

    def constant(self, name: str) -> Marks:
        """Marks of a module-level constant: containers are shared by all calls."""
        node = self.module.constants[name]
        kernels = any(isinstance(one, ast.Name) and one.id in self.module.kernels for one in ast.walk(node))
        found = {"kernels"} if kernels else set()
        if isinstance(node, ast.Dict | ast.List | ast.Set | ast.Call):
            found.add("shared")
        return frozenset(found)

    def is_container(self, name: str) -> bool:
        """Whether a module-level variable holds a container, not a single value."""
        return isinstance(self.module.constants.get(name), ast.Dict | ast.List | ast.Set | ast.Call)

    def callee(self, chain: tuple[FunctionNode, ...], name: str) -> FunctionNode | None:
        """The function of this file that a name stands for."""
        for function in chain:
            if id(function) not in self._inner:
                self._inner[id(function)] = _inner_functions(function)
            if name in self._inner[id(function)]:
                return self._inner[id(function)][name]
        return None if self.owner(chain, name) is not None else self.module.hosts.get(name)


def _inner_functions(function: FunctionNode) -> dict[str, FunctionNode]:
    found: dict[str, FunctionNode] = {}
    for node in ast.walk(function):
        if node is function:
            continue
        if isinstance(node, ast.FunctionDef):
            found[node.name] = node
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Lambda):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    found[target.id] = node.value
    return found


def _changed_names(module: Module) -> frozenset[str]:
    changed: set[str] = set()
    for function in module.hosts.values():
        for node in ast.walk(function):
            if isinstance(node, ast.Global):
                changed.update(node.names)
            elif isinstance(node, ast.Subscript):
                if isinstance(node.ctx, ast.Store | ast.Del) and isinstance(node.value, ast.Name):
                    changed.add(node.value.id)
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                method, value = node.func.attr, node.func.value
                if method in MUTATES and isinstance(value, ast.Name):
                    changed.add(value.id)
    return frozenset(changed & set(module.constants))


def _tensor_parameters(entry: str, function: ast.FunctionDef) -> list[str]:
    if entry in ENTRY_PARAMETERS:
        return list(ENTRY_PARAMETERS[entry][0])
    plain = ("int", "float", "bool", "str")
    return [
        one.arg
        for one in (*function.args.posonlyargs, *function.args.args)
        if not (isinstance(one.annotation, ast.Name) and one.annotation.id in plain)
    ]
