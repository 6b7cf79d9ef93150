"""Data in a candidate's text: strings, tables and numbers that could hold answers or reach outside."""

from __future__ import annotations

import ast
import math
import re
from collections import Counter
from collections.abc import Iterator

from kernel_lab.engine.judge.lint_module import Module, is_docstring
from kernel_lab.engine.judge.lint_rules import Report, shown

MAX_TABLE = 256
MAX_NUMBERS = 3_000
MAX_TEXT = 400
MAX_ASSEMBLY = 8_000
MAX_ALL_TEXT = 20_000
MAX_INTEGER_BITS = 64
DENSE_LENGTH = 48
DENSE_BITS_PER_CHARACTER = 4.2

_WATCHED = re.compile(
    r"TRITON_|TORCH_|CUDA_|PYTEST|KERNEL_LAB|INTERPRET|is_current_stream_capturing|^meta$|FakeTensor",
    re.IGNORECASE,
)
_REFUSED_ASSEMBLY = re.compile(
    r"nanosleep|%?globaltimer|%clock|createpolicy|L2::evict_last|L2::cache_hint|applypriority|persist"
    r"|\btrap\b|\bbrkpt\b|pmevent|%smid|\bexit\b|call\.uni|vprintf",
    re.IGNORECASE,
)


def check_text(module: Module, report: Report) -> None:
    """Check constants wherever they stand, but for docstrings and the values of SPACE and CONFIG."""
    for call in _assembly_calls(module.tree):
        _check_assembly(call, report)
    numbers = 0
    characters = 0
    for node, assembly in _constants(module):
        if isinstance(node, ast.Constant):
            if isinstance(node.value, str):
                characters += 0 if assembly else len(node.value)
                _check_string(node, node.value, assembly, report)
            elif isinstance(node.value, bytes):
                report.add("result_bank", node, f"bytes {shown(node, 30)}")
            elif isinstance(node.value, int | float | complex) and not isinstance(node.value, bool):
                numbers += 1
                if isinstance(node.value, int) and node.value.bit_length() > MAX_INTEGER_BITS:
                    report.add("result_bank", node, f"a number of {node.value.bit_length()} bits")
                if numbers == MAX_NUMBERS + 1:
                    report.add("result_bank", node, f"more than {MAX_NUMBERS} numbers in the file")
        elif len(_items(node)) > MAX_TABLE:
            report.add("result_bank", node, f"a table of {len(_items(node))} values")
    if characters > MAX_ALL_TEXT:
        report.add(
            "result_bank", module.tree, f"{characters} characters of text outside comments and docstrings"
        )


def _items(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.List | ast.Tuple | ast.Set):
        return node.elts
    return node.values if isinstance(node, ast.Dict) else []


def _constants(module: Module) -> Iterator[tuple[ast.AST, bool]]:
    """Constants and displays, each with whether it is the text of inline assembly."""
    settings = {id(module.constants[name]) for name in ("SPACE", "CONFIG") if name in module.constants}
    assembly = {id(text) for text in _assembly_texts(module.tree)}
    stack: list[ast.AST] = [module.tree]
    while stack:
        node = stack.pop()
        if id(node) in settings or (isinstance(node, ast.stmt) and is_docstring(node)):
            continue
        if isinstance(node, ast.Constant | ast.List | ast.Tuple | ast.Set | ast.Dict):
            yield node, id(node) in assembly
        stack.extend(ast.iter_child_nodes(node))


def _assembly_texts(tree: ast.AST) -> Iterator[ast.AST]:
    for call in _assembly_calls(tree):
        for text in (*call.args, *(keyword.value for keyword in call.keywords)):
            yield from (inner for inner in ast.walk(text) if isinstance(inner, ast.Constant))


def _assembly_calls(tree: ast.AST) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute | ast.Name):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id
            if name.startswith("inline_asm"):
                yield node


def _check_assembly(call: ast.Call, report: Report) -> None:
    """The code must be one literal or the name of one, so that it is what it looks like."""
    named = [keyword.value for keyword in call.keywords if keyword.arg == "asm"]
    for text in named or call.args[:1]:
        if not isinstance(text, ast.Constant | ast.Name):
            report.add("obfuscation", call, f"assembly put together from {shown(text)}")


def _check_string(node: ast.Constant, text: str, assembly: bool, report: Report) -> None:
    if _REFUSED_ASSEMBLY.search(text) and (assembly or "%" in text or ";" in text):
        found = _REFUSED_ASSEMBLY.search(text)
        report.add("asm", node, f"assembly with {found.group(0) if found else ''}")
    if text == "warmup":
        report.add("dry_launch", node, shown(node))
    if _WATCHED.search(text):
        report.add("mode", node, f"the text {shown(node, 40)}")
    limit = MAX_ASSEMBLY if assembly or _looks_like_assembly(text) else MAX_TEXT
    if len(text) > limit:
        report.add("result_bank", node, f"a text of {len(text)} characters")
    elif (
        not assembly
        and len(text) >= DENSE_LENGTH
        and " " not in text
        and _bits(text) > DENSE_BITS_PER_CHARACTER
    ):
        report.add("obfuscation", node, f"the text {shown(node, 40)} looks encoded")


def _looks_like_assembly(text: str) -> bool:
    return ";" in text and bool(re.search(r"\$\d|%\w+|\.[bfsu](?:8|16|32|64)", text))


def _bits(text: str) -> float:
    """Entropy in bits per character."""
    counts = Counter(text)
    return -sum(count / len(text) * math.log2(count / len(text)) for count in counts.values())
