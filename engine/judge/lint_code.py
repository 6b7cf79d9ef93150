"""Which names, attributes and parts of Python a candidate's code uses.

The world is closed: every name leads to an import, a definition of the file, a local or an allowed built-in,
and every attribute is on a list. Whatever is put together from these can reach nothing else.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

from kernel_lab.engine.judge.lint_module import Module, class_rule, decorator_path, device_functions
from kernel_lab.engine.judge.lint_names import (
    ITERATORS,
    TORCH_FACTS,
    attribute_rule,
    builtin_rule,
    is_module,
    kernel_attribute_rule,
    path_rule,
)
from kernel_lab.engine.judge.lint_rules import Report, shown
from kernel_lab.engine.judge.lint_scopes import all_arguments, bound_names, check_annotation, root_name

_CONSTRUCTS: dict[type[ast.AST], str] = {
    ast.AsyncFunctionDef: "construct",
    ast.AsyncFor: "construct",
    ast.AsyncWith: "construct",
    ast.Await: "construct",
    ast.Yield: "state",
    ast.YieldFrom: "state",
    ast.Nonlocal: "state",
    ast.Match: "construct",
    ast.ClassDef: "construct",
    ast.Import: "import",
    ast.ImportFrom: "import",
}
_DEVICE = re.compile(r"(cpu|cuda|xpu|mps)(:\d*)?")
_SETTLES_ITERATOR = {
    "list",
    "tuple",
    "dict",
    "set",
    "frozenset",
    "sorted",
    "sum",
    "min",
    "max",
    "all",
    "any",
    *ITERATORS,
}


def check_code(module: Module, report: Report) -> None:
    """Check constants, host functions and device functions."""
    for node in module.tree.body:
        if isinstance(node, ast.AnnAssign):
            check_annotation(module, report, node.annotation)
    for aggregate in module.aggregates.values():
        for inner in aggregate.body:
            if isinstance(inner, ast.AnnAssign):
                _Code(module, report, kernel=True).visit(inner)
    for name, value in module.constants.items():
        if name not in ("SPACE", "CONFIG"):
            _Code(module, report, kernel=False, constant=True).visit(value)
    for function in module.hosts.values():
        _check_function(module, report, function, kernel=False)
    for function in device_functions(module):
        _check_function(module, report, function, kernel=True)


def _check_function(module: Module, report: Report, function: ast.FunctionDef, *, kernel: bool) -> None:
    checker = _Code(module, report, kernel=kernel)
    checker.root = function.name
    paths = [decorator_path(module, decorator) for decorator in function.decorator_list]
    checker.compile_time = any((path or "").endswith(".constexpr_function") for path in paths)
    for decorator in function.decorator_list:
        if isinstance(decorator, ast.Call):
            outer = _Code(module, report, kernel=False)
            for argument in (*decorator.args, *(keyword.value for keyword in decorator.keywords)):
                outer.visit(argument)
    checker.function(function)


class _Code(ast.NodeVisitor):
    """One walk over the code of a function or a constant."""

    def __init__(self, module: Module, report: Report, *, kernel: bool, constant: bool = False) -> None:
        self.module = module
        self.report = report
        self.kernel = kernel
        self.constant = constant
        self.root = ""
        """Name of the module-level function that we are in."""
        self.compile_time = False
        """Whether we are in a constexpr function, which only ever sees plain values."""
        self.scopes: list[set[str]] = []
        self.parents: list[ast.AST] = []

    # ---- scopes

    def function(self, node: ast.FunctionDef | ast.Lambda) -> None:
        """Defaults and annotations in the outer scope, the body in its own."""
        arguments = node.args
        for default in (*arguments.defaults, *(one for one in arguments.kw_defaults if one is not None)):
            if not self.kernel and isinstance(
                default, ast.Dict | ast.List | ast.Set | ast.Call | ast.ListComp
            ):
                self.report.add(
                    "state", default, f"the default value {shown(default)} lives from call to call"
                )
            self.visit(default)
        for argument in all_arguments(arguments):
            check_annotation(self.module, self.report, argument.annotation)
        if isinstance(node, ast.FunctionDef):
            check_annotation(self.module, self.report, node.returns)
        names = {argument.arg for argument in all_arguments(arguments)}
        body: Sequence[ast.AST] = [node.body] if isinstance(node, ast.Lambda) else node.body
        names.update(bound_names(body))
        self._hides(node, names)
        self.scopes.append(names)
        for part in body:
            self.visit(part)
        self.scopes.pop()

    def visit(self, node: ast.AST) -> None:
        rule = _CONSTRUCTS.get(type(node))
        if isinstance(node, ast.ClassDef):
            rule = class_rule(self.module, node)
        if rule is not None:
            self.report.add(rule, node, shown(node))
            return
        self.parents.append(node)
        super().visit(node)
        self.parents.pop()

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        if self.kernel or node.decorator_list:
            self.report.add("construct", node, f"def {node.name} inside a function")
        self.function(node)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        if self.constant:
            self.report.add("module_level", node, shown(node))
        self.function(node)

    def visit_ListComp(self, node: ast.ListComp) -> None:
        self._comprehension(node, node.generators, [node.elt])

    def visit_SetComp(self, node: ast.SetComp) -> None:
        self._comprehension(node, node.generators, [node.elt])

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> None:
        self._settled(node, "a generator")
        self._comprehension(node, node.generators, [node.elt])

    def visit_DictComp(self, node: ast.DictComp) -> None:
        self._comprehension(node, node.generators, [node.key, node.value])

    def _comprehension(
        self, node: ast.AST, generators: list[ast.comprehension], parts: list[ast.expr]
    ) -> None:
        names = set(bound_names([generator.target for generator in generators]))
        self._hides(node, names)
        self.scopes.append(names)
        for generator in generators:
            self.visit(generator)
        for part in parts:
            self.visit(part)
        self.scopes.pop()

    def _hides(self, node: ast.AST, names: set[str]) -> None:
        """In host code a local name may not hide an import: what is written would not be what is meant."""
        for name in sorted(names & set(self.module.aliases)):
            if not self.kernel:
                self.report.add("construct", node, f"the local name {name} hides an import")

    # ---- names and attributes

    def visit_Name(self, node: ast.Name) -> None:
        name = node.id
        if isinstance(node.ctx, ast.Store | ast.Del) or any(name in scope for scope in self.scopes):
            return
        if name in self.module.refused:
            return
        if name in self.module.aliases:
            self._path(node, self.module.aliases[name])
        elif not self.module.defines(name):
            rule = builtin_rule(name, kernel=self.kernel)
            if rule == "mode" and self.compile_time:
                return
            if rule is not None:
                self.report.add(rule, node, name)
            elif name in ITERATORS:
                self._settled(node, name, called=True)
            elif name == "hasattr" and not self._asks_a_module():
                self.report.add("introspection", node, "hasattr")

    def visit_Attribute(self, node: ast.Attribute) -> None:
        path = self.module.path(node)
        root = root_name(node)
        if root in self.module.refused:
            return
        if path is not None and not any(root in scope for scope in self.scopes):
            if isinstance(node.ctx, ast.Store | ast.Del):
                self.report.add("monkeypatch", node, shown(node))
            self._path(node, path)
            return
        if isinstance(node.ctx, ast.Store | ast.Del) and not (self.kernel and root == "self"):
            self.report.add("monkeypatch", node, shown(node))
        elif self.kernel:
            rule = kernel_attribute_rule(node.attr)
            if rule is not None:
                self.report.add(rule, node, shown(node))
        else:
            self._host_attribute(node)
        self.visit(node.value)

    def _host_attribute(self, node: ast.Attribute) -> None:
        if isinstance(node.value, ast.Name) and node.value.id in self.module.kernels:
            self.report.add("introspection", node, shown(node))
            return
        if node.attr == "data_ptr" and self._asks_for_alignment():
            return
        if node.attr == "index" and self._is_asked():
            self.report.add("device_branch", node, shown(node))
        rule = attribute_rule(node.attr, tensor=False)
        if rule is not None:
            self.report.add(rule, node, shown(node))

    def _is_asked(self) -> bool:
        """Whether a device's index is compared: it is None where there is no card."""
        parent = self.parents[-2] if len(self.parents) > 1 else None
        if isinstance(parent, ast.Call):
            return isinstance(parent.func, ast.Name) and parent.func.id in ("isinstance", "str", "bool")
        return isinstance(
            parent, ast.Compare | ast.BoolOp | ast.UnaryOp | ast.If | ast.IfExp | ast.While | ast.Assert
        )

    def _asks_for_alignment(self) -> bool:
        """`x.data_ptr() % 16`: the address itself is not kept."""
        if len(self.parents) < 3:
            return False
        call, operation = self.parents[-2], self.parents[-3]
        return (
            isinstance(call, ast.Call)
            and isinstance(operation, ast.BinOp)
            and isinstance(operation.op, ast.Mod)
            and operation.left is call
            and isinstance(operation.right, ast.Constant)
            and isinstance(operation.right.value, int)
            and operation.right.value <= 256
        )

    def _path(self, node: ast.expr, path: str) -> None:
        rule = path_rule(path, kernel=self.kernel)
        if rule is None and is_module(path) and not self._asks_a_module():
            rule = "obfuscation"
        if rule is None and path in TORCH_FACTS and self.constant:
            rule = "module_level"
        if rule is not None:
            self.report.add(rule, node, shown(node))

    def _asks_a_module(self) -> bool:
        """Whether we stand in `hasattr(module, "name")`, or in the function of that call."""
        for parent in self.parents[-2:]:
            if (
                isinstance(parent, ast.Call)
                and isinstance(parent.func, ast.Name)
                and parent.func.id == "hasattr"
            ):
                path = self.module.path(parent.args[0]) if len(parent.args) == 2 else None
                name = parent.args[1] if path is not None else None
                if not isinstance(name, ast.Constant) or not isinstance(name.value, str):
                    return False
                return any(
                    path_rule(f"{path}.{name.value}", kernel=kernel) is None for kernel in (True, False)
                )
        return False

    def _settled(self, node: ast.AST, what: str, *, called: bool = False) -> None:
        """An iterator must be used up where it is made: kept, it would count calls."""
        parents = [parent for parent in self.parents if parent is not node]
        if called:
            if not parents or not isinstance(parents[-1], ast.Call) or parents[-1].func is not node:
                self.report.add("state", node, f"{what} as a value")
                return
            node = parents.pop()
        parent = parents[-1] if parents else None
        used_up = (
            (isinstance(parent, ast.For | ast.comprehension) and parent.iter is node)
            or isinstance(parent, ast.Starred)
            or (isinstance(parent, ast.Assign) and all(isinstance(one, ast.Tuple) for one in parent.targets))
            or (
                isinstance(parent, ast.Call)
                and isinstance(parent.func, ast.Name)
                and parent.func.id in _SETTLES_ITERATOR
            )
        )
        if not used_up:
            self.report.add("state", node, f"{what} that is kept")

    # ---- statements

    def visit_Global(self, node: ast.Global) -> None:
        for name in node.names:
            if name not in self.module.constants or self.kernel:
                self.report.add("state", node, f"global {name}")

    def visit_Delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            if not isinstance(target, ast.Name):
                self.report.add("construct", node, shown(node))

    def visit_With(self, node: ast.With) -> None:
        for item in node.items:
            call = item.context_expr
            path = self.module.path(call.func) if isinstance(call, ast.Call) else None
            if not self.kernel and path not in ("torch.cuda.device", "torch.no_grad", "torch.inference_mode"):
                rule = path_rule(path, kernel=False) if path is not None else None
                self.report.add(rule or "construct", node, f"with {shown(call)}")
        self.generic_visit(node)

    def visit_Try(self, node: ast.Try | ast.TryStar) -> None:
        works = any(
            isinstance(inner, ast.Call)
            and (
                isinstance(inner.func, ast.Subscript)
                or (isinstance(inner.func, ast.Name) and self.module.defines(inner.func.id))
            )
            for inner in ast.walk(node)
        )
        self.report.add("fallback" if works else "construct", node, "try")
        self.generic_visit(node)

    def visit_TryStar(self, node: ast.TryStar) -> None:
        self.visit_Try(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if isinstance(node.op, ast.MatMult):
            self.report.add("torch_compute", node, shown(node))
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if self.kernel or not isinstance(node.value, str) or not _DEVICE.fullmatch(node.value):
            return
        if self.root not in self.module.allocators:
            self.report.add("device_branch", node, shown(node))

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        check_annotation(self.module, self.report, node.annotation)
        self.visit(node.target)
        if node.value is not None:
            self.visit(node.value)

    def visit_Call(self, node: ast.Call) -> None:
        if self.constant and not self._constant_call(node):
            self.report.add("module_level", node, shown(node))
        self.generic_visit(node)

    def _constant_call(self, node: ast.Call) -> bool:
        path = self.module.path(node.func)
        if path is not None:
            last = path.split(".")[-1]
            return path.startswith(("math.", "triton.language", "triton.experimental")) or last in (
                "cdiv", "next_power_of_2", "device", "Size",
            )  # fmt: skip
        return isinstance(node.func, ast.Name) and node.func.id in (
            "abs", "dict", "float", "frozenset", "int", "len", "list", "max", "min", "pow", "range", "round",
            "set", "sorted", "sum", "tuple",
        )  # fmt: skip
