"""Names and annotations: what a piece of code binds, and that annotations name types and nothing else."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from kernel_lab.engine.judge.lint_module import Module
from kernel_lab.engine.judge.lint_names import builtin_rule, path_rule
from kernel_lab.engine.judge.lint_rules import Report, shown

_ANNOTATION = (
    ast.Name,
    ast.Attribute,
    ast.Subscript,
    ast.Constant,
    ast.Tuple,
    ast.List,
    ast.BinOp,
    ast.BitOr,
    ast.Load,
)


def check_annotation(module: Module, report: Report, node: ast.expr | None) -> None:
    """An annotation is evaluated, so it may name types and nothing else."""
    if node is None:
        return
    for inner in ast.walk(node):
        if not isinstance(inner, _ANNOTATION):
            report.add("construct", node, f"the annotation {shown(node)}")
            return
        if isinstance(inner, ast.Attribute) and module.path(inner) is None:
            report.add("construct", node, f"the annotation {shown(node)}")
            return
        name = inner.id if isinstance(inner, ast.Name) else ""
        if name and not module.defines(name) and builtin_rule(name, kernel=False) is not None:
            report.add("construct", node, f"the annotation {shown(node)}")
            return
        path = module.path(inner) if isinstance(inner, ast.Attribute) else None
        if (
            path is not None
            and path.startswith("torch.")
            and path.count(".") == 1
            and path.endswith("Tensor")
        ):
            continue  # torch.LongTensor and its kin
        rule = path_rule(path, kernel=False) and path_rule(path, kernel=True) if path is not None else None
        if rule is not None:
            report.add(rule, node, f"the annotation {shown(node)}")


def all_arguments(arguments: ast.arguments) -> Iterator[ast.arg]:
    """Every parameter of a function."""
    yield from (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
    if arguments.vararg is not None:
        yield arguments.vararg
    if arguments.kwarg is not None:
        yield arguments.kwarg


def bound_names(nodes: Sequence[ast.AST]) -> Iterator[str]:
    """Names that these nodes bind in their own scope; `global` names are not."""
    shared: set[str] = set()
    bound: list[str] = []
    stack: list[ast.AST] = list(nodes)
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Global):
            shared.update(node.names)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            bound.append(node.id)
        if isinstance(node, ast.FunctionDef):
            bound.append(node.name)
            continue
        if isinstance(node, ast.ExceptHandler) and node.name:
            bound.append(node.name)
        if not isinstance(node, ast.Lambda):
            stack.extend(ast.iter_child_nodes(node))
    return (name for name in bound if name not in shared)


def root_name(node: ast.expr) -> str:
    """The name that an attribute chain begins with, or an empty text."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""
