"""Constant expressions that explode: a few characters whose value, or whose making, takes all memory or time.

Values are followed through literals, arithmetic and the names of module-level constants, as far as they are
known: a number stays a number, of texts and lists only the length counts. What depends on an argument is not
known and is left to the deadlines.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass

from kernel_lab.engine.judge.lint_module import Module
from kernel_lab.engine.judge.lint_rules import Report, shown

MOST_BITS = 2048
MOST_ITEMS = 65_536
"""Characters of a text, elements of a list, passes of a comprehension or a range at module level."""

_WIDTH = re.compile(r"\d{5,}")


@dataclass(frozen=True, slots=True)
class Sized:
    """A text, a list or another value of which only the length is known."""

    items: int


Value = int | float | Sized | None
Loop = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp

_EXACT: dict[type[ast.operator], Callable[[int | float, int | float], int | float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.FloorDiv: operator.floordiv,
    ast.Div: operator.truediv,
    ast.Mod: operator.mod,
}
_BITWISE: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.RShift: operator.rshift,
}


class Sizes:
    """Evaluates the constant part of a candidate, and reports what would explode in place of doing it."""

    def __init__(self, module: Module, report: Report) -> None:
        self._module = module
        self._report = report
        self._known: dict[int, Value] = {}

    def value(self, node: ast.expr) -> Value:
        if id(node) not in self._known:
            self._known[id(node)] = None  # for a constant that is defined by itself
            self._known[id(node)] = self._value(node)
        return self._known[id(node)]

    def _value(self, node: ast.expr) -> Value:
        if isinstance(node, ast.Constant):
            if isinstance(node.value, bool):
                return int(node.value)
            if isinstance(node.value, str | bytes):
                return Sized(len(node.value))
            return node.value if isinstance(node.value, int | float) else None
        if isinstance(node, ast.List | ast.Tuple | ast.Set):
            return Sized(len(node.elts))
        if isinstance(node, ast.Name):
            return self._named(node.id)
        if isinstance(node, ast.UnaryOp):
            inner = self.value(node.operand)
            return -inner if isinstance(node.op, ast.USub) and isinstance(inner, int | float) else inner
        if isinstance(node, ast.BinOp):
            return self._binary(node)
        return None

    def _named(self, name: str) -> Value:
        constant = self._module.constants.get(name)
        return None if constant is None else self.value(constant)

    def _binary(self, node: ast.BinOp) -> Value:
        left, right = self.value(node.left), self.value(node.right)
        kind = type(node.op)
        if kind is ast.Mult and isinstance(left, Sized) != isinstance(right, Sized):
            return self._repeated(node, left, right)
        if isinstance(left, Sized) and isinstance(right, Sized):
            return Sized(left.items + right.items) if kind is ast.Add else None
        if left is None or right is None or isinstance(left, Sized) or isinstance(right, Sized):
            return None
        if isinstance(left, int) and isinstance(right, int):
            if self._bits(kind, left, right) > MOST_BITS:
                self._explodes(node)
                return None
            return _whole(kind, left, right)
        try:
            if kind is ast.Pow:
                power = left**right
                return power if isinstance(power, int | float) else None
            return left * right if kind is ast.Mult else _EXACT[kind](left, right)
        except (ArithmeticError, KeyError, ValueError):
            return None

    @staticmethod
    def _bits(kind: type[ast.operator], left: int, right: int) -> float:
        """Bits of the result at most."""
        if kind is ast.Pow:
            return left.bit_length() * max(0, right) if abs(left) > 1 else 1
        if kind is ast.LShift:
            return left.bit_length() + max(0, right) if left else 0
        if kind is ast.Mult:
            return left.bit_length() + right.bit_length()
        return max(left.bit_length(), right.bit_length())

    def _repeated(self, node: ast.BinOp, left: Value, right: Value) -> Value:
        """A text or list times a number."""
        sized, times = (left, right) if isinstance(left, Sized) else (right, left)
        if not isinstance(sized, Sized) or not isinstance(times, int):
            return None
        items = sized.items * max(0, times)
        if items > MOST_ITEMS:
            self._explodes(node)
            return None
        return Sized(items)

    def _explodes(self, node: ast.AST) -> None:
        self._report.add("size", node, shown(node))

    def passes(self, node: Loop) -> None:
        """Passes of a comprehension's generators one inside the other."""
        total = 1.0
        for generator in node.generators:
            total *= self._length(generator.iter)
        if total > MOST_ITEMS:
            self._explodes(node)

    def _length(self, node: ast.expr) -> float:
        """Elements of what is walked over; 1 where that is not known."""
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "range":
            bounds = [self.value(argument) for argument in node.args]
            known = [bound for bound in bounds if isinstance(bound, int)]
            if len(known) != len(bounds) or not 1 <= len(known) <= 3:
                return 1
            start, stop, step = (0, known[0], 1) if len(known) == 1 else (*known, 1)[:3]
            return max(0.0, math.ceil((stop - start) / step)) if step else 1
        value = self.value(node)
        return float(value.items) if isinstance(value, Sized) else 1.0

    def ranges(self, node: ast.stmt) -> None:
        """At module level a range is not walked over by a loop that could stop."""
        for inner in ast.walk(node):
            if isinstance(inner, ast.Call) and self._length(inner) > MOST_ITEMS:
                self._explodes(inner)

    def widths(self, node: ast.JoinedStr | ast.BinOp) -> None:
        """A width in a format that makes a long text of a short one."""
        if isinstance(node, ast.BinOp):
            parts = [node.left] if isinstance(node.op, ast.Mod) else []
        else:
            values = [one for one in node.values if isinstance(one, ast.FormattedValue)]
            parts = [one.format_spec for one in values if one.format_spec is not None]
        for text in (inner for part in parts for inner in ast.walk(part)):
            if isinstance(text, ast.Constant) and isinstance(text.value, str) and _WIDTH.search(text.value):
                self._explodes(node)


def _whole(kind: type[ast.operator], left: int, right: int) -> Value:
    try:
        if kind is ast.Pow:
            return left**right if right >= 0 else float(left) ** right
        if kind is ast.LShift:
            return left << right
        if kind is ast.Mult:
            return left * right
        if kind in _BITWISE:
            return _BITWISE[kind](left, right)
        return _EXACT[kind](left, right) if kind in _EXACT else None
    except (ArithmeticError, ValueError):
        return None


def check_sizes(module: Module, report: Report) -> None:
    """Report every constant expression that would explode, wherever it stands."""
    sizes = Sizes(module, report)
    for node in ast.walk(module.tree):
        if isinstance(node, ast.BinOp):
            sizes.value(node)
        if isinstance(node, Loop):
            sizes.passes(node)
        if isinstance(node, ast.JoinedStr | ast.BinOp):
            sizes.widths(node)
    for statement in module.tree.body:
        if not isinstance(statement, ast.FunctionDef | ast.ClassDef):
            sizes.ranges(statement)
        elif isinstance(statement, ast.FunctionDef):
            for outside in (*statement.decorator_list, *statement.args.defaults, *statement.args.kw_defaults):
                if outside is not None:
                    sizes.ranges(ast.Expr(outside))
