"""Statements of host code: where tensors and kept memory go, and what may depend on earlier calls."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from kernel_lab.engine.judge.lint_calls import Calls
from kernel_lab.engine.judge.lint_marks import NONE, TENSORS, Knowledge, Marks, contained, element
from kernel_lab.engine.judge.lint_module import FunctionNode, Module
from kernel_lab.engine.judge.lint_rules import Report, shown

MAX_ROUNDS = 30
"""Marks only grow, and files are small: a few rounds are enough."""


def check_flow(module: Module, report: Report) -> None:
    """Go over the host code until the marks are stable, then once more to report."""
    known = Knowledge(module)
    for _ in range(MAX_ROUNDS):
        known.changed = False
        _walk(known, Report())
        if not known.changed:
            break
    _walk(known, report)
    if module.entry in module.cached:
        report.add("state", module.hosts[module.entry], f"{module.entry} answers from a cache")


def _walk(known: Knowledge, report: Report) -> None:
    for function in known.module.hosts.values():
        Statements(known, report, (function,)).run()


class Statements(Calls):
    """Walks through one function."""

    def __init__(self, known: Knowledge, report: Report, chain: tuple[FunctionNode, ...]) -> None:
        super().__init__(known, report, chain)
        name = self.node.name if isinstance(self.node, ast.FunctionDef) and len(chain) == 1 else ""
        self.entry = name == self.module.entry
        self.cached = name in self.module.cached
        self.guarded = False
        """Whether we stand under a condition on what earlier calls left behind."""

    def run(self) -> None:
        """Evaluate the body."""
        if isinstance(self.node, ast.Lambda):
            self.known.returns(self.node, self.value(self.node.body))
        else:
            self.body(self.node.body)

    def inner(self, node: FunctionNode) -> None:
        Statements(self.known, self.report, (node, *self.chain)).run()

    def body(self, nodes: Sequence[ast.stmt]) -> None:
        """Evaluate statements in order."""
        for node in nodes:
            if self.guarded and not self._makes_scratch(node):
                self.report.add("state", node, f"{shown(node)} depends on what an earlier call left behind")
            self.statement(node)

    def statement(self, node: ast.stmt) -> None:
        """Evaluate one statement."""
        self.found.clear()
        if isinstance(node, ast.Assign):
            marks = self.value(node.value)
            for target in node.targets:
                self.assign(target, marks, node.value)
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            self.assign(node.target, self.value(node.value), node.value)
        elif isinstance(node, ast.AugAssign):
            self._augmented(node)
        elif isinstance(node, ast.Return):
            self._return(node)
        elif isinstance(node, ast.If | ast.While):
            self._branch(node)
        elif isinstance(node, ast.For):
            self.assign(node.target, element(self.value(node.iter)), node.iter)
            self.body([*node.body, *node.orelse])
        elif isinstance(node, ast.With):
            for item in node.items:
                self.value(item.context_expr)
            self.body(node.body)
        elif isinstance(node, ast.Assert):
            self.test(node.test)
        elif isinstance(node, ast.Expr):
            self.alone = node.value
            self.value(node.value)
            self.alone = None
        elif isinstance(node, ast.FunctionDef):
            self.inner(node)
        elif isinstance(node, ast.Try):
            self.body([*node.body, *(one for handler in node.handlers for one in handler.body)])
            self.body([*node.orelse, *node.finalbody])

    def _branch(self, node: ast.If | ast.While) -> None:
        history = "history" in self.test(node.test)
        if history and isinstance(node, ast.While):
            self.report.add("state", node, f"while {shown(node.test)} depends on earlier calls")
        outer = self.guarded
        self.guarded = outer or history
        self.body([*node.body, *node.orelse])
        self.guarded = outer

    def _makes_scratch(self, node: ast.stmt) -> bool:
        """What may depend on earlier calls: making scratch, putting it away, taking it out."""
        if isinstance(node, ast.Return):
            marks = self.value(node.value) if node.value is not None else NONE
            return not self.entry and bool(marks & (TENSORS | {"fact"}))
        if isinstance(node, ast.Expr):
            call = node.value
            return (
                isinstance(call, ast.Call)
                and isinstance(call.func, ast.Attribute)
                and call.func.attr == "setdefault"
            )
        return isinstance(node, ast.Assign | ast.AnnAssign | ast.If | ast.Pass | ast.Global)

    def _return(self, node: ast.Return) -> None:
        marks = self.value(node.value) if node.value is not None else NONE
        if self.entry and (("kept" in marks and marks & TENSORS) or "shared" in marks):
            self.report.add("state", node, f"{shown(node)}: the result lives from call to call")
        if self.entry and "tensor" in marks and "input" in marks and "fresh" not in marks:
            self.report.add("inputs", node, f"{shown(node)}: the result is an input or a view of one")
        if self.cached:
            if marks & {"input", "passed"}:
                self.report.add("state", node, f"{shown(node)}: a cached function keeps a tensor of the call")
            if marks & TENSORS:
                marks |= {"kept"}
            elif "fact" not in marks:
                marks |= {"shared"}
        self.known.returns(self.node, marks)

    # ---- assignment

    def assign(self, target: ast.expr, marks: Marks, value: ast.expr) -> None:
        if isinstance(target, ast.Name):
            self._assign_name(target, marks, value)
        elif isinstance(target, ast.Tuple | ast.List):
            pairs = isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts)
            starred = any(isinstance(one, ast.Starred) for one in target.elts)
            for index, inner in enumerate(target.elts):
                if pairs and not starred and isinstance(value, ast.Tuple | ast.List):
                    self.assign(inner, self.value(value.elts[index]), value.elts[index])
                else:
                    self.assign(inner, element(marks), value)
        elif isinstance(target, ast.Starred):
            self.assign(target.value, contained(marks), value)
        elif isinstance(target, ast.Subscript):
            self._assign_item(target, marks, value)

    def _assign_name(self, target: ast.Name, marks: Marks, value: ast.expr) -> None:
        if target.id in self.globals:
            self.store(target.id, target, marks, value, again=False)
            return
        if self.guarded and not marks & (TENSORS | {"fact"}):
            marks |= {"history"}
        self.known.mark(self.node, target.id, marks)

    def _assign_item(self, target: ast.Subscript, marks: Marks, value: ast.expr) -> None:
        store = self.store_name(target.value)
        index = self.value(target.slice)
        if store is not None:
            self.key(target.slice, index)
            self.store(store, target, marks, value, again=False)
            return
        base = self.value(target.value)
        if "shared" in base:
            self.report.add("state", target, f"{shown(target)} = … changes a value that all calls share")
        elif "tensor" in base:
            if index & TENSORS:
                self.report.add("torch_compute", target, f"{shown(target)} = … scatters by a tensor")
            if "input" in base and "fresh" not in base:
                self.report.add("inputs", target, f"{shown(target)} = …")
            if "kept" in marks:
                self.report.add(
                    "state", target, f"{shown(target)} = {shown(value)} copies what an earlier call left"
                )
        elif isinstance(target.value, ast.Name):
            owner = self.known.owner(self.chain, target.value.id) or self.node
            self.known.mark(owner, target.value.id, contained(marks))

    def _augmented(self, node: ast.AugAssign) -> None:
        target = node.target
        old = NONE
        store = self.store_name(target.value) if isinstance(target, ast.Subscript) else None
        if store is None and not (isinstance(target, ast.Name) and target.id in self.globals):
            old = self.value(target)
        marks = self.operated(node, [old, self.value(node.value)])
        if store is not None:
            self.store(store, target, marks, node.value, again=True)
        elif isinstance(target, ast.Name) and target.id in self.globals:
            self.store(target.id, target, marks, node.value, again=True)
        else:
            self.assign(target, marks, node.value)

    def store(self, name: str, node: ast.expr, marks: Marks, value: ast.expr, *, again: bool) -> None:
        """A module-level variable may hold scratch and device facts, nothing else."""
        scratch = bool(marks & TENSORS) and not marks & {"input", "passed", "copied"}
        fact = "fact" in marks and not marks & (TENSORS | {"history"})
        nothing = isinstance(value, ast.Constant) and value.value is None
        if again or not (scratch or fact or nothing):
            self.report.add("state", node, f"{name} keeps {shown(value)} for later calls")
        self.known.holds(name, marks & (TENSORS | {"fact"}))
        for kept in value.elts if isinstance(value, ast.Tuple | ast.List) else [value]:
            if scratch and isinstance(kept, ast.Name) and kept.id not in self.globals:
                self.known.mark(self.known.owner(self.chain, kept.id) or self.node, kept.id, {"kept"})
