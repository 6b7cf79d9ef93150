"""Whether every way through the entry function launches a kernel."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from kernel_lab.engine.judge.lint_module import Module
from kernel_lab.engine.judge.lint_rules import Report, shown


def check_paths(module: Module, report: Report) -> None:
    """Report an entry that never launches, and returns that no launch precedes."""
    entry = module.hosts.get(module.entry)
    if entry is None:
        return
    paths = _Paths(module)
    if not paths.may_launch(entry, frozenset()):
        report.add("no_kernel", entry, f"{module.entry} launches nothing")
        return
    for node in paths.bare_returns(entry):
        report.add("skipped_work", node, shown(node))


class _Paths:
    def __init__(self, module: Module) -> None:
        self.module = module
        self._always: dict[str, bool] = {}
        self._sizes = _Sizes(module.hosts[module.entry], entry=True)

    def may_launch(self, function: ast.AST, seen: frozenset[str]) -> bool:
        """Whether a launch stands anywhere in a function or in what it calls."""
        for node in ast.walk(function):
            if isinstance(node, ast.Call):
                if self._is_launch(node):
                    return True
                name = node.func.id if isinstance(node.func, ast.Name) else ""
                target = self.module.hosts.get(name)
                if target is not None and name not in seen and self.may_launch(target, seen | {name}):
                    return True
        return False

    def bare_returns(self, function: ast.FunctionDef) -> list[ast.AST]:
        """Returns, or the end of the function, that are reached without a launch; empty inputs excepted."""
        found: list[ast.AST] = []
        self._sizes = _Sizes(function, entry=function.name == self.module.entry)
        ended, launched = self._block(function.body, False, False, found)
        if not ended and not launched:
            found.append(function)
        return found

    def _block(
        self, nodes: Sequence[ast.stmt], launched: bool, empty: bool, found: list[ast.AST]
    ) -> tuple[bool, bool]:
        """Walk statements; answer whether the block always ends the function, and whether it launched."""
        for node in nodes:
            if isinstance(node, ast.Return):
                if node.value is not None and self._launches(node.value):
                    launched = True
                if not launched and not empty:
                    found.append(node)
                return True, launched
            if isinstance(node, ast.Raise):
                return True, launched
            if isinstance(node, ast.If):
                ended, launched = self._if(node, launched, empty, found)
                if ended:
                    return True, launched
            elif isinstance(node, ast.For | ast.While | ast.With | ast.Try):
                ended, inner = self._block(node.body, launched, empty, found)
                launched = inner or launched
                if ended and isinstance(node, ast.With):
                    return True, launched
            elif not isinstance(node, ast.FunctionDef) and self._launches(node):
                launched = True
        return False, launched

    def _if(self, node: ast.If, launched: bool, empty: bool, found: list[ast.AST]) -> tuple[bool, bool]:
        on_empty = self._sizes.empty(node.test)
        body_ended, body_launched = self._block(node.body, launched, empty or on_empty, found)
        else_ended, else_launched = self._block(node.orelse, launched, empty, found)
        if body_ended and else_ended:
            return True, body_launched and else_launched
        if body_ended:
            return False, else_launched
        if else_ended:
            return False, body_launched
        return False, (body_launched or on_empty) and else_launched

    def _launches(self, node: ast.AST) -> bool:
        for inner in ast.walk(node):
            if isinstance(inner, ast.Call):
                if self._is_launch(inner):
                    return True
                if isinstance(inner.func, ast.Name) and self.always_launches(inner.func.id):
                    return True
        return False

    def always_launches(self, name: str) -> bool:
        """Whether a host function launches on every path (a call of itself counts as none)."""
        if name not in self.module.hosts:
            return False
        if name not in self._always:
            self._always[name] = False
            outer = self._sizes
            self._always[name] = not self.bare_returns(self.module.hosts[name])
            self._sizes = outer
        return self._always[name]

    def _is_launch(self, node: ast.Call) -> bool:
        """`kernel[grid](...)`, also through a local name or a table of kernels."""
        function = node.func
        if not isinstance(function, ast.Subscript):
            return False
        base = function.value
        if isinstance(base, ast.IfExp):
            return True
        while isinstance(base, ast.Subscript):
            base = base.value
        if not isinstance(base, ast.Name):
            return False
        constant = self.module.constants.get(base.id)
        if constant is not None:
            names = {inner.id for inner in ast.walk(constant) if isinstance(inner, ast.Name)}
            return bool(names & set(self.module.kernels)) and function.value is not base
        return base.id not in self.module.hosts


class _Sizes:
    """Recognises conditions that ask for an empty input.

    A size is a dimension, a count of elements, or a product or minimum of sizes, by itself or through a name
    that nothing else is assigned to. Differences and remainders are none: `B % 8 == 0` or `Sk - 8192 == 0`
    ask for one shape among many.
    """

    def __init__(self, function: ast.FunctionDef, *, entry: bool) -> None:
        self.known: set[str] = set()
        self.assigned: dict[str, list[ast.expr]] = {}
        if not entry:
            arguments = function.args
            self.known.update(
                one.arg for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
            )
        for node in ast.walk(function):
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    self._assign(target, node.value)
            elif isinstance(node, ast.For | ast.AugAssign | ast.AnnAssign | ast.NamedExpr):
                self._assign(node.target, ast.Constant(None))

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Name):
            self.assigned.setdefault(target.id, []).append(value)
        elif isinstance(target, ast.Tuple | ast.List):
            pairs = isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts)
            for index, inner in enumerate(target.elts):
                self._assign(inner, value.elts[index] if pairs and isinstance(value, ast.Tuple) else value)

    def empty(self, node: ast.expr) -> bool:
        """Whether a condition holds for empty inputs only: `Sk == 0`, `not n`, `0 in q.shape`."""
        if isinstance(node, ast.BoolOp):
            ask = any if isinstance(node.op, ast.And) else all
            return ask(self.empty(one) for one in node.values)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return self.size(node.operand)
        if not isinstance(node, ast.Compare) or len(node.ops) != 1:
            return False
        left, op, right = node.left, node.ops[0], node.comparators[0]
        if _is_number(left, 0) and isinstance(op, ast.In | ast.Eq | ast.GtE):
            return self.size(right)
        if _is_number(left, 1) and isinstance(op, ast.Gt):
            return self.size(right)
        if _is_number(right, 0) and isinstance(op, ast.Eq | ast.LtE):
            return self.size(left)
        return _is_number(right, 1) and isinstance(op, ast.Lt) and self.size(left)

    def size(self, node: ast.expr, depth: int = 0) -> bool:
        if depth > 8:
            return False
        if isinstance(node, ast.Name):
            values = self.assigned.get(node.id, [])
            return (node.id in self.known or bool(values)) and all(
                self.size(one, depth + 1) for one in values
            )
        if isinstance(node, ast.Attribute):
            return node.attr == "shape"
        if isinstance(node, ast.Subscript):
            return self.size(node.value, depth + 1)
        if isinstance(node, ast.BinOp):
            both = self.size(node.left, depth + 1) and self.size(node.right, depth + 1)
            return isinstance(node.op, ast.Mult) and both
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Attribute):
                return node.func.attr in ("numel", "size", "nelement")
            if isinstance(node.func, ast.Name) and node.func.id == "min":
                return all(self.size(one, depth + 1) for one in node.args)
        return False


def _is_number(node: ast.expr, value: int) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int and node.value == value
