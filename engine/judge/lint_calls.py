"""Marks of what calls in host code give, and what is refused of them: launches, torch, own functions."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence

from kernel_lab.engine.judge.lint_marks import (
    CARRIED,
    NONE,
    TENSORS,
    Marks,
    contained,
    element,
    union,
)
from kernel_lab.engine.judge.lint_module import FunctionNode
from kernel_lab.engine.judge.lint_names import (
    ALLOCATES,
    COPIES,
    DESCRIPTORS,
    METADATA,
    MUTATES,
    TORCH_ALLOCATE,
    TORCH_FACTS,
    TORCH_VIEW,
    TRITON_FACTS,
    VIEW_LISTS,
    VIEWS,
    builtin_rule,
)
from kernel_lab.engine.judge.lint_rules import shown
from kernel_lab.engine.judge.lint_values import Values

LAUNCH_OPTIONS = {
    "warmup",
    "grid",
    "stream",
    "device",
    "pre_hook",
    "launch_metadata",
    "profile",
    "instrumentation_mode",
}
_PASSES_ON = {"tuple", "list", "zip", "enumerate", "reversed", "dict"}
_ASKS = {"isinstance", "hasattr", "len"}
_COMPUTES = {"sum", "min", "max", "abs", "pow", "divmod", "round"}
_READS_ITEMS = {"sum", "min", "max", "sorted", "set", "frozenset", "any", "all", "str"}
_COPYING_METHODS = {"clone", "contiguous", "to", "float", "half", "bfloat16", "type_as"}
_WRITES = {"copy_", "zero_", "fill_"}
_COPYING_FUNCTIONS = {"torch.clone", "torch.cat", "torch.stack"}


class Calls(Values):
    """Evaluates calls beside the other expressions of one function."""

    def _call(self, node: ast.Call) -> Marks:
        function = node.func
        method = (
            function if isinstance(function, ast.Attribute) and self.module.path(function) is None else None
        )
        if method is not None:
            store = self.store_name(method.value)
            if store is not None:
                return self._store_method(node, store, method.attr)
        arguments = [self.value(one) for one in node.args]
        keywords = {one.arg or "**": self.value(one.value) for one in node.keywords}
        marks = union([*arguments, *keywords.values()])
        path = self.module.path(function)
        if path is not None:
            return self._library_call(node, path, arguments, marks)
        if method is not None:
            return self._method(node, method, arguments, marks)
        if isinstance(function, ast.Lambda):
            self.inner(function)
            return self._own_call(node, function, arguments, keywords)
        if isinstance(function, ast.Name):
            target = self.known.callee(self.chain, function.id)
            if target is not None:
                return self._own_call(node, target, arguments, keywords)
            if self.known.owner(self.chain, function.id) is None and not self.module.defines(function.id):
                return self._builtin(node, function.id, marks)
        if "launcher" in self.value(function):
            self._launch(node, marks)
            return NONE
        if marks & TENSORS:
            self.report.add("indirect_call", node, shown(node))
        return marks

    def _launch(self, node: ast.Call, marks: Marks) -> None:
        for keyword in node.keywords:
            if keyword.arg in LAUNCH_OPTIONS:
                self.report.add("dry_launch", node, f"{keyword.arg}={shown(keyword.value)}")
        if "history" in marks:
            self.report.add("state", node, f"an argument of {shown(node.func)} depends on earlier calls")
        if self.cached:
            self.report.add("state", node, f"the launch {shown(node.func)} in a cached function runs once")
        if node is not self.alone:
            self.report.add("mode", node, f"the value of the launch {shown(node.func)} is used")

    def _own_call(
        self, node: ast.Call, target: FunctionNode, arguments: Sequence[Marks], keywords: Mapping[str, Marks]
    ) -> Marks:
        positional = [one.arg for one in (*target.args.posonlyargs, *target.args.args)]
        every = union([*arguments, *keywords.values()])
        spread = any(isinstance(one, ast.Starred) for one in node.args) or "**" in keywords
        named = dict(zip(positional, arguments, strict=False)) | dict(keywords)
        rest = {"*": union(arguments[len(positional) :]), "**": union(keywords.values())}
        for argument in (*target.args.posonlyargs, *target.args.args, *target.args.kwonlyargs):
            given = every | element(every) if spread else named.get(argument.arg, NONE)
            self.known.mark(target, argument.arg, _passed(given))
        for catch_all, given in ((target.args.vararg, rest["*"]), (target.args.kwarg, rest["**"])):
            if catch_all is not None:
                self.known.mark(target, catch_all.arg, _passed(contained(given)))
        if isinstance(target, ast.FunctionDef) and target.name in self.module.cached and every & TENSORS:
            self.report.add("state", node, f"{shown(node)} caches by a tensor")
        return self.known.result(target)

    def _library_call(self, node: ast.Call, path: str, arguments: Sequence[Marks], marks: Marks) -> Marks:
        self._options(node)
        if path in TORCH_ALLOCATE:
            if "tensor" in union(arguments) and not path.endswith("_like"):
                self.report.add("host_sync", node, f"{shown(node)} reads a tensor")
            return frozenset({"tensor", "fresh"}) | (marks & {"history"})
        if path in TORCH_VIEW:
            found = frozenset({"tensor"}) | (marks & CARRIED)
            if path in _COPYING_FUNCTIONS:
                found = frozenset({"tensor", "fresh", "copied"})
                if "kept" in marks:
                    self.report.add("state", node, f"{shown(node)} copies what an earlier call left")
            return contained(found) if path.split(".")[-1] in VIEW_LISTS else found
        if path in TORCH_FACTS | TRITON_FACTS:
            return frozenset({"fact"})
        if path in DESCRIPTORS or path == "triton.reinterpret":
            return contained(marks)
        if path in ("torch.is_tensor", "torch.numel"):
            return NONE
        if marks & TENSORS and path.startswith(("math.", "triton.")):
            self.report.add("host_sync", node, f"{shown(node)} reads a tensor")
        return marks & {"history", "fact", "keptsize"}

    def _options(self, node: ast.Call) -> None:
        for keyword in node.keywords:
            if keyword.arg == "out":
                self.report.add("torch_compute", node, shown(node))

    def _method(
        self, node: ast.Call, method: ast.Attribute, arguments: Sequence[Marks], marks: Marks
    ) -> Marks:
        self.value(method)  # reports what a tensor may not be asked
        base = self.value(method.value)
        name = method.attr
        if "tensor" in base:
            return self._tensor_method(node, name, base, arguments, marks)
        if name in MUTATES:
            if "shared" in base:
                self.report.add("state", node, f"{shown(node)} changes a value that all calls share")
            if isinstance(method.value, ast.Name):
                owner = self.known.owner(self.chain, method.value.id) or self.node
                held = contained(element(marks)) if name in ("update", "extend") else contained(marks)
                self.known.mark(owner, method.value.id, held)
        if name in ("get", "setdefault", "pop"):
            self.key(node, arguments[0] if arguments else NONE)
            return element(base) | union(arguments[1:])
        if name in ("items", "values", "keys"):
            return base
        return (base | marks) & (CARRIED | {"tensors", "shared", "keptsize"}) - {
            "input",
            "passed",
            "copied",
            "fresh",
        }

    def _tensor_method(
        self, node: ast.Call, name: str, base: Marks, arguments: Sequence[Marks], marks: Marks
    ) -> Marks:
        self._options(node)
        if name == "to" and any(
            isinstance(one, ast.Constant) and isinstance(one.value, str) for one in node.args
        ):
            self.report.add("host_sync", node, f"{shown(node)} moves a tensor between devices")
        if ("kept" in base and name in _COPYING_METHODS) or ("kept" in marks and name == "copy_"):
            self.report.add("state", node, f"{shown(node)} copies what an earlier call left")
        if name in _WRITES and "input" in base and "fresh" not in base:
            self.report.add("inputs", node, shown(node))
        if name in ALLOCATES:
            return frozenset({"tensor", "fresh"})
        if name == "clone":
            return frozenset({"tensor", "fresh", "copied"})
        if name in METADATA or name == "data_ptr":
            return frozenset({"keptsize"}) if "kept" in base else NONE
        if name in ("view", "reshape", "expand", "narrow", "select") and any(
            "tensor" in one for one in arguments
        ):
            self.report.add("host_sync", node, f"{shown(node)} reads a tensor")
        if name in VIEW_LISTS:
            return contained(base)
        return base if name in VIEWS | COPIES else base & (CARRIED | TENSORS)

    def _store_method(self, node: ast.Call, store: str, name: str) -> Marks:
        arguments = [self.value(one) for one in node.args]
        if name not in ("get", "setdefault") or node.keywords or not 1 <= len(arguments) <= 2:
            self.report.add("state", node, shown(node))
            return NONE
        self.key(node.args[0], arguments[0])
        if name == "setdefault" and len(arguments) == 2:
            self.store(store, node, arguments[1], node.args[1], again=False)
        elif len(arguments) == 2 and not (
            isinstance(node.args[1], ast.Constant) and node.args[1].value is None
        ):
            self.report.add("state", node, f"{shown(node)}: what the first call gets differs")
        return self.known.read(store)

    def _builtin(self, node: ast.Call, name: str, marks: Marks) -> Marks:
        if builtin_rule(name, kernel=False) is not None:
            return NONE  # the name itself is refused
        if "tensor" in marks and name not in _PASSES_ON | _ASKS:
            rule = "torch_compute" if name in _COMPUTES else "host_sync"
            self.report.add(rule, node, f"{shown(node)} reads a tensor")
        if "tensors" in marks and name in _READS_ITEMS:
            self.report.add("torch_compute", node, f"{shown(node)} computes on tensors")
        if name in _ASKS:
            return marks & {"history", "keptsize"}
        if name in _PASSES_ON:
            return contained(element(marks)) | (marks & {"kernels"})
        return marks & {"history", "fact", "keptsize"}


def _passed(marks: Marks) -> Marks:
    return marks | {"passed"} if marks & TENSORS else marks
