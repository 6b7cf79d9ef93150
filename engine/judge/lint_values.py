"""Marks of expressions in host code, and the findings that they lead to."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from kernel_lab.engine.judge.lint_marks import (
    CARRIED,
    NONE,
    TENSORS,
    Knowledge,
    Marks,
    contained,
    element,
    union,
)
from kernel_lab.engine.judge.lint_module import FunctionNode
from kernel_lab.engine.judge.lint_names import (
    METADATA,
    VIEW_LISTS,
    attribute_rule,
)
from kernel_lab.engine.judge.lint_rules import Report, shown


class Values:
    """Evaluates expressions of one function, seen with the functions around it (`chain`, innermost first)."""

    def __init__(self, known: Knowledge, report: Report, chain: tuple[FunctionNode, ...]) -> None:
        self.known = known
        self.module = known.module
        self.report = report
        self.chain = chain
        self.node = chain[0]
        self.globals = {
            name for inner in ast.walk(self.node) if isinstance(inner, ast.Global) for name in inner.names
        }
        self.cached = False
        self.alone: ast.expr | None = None
        """The expression that is a statement of its own."""
        self.found: dict[int, Marks] = {}
        """Marks of the expressions of the present statement."""

    def inner(self, node: FunctionNode) -> None:
        """Evaluate a function inside this one."""
        raise NotImplementedError

    def assign(self, target: ast.expr, marks: Marks, value: ast.expr) -> None:
        """Bind a target."""
        raise NotImplementedError

    def store(self, name: str, node: ast.expr, marks: Marks, value: ast.expr, *, again: bool) -> None:
        """Put a value into a module-level variable."""
        raise NotImplementedError

    # ---- expressions

    def value(self, node: ast.expr) -> Marks:
        """Marks of an expression, found once a statement: chains and nested tuples ask again and again."""
        if id(node) not in self.found:
            handler = getattr(self, f"_{type(node).__name__.lower()}", None)
            self.found[id(node)] = handler(node) if handler is not None else NONE
        return self.found[id(node)]

    def test(self, node: ast.expr) -> Marks:
        """A condition: a tensor in it would make the host wait. Sizes of kept memory are history here."""
        marks = self.value(node)
        if "tensor" in marks:
            self.report.add("host_sync", node, f"the condition {shown(node)} reads a tensor")
        return marks | {"history"} if "keptsize" in marks else marks

    def store_name(self, node: ast.expr) -> str | None:
        """The module-level container that calls change and that `node` names, or None."""
        if not isinstance(node, ast.Name) or node.id not in self.known.stores:
            return None
        if self.known.owner(self.chain, node.id) is not None and node.id not in self.globals:
            return None
        return node.id if self.known.is_container(node.id) else None

    def key(self, node: ast.AST, marks: Marks) -> None:
        """A tensor as a key is told apart by identity."""
        if marks & TENSORS:
            self.report.add("pointer_key", node, f"{shown(node)} as a key")

    def _name(self, node: ast.Name) -> Marks:
        name = node.id
        if self.store_name(node) is not None:
            self.report.add("state", node, f"{name} as a value: it changes from call to call")
            return frozenset({"shared"})
        owner = self.known.owner(self.chain, name)
        if owner is not None and name not in self.globals:
            return self.known.of(owner, name)
        if name in self.module.kernels:
            return frozenset({"kernel"})
        if name in self.known.stores:
            return self.known.read(name)
        return self.known.constant(name) if name in self.module.constants else NONE

    def _attribute(self, node: ast.Attribute) -> Marks:
        if self.module.path(node) is not None or self.store_name(node.value) is not None:
            return NONE
        marks = self.value(node.value)
        if "tensor" not in marks:
            return marks & {"fact", "history", "shared", "kernels", "keptsize"}
        rule = attribute_rule(node.attr, tensor=True)
        if rule is not None and node.attr != "data_ptr":  # the other walk knows `data_ptr() % 16`
            self.report.add(rule, node, shown(node))
        if node.attr in METADATA or rule in ("mode", "device_branch"):
            return frozenset({"keptsize"}) if "kept" in marks else NONE
        return contained(marks) if node.attr in VIEW_LISTS else marks

    def _subscript(self, node: ast.Subscript) -> Marks:
        store = self.store_name(node.value)
        index = self.value(node.slice)
        if store is not None:
            self.key(node.slice, index)
            return self.known.read(store)
        marks = self.value(node.value)
        if "kernel" in marks:
            if "history" in index:
                self.report.add("state", node, f"the grid {shown(node.slice)} depends on earlier calls")
            return frozenset({"launcher"})
        if "tensor" in marks and index & TENSORS:
            self.report.add("torch_compute", node, f"{shown(node)} gathers by a tensor")
        if "tensor" not in marks:
            self.key(node, index)
        return element(marks) | (index & {"history"})

    def _binop(self, node: ast.BinOp) -> Marks:
        return self.operated(node, [self.value(node.left), self.value(node.right)])

    def _unaryop(self, node: ast.UnaryOp) -> Marks:
        if isinstance(node.op, ast.Not):
            return self.test(node.operand) & {"history"}
        return self.operated(node, [self.value(node.operand)])

    def operated(self, node: ast.AST, operands: Sequence[Marks]) -> Marks:
        """Arithmetic: fine on numbers and containers, torch's work on tensors."""
        marks = union(operands)
        if "tensor" in marks:
            self.report.add("torch_compute", node, f"{shown(node)} is arithmetic on a tensor")
        return marks & (CARRIED | TENSORS | {"keptsize", "inner"})

    def _boolop(self, node: ast.BoolOp) -> Marks:
        return union(self.test(one) for one in node.values[:-1]) | self.value(node.values[-1])

    def _ifexp(self, node: ast.IfExp) -> Marks:
        if "history" in self.test(node.test):
            self.report.add("state", node, f"{shown(node)} depends on what an earlier call left behind")
        return self.value(node.body) | self.value(node.orelse)

    def _compare(self, node: ast.Compare) -> Marks:
        parts = [node.left, *node.comparators]
        asks_store = any(self.store_name(one) is not None for one in parts[1:])
        operands = [NONE if self.store_name(one) is not None else self.value(one) for one in parts]
        marks = union(operands)
        depends = asks_store or bool(marks & {"kept", "keptsize", "history"})
        if all(isinstance(op, ast.Is | ast.IsNot) for op in node.ops):
            if sum(bool(one & TENSORS) for one in operands) > 1:
                self.report.add("pointer_key", node, f"{shown(node)} compares identities")
            depends = depends or "fact" in marks
        elif all(isinstance(op, ast.In | ast.NotIn) for op in node.ops):
            self.key(node, operands[0])
        elif "tensor" in marks:
            self.report.add("torch_compute", node, f"{shown(node)} compares tensors")
        return frozenset({"history"}) if depends else NONE

    def _display(self, node: ast.Tuple | ast.List | ast.Set) -> Marks:
        return contained(union(self.value(one) for one in node.elts))

    _tuple = _list = _set = _display

    def _dict(self, node: ast.Dict) -> Marks:
        self.key(node, union(self.value(one) for one in node.keys if one is not None))
        items = [self.value(one) for key, one in zip(node.keys, node.values, strict=True) if key is not None]
        spread = [self.value(one) for key, one in zip(node.keys, node.values, strict=True) if key is None]
        return contained(union(items)) | contained(element(union(spread)))

    def _starred(self, node: ast.Starred) -> Marks:
        return element(self.value(node.value))

    def _namedexpr(self, node: ast.NamedExpr) -> Marks:
        marks = self.value(node.value)
        self.known.mark(self.node, node.target.id, marks)
        return marks

    def _lambda(self, node: ast.Lambda) -> Marks:
        self.inner(node)
        return NONE

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp) -> Marks:
        self._generators(node.generators)
        return contained(self.value(node.elt))

    _listcomp = _setcomp = _generatorexp = _comprehension

    def _dictcomp(self, node: ast.DictComp) -> Marks:
        self._generators(node.generators)
        self.key(node, self.value(node.key))
        return contained(self.value(node.value))

    def _generators(self, generators: Sequence[ast.comprehension]) -> None:
        for generator in generators:
            self.assign(generator.target, element(self.value(generator.iter)), generator.iter)
            for test in generator.ifs:
                self.test(test)

    def _slice(self, node: ast.Slice) -> Marks:
        marks = union(self.value(one) for one in (node.lower, node.upper, node.step) if one is not None)
        if "tensor" in marks:
            self.report.add("host_sync", node, f"the slice {shown(node)} reads a tensor")
        return marks & {"history"}

    def _joinedstr(self, node: ast.JoinedStr) -> Marks:
        texts = [one for one in node.values if isinstance(one, ast.FormattedValue)]
        if any(self.value(one.value) & TENSORS for one in texts):
            self.report.add("host_sync", node, f"{shown(node)} reads a tensor")
        return NONE
