"""What a candidate's module defines, and whether only that stands at module level."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from kernel_lab.engine.judge.lint_names import (
    AGGREGATE,
    CACHES,
    DEVICE_FUNCTION,
    JIT,
    NO_GRAD,
    import_rule,
    path_rule,
)
from kernel_lab.engine.judge.lint_rules import Report, shown

FunctionNode = ast.FunctionDef | ast.Lambda


@dataclass(slots=True)
class Module:
    """Names that a candidate's module binds, by what they are."""

    tree: ast.Module
    entry: str
    aliases: dict[str, str] = field(default_factory=dict)
    """Imported name to dotted path, such as `tl` to `triton.language`."""
    kernels: dict[str, ast.FunctionDef] = field(default_factory=dict)
    """Functions that are compiled for the device, helpers included."""
    hosts: dict[str, ast.FunctionDef] = field(default_factory=dict)
    cached: set[str] = field(default_factory=set)
    """Host functions whose results live from call to call."""
    constants: dict[str, ast.expr] = field(default_factory=dict)
    aggregates: dict[str, ast.ClassDef] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)
    """Names of refused imports: reported once, where they are imported."""
    allocators: set[str] = field(default_factory=set)
    """Functions given to triton.set_allocator, which make memory without any tensor to go by."""

    def path(self, node: ast.expr) -> str | None:
        """The dotted path of a name or attribute chain that begins with an import, or None."""
        names: list[str] = []
        while isinstance(node, ast.Attribute):
            names.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or node.id not in self.aliases:
            return None
        return ".".join([self.aliases[node.id], *reversed(names)])

    def defines(self, name: str) -> bool:
        """Whether a name may be used inside functions."""
        tables = (self.aliases, self.kernels, self.hosts, self.constants, self.aggregates)
        return any(name in table for table in tables)


def is_docstring(node: ast.stmt) -> bool:
    """A bare text, which does nothing."""
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def read_module(tree: ast.Module, entry: str, report: Report) -> Module:
    """Collect what the module binds and report whatever else stands at module level."""
    module = Module(tree, entry)
    for node in tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            _read_import(module, node, report)
        elif isinstance(node, ast.Try):
            _read_guarded_import(module, node, report)
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            _read_constant(module, node, report)
        elif isinstance(node, ast.FunctionDef):
            _read_function(module, node, report)
        elif isinstance(node, ast.ClassDef):
            _read_class(module, node, report)
        elif isinstance(node, ast.AsyncFunctionDef):
            report.add("construct", node, f"async def {node.name}")
        elif not isinstance(node, ast.Import | ast.ImportFrom | ast.Try | ast.Pass) and not is_docstring(
            node
        ):
            report.add("module_level", node, shown(node))
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and module.path(call.func) == "triton.set_allocator":
            module.allocators.update(one.id for one in call.args if isinstance(one, ast.Name))
    return module


def _bind(module: Module, name: str, node: ast.AST, report: Report) -> None:
    if module.defines(name):
        report.add("monkeypatch", node, f"{name} is bound again")


def _read_import(module: Module, node: ast.Import | ast.ImportFrom, report: Report) -> None:
    if isinstance(node, ast.ImportFrom) and (node.level or not node.module):
        report.add("import", node, shown(node))
        return
    for name in node.names:
        if isinstance(node, ast.Import):
            path, bound = name.name, name.asname or name.name.split(".")[0]
            target = name.name if name.asname else bound
            rule = import_rule(path)
        else:
            path, bound = f"{node.module}.{name.name}", name.asname or name.name
            target = path
            rule = "obfuscation" if name.name == "*" else import_rule(node.module or "")
            if rule is None and node.module != "__future__":
                # A name may be used on the host, in kernels or in both; each use is checked there.
                rule = path_rule(path, kernel=True) and path_rule(path, kernel=False)
        if rule is not None:
            report.add(rule, node, shown(node))
            module.refused.add(bound)
        elif isinstance(node, ast.ImportFrom) and node.module == "__future__":
            continue
        if bound in module.aliases and module.aliases[bound] != target:
            report.add("monkeypatch", node, f"{bound} is bound again")
        module.aliases[bound] = target


def _read_guarded_import(module: Module, node: ast.Try, report: Report) -> None:
    """`try: import … except ImportError: NAME = None`, the one error handler that is allowed."""
    imports = all(isinstance(inner, ast.Import | ast.ImportFrom) or _is_flag(inner) for inner in node.body)
    handlers = all(
        isinstance(handler.type, ast.Name)
        and handler.type.id in ("ImportError", "ModuleNotFoundError")
        and all(_is_flag(inner) or isinstance(inner, ast.Pass) for inner in handler.body)
        for handler in node.handlers
    )
    if not imports or not handlers or node.orelse or node.finalbody:
        report.add("fallback", node, "try at module level")
        return
    for inner in node.body:
        if isinstance(inner, ast.Import | ast.ImportFrom):
            _read_import(module, inner, report)
    for inner in (*node.body, *(inner for handler in node.handlers for inner in handler.body)):
        if isinstance(inner, ast.Assign) and isinstance(inner.targets[0], ast.Name):
            name = inner.targets[0].id
            if name not in module.aliases:
                module.constants.setdefault(name, inner.value)


def _is_flag(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.Assign)
        and len(node.targets) == 1
        and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, ast.Constant)
        and (node.value.value is None or isinstance(node.value.value, bool))
    )


def _read_constant(module: Module, node: ast.Assign | ast.AnnAssign, report: Report) -> None:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    for target in targets:
        names = target.elts if isinstance(target, ast.Tuple) else [target]
        for name in names:
            if not isinstance(name, ast.Name):
                rule = "monkeypatch" if isinstance(name, ast.Attribute | ast.Subscript) else "module_level"
                report.add(rule, node, shown(node))
                continue
            if name.id in module.constants and isinstance(module.constants[name.id], ast.Constant):
                continue  # the flag of a guarded import
            _bind(module, name.id, node, report)
            if node.value is not None:
                module.constants[name.id] = node.value


def _read_function(module: Module, node: ast.FunctionDef, report: Report) -> None:
    _bind(module, node.name, node, report)
    paths = [decorator_path(module, decorator) for decorator in node.decorator_list]
    for decorator, path in zip(node.decorator_list, paths, strict=True):
        check_decorator(decorator, path, report)
    if any(path in JIT | DEVICE_FUNCTION for path in paths):
        module.kernels[node.name] = node
    else:
        module.hosts[node.name] = node
        if any(path in CACHES for path in paths):
            module.cached.add(node.name)


def decorator_path(module: Module, decorator: ast.expr) -> str | None:
    """`triton.jit` for `@triton.jit` and `@triton.jit(...)`."""
    return module.path(decorator.func if isinstance(decorator, ast.Call) else decorator)


def check_decorator(decorator: ast.expr, path: str | None, report: Report) -> None:
    """Report a decorator that is not on the list."""
    allowed = JIT | DEVICE_FUNCTION | CACHES | NO_GRAD | {"triton.heuristics"}
    if path in allowed:
        return
    rule = path_rule(path, kernel=False) if path is not None else None
    report.add(rule if rule in ("autotune", "library") else "decorator", decorator, f"@{shown(decorator)}")


def _read_class(module: Module, node: ast.ClassDef, report: Report) -> None:
    """A class is a Gluon aggregate, a bundle of device values, or it is refused."""
    _bind(module, node.name, node, report)
    paths = {decorator_path(module, decorator) for decorator in node.decorator_list}
    if len(node.decorator_list) != 1 or not paths <= AGGREGATE or node.bases or node.keywords:
        report.add(class_rule(module, node), node, f"class {node.name}")
        module.refused.add(node.name)
        return
    module.aggregates[node.name] = node
    for inner in node.body:
        if isinstance(inner, ast.FunctionDef):
            inner_paths = {decorator_path(module, decorator) for decorator in inner.decorator_list}
            if not inner_paths or not inner_paths <= JIT | DEVICE_FUNCTION:
                report.add("tensor_class", inner, f"{node.name}.{inner.name} is no device function")
        elif not is_docstring(inner) and not isinstance(inner, ast.AnnAssign | ast.Pass):
            report.add("tensor_class", inner, shown(inner))


def class_rule(module: Module, node: ast.ClassDef) -> str:
    """Classes that could pass for a tensor are a cheat; a record of settings is merely not allowed."""
    bases = [module.path(base) or "" for base in node.bases]
    plain = all(base.startswith("typing.") for base in bases) and not node.keywords
    methods = [one.name for one in node.body if isinstance(one, ast.FunctionDef)]
    return (
        "construct"
        if plain and all(not name.startswith("__") or name == "__init__" for name in methods)
        else "tensor_class"
    )


def device_functions(module: Module) -> Iterator[ast.FunctionDef]:
    """Kernels, device helpers and the methods of aggregates."""
    yield from module.kernels.values()
    for node in module.aggregates.values():
        yield from (inner for inner in node.body if isinstance(inner, ast.FunctionDef))
