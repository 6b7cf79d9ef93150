"""A candidate: one Python file with its tunables (`SPACE`), its settings (`CONFIG`) and an entry function.

`parse` reads a candidate without running any of it. `with_config` writes other settings into the same
text, so that a diff shows the settings and nothing else. Everything here treats the text as untrusted:
sizes, nesting and values are bounded, and the only errors are `CandidateInvalid` (the text is no
candidate) and `UsageError` (the path is no candidate file).
"""

from __future__ import annotations

import ast
import errno
import functools
import hashlib
import json
import math
import os
import re
import stat
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kernel_lab.engine.errors import CandidateInvalid, UsageError

MAX_SOURCE_BYTES = 1_000_000
MAX_NESTING = 150
MAX_NODES = 50_000
"""Size of the largest syntax tree that is looked at; a seed kernel has about 3,000 nodes."""

MAX_TUNABLES = 64
MAX_VALUES = 256
MAX_BUCKETS = 64
MAX_TEXT_VALUE = 100
LINE_LENGTH = 110

_ENCODING = re.compile(r"[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)", re.ASCII)
"""How Python finds the encoding of a file, in a comment of its first two lines (PEP 263)."""

REST = "*"
"""The bucket whose values hold wherever a bucket does not say otherwise."""

ENTRY_PARAMETERS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "attention": (("q", "k", "v"), ("causal", "scale")),
    "decode": (("q", "k_cache", "v_cache", "seq_lens"), ("scale",)),
}
"""How known entries are called: positional arguments, keyword arguments."""

Value = int | float | bool | str
Space = dict[str, list[Value]]
Config = dict[str, dict[str, Value]]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_BUCKET = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}|\*")
_LINE_END = re.compile(r"\r\n|\r|\n")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A parsed candidate. `sha` is the SHA-256 of the exact text.

    `canonical_sha` is the same for texts that differ only in comments, docstrings and formatting, so that
    a repeated idea is found.
    """

    source: str
    entry: str
    space: Space
    config: Config
    sha: str
    canonical_sha: str


@functools.lru_cache(maxsize=64)  # every gate asks for the same few texts again
def parse(source: str, task_entry: str) -> Candidate:
    """Read a candidate's tunables and settings, and check that its entry can be called.

    Raises CandidateInvalid for a syntax error, a missing or wrong entry function, `SPACE` or `CONFIG` that
    is no literal, and values of `CONFIG` that `SPACE` does not list.
    """
    tree = parse_tree(source)
    _check_entry(tree, task_entry)
    space = _checked_space(_literal(tree, "SPACE"))
    config = _checked_config(_literal(tree, "CONFIG"), space)
    return Candidate(
        source=source,
        entry=task_entry,
        space=space,
        config=config,
        sha=text_sha(source),
        canonical_sha=hashlib.sha256(canonical_form(tree).encode("utf-8", "surrogatepass")).hexdigest(),
    )


def text_sha(source: str) -> str:
    """SHA-256 of the exact text, in hex."""
    return hashlib.sha256(source.encode("utf-8")).hexdigest()


def values_for(candidate: Candidate, bucket: str) -> dict[str, Value]:
    """Every tunable's value in one bucket: the bucket's own values over those of `"*"`."""
    return {**candidate.config[REST], **candidate.config.get(bucket, {})}


def with_config(candidate: Candidate, config: Mapping[str, Mapping[str, Value]]) -> str:
    """The candidate's text with other settings: only the lines of the CONFIG literal change.

    Raises CandidateInvalid if a value is not one that SPACE lists.
    """
    wanted = _checked_config({bucket: dict(values) for bucket, values in config.items()}, candidate.space)
    if wanted == candidate.config and list(wanted) == list(candidate.config):
        return candidate.source
    node = _assigned(parse_tree(candidate.source), "CONFIG")
    lines = _lines_with_ends(candidate.source)
    newline = "\r\n" if "\r\n" in candidate.source else "\n"
    end_line, end_column = node.end_lineno or node.lineno, node.end_col_offset or 0
    before = lines[node.lineno - 1].encode()[: node.col_offset].decode()
    after = lines[end_line - 1].encode()[end_column:].decode()
    text = "".join(
        [*lines[: node.lineno - 1], before, _formatted(wanted, newline), after, *lines[end_line:]],
    )
    if parse(text, candidate.entry).config != wanted:
        raise CandidateInvalid("CONFIG could not be rewritten; write it as one plain dict literal")
    return text


def read_candidate_file(path: str | Path) -> str:
    """The text of a candidate file.

    Raises UsageError if it is missing, no regular file, a symlink that leaves its folder, over 1 MB or not
    UTF-8.
    """
    path = Path(path)
    try:
        folder = path.parent.resolve(strict=True)
        target = path.resolve(strict=True)
        if path.is_symlink() and not target.is_relative_to(folder):
            raise UsageError(f"{path} is a symlink out of its folder; give the file itself or copy it there")
        descriptor = os.open(target, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        raise UsageError(f"{path} does not exist; give the path of a candidate .py file") from None
    except (OSError, ValueError, RuntimeError) as error:
        raise UsageError(
            f"{_short(str(path))} cannot be read ({_cause(error)}); give a readable file"
        ) from None
    try:
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            kind = "a directory" if stat.S_ISDIR(mode) else "no regular file"
            raise UsageError(f"{path} is {kind}; give the path of a candidate .py file")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            content = file.read(MAX_SOURCE_BYTES + 1)
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({_cause(error)}); give a readable file") from None
    finally:
        os.close(descriptor)
    if len(content) > MAX_SOURCE_BYTES:
        raise UsageError(f"{path} is over 1 MB; a candidate is one short Python file: shorten it")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 (byte {error.start}); save it as UTF-8") from None


# ---- the syntax tree ------------------------------------------------------------------------------


def _check_encoding(source: str) -> None:
    """Refuse a declared encoding but UTF-8: Python would run another text than the one that is judged."""
    for number, line in enumerate(re.split("\r\n|\r|\n", source.removeprefix("\ufeff"), maxsplit=2)[:2], 1):
        declared = _ENCODING.match(line)
        if declared and declared[1].lower().replace("_", "-") not in ("utf-8", "utf8"):
            raise CandidateInvalid(
                f"line {number} declares the encoding {_short(declared[1])!r}; save the file as UTF-8 and "
                "remove the declaration"
            )


def parse_tree(source: str) -> ast.Module:
    """The syntax tree of a candidate's text, bounded in size and depth. Raises CandidateInvalid."""
    if "\0" in source:
        raise CandidateInvalid("the candidate holds NUL bytes; save it as plain text")
    try:
        size_bytes = len(source.encode("utf-8"))
    except UnicodeEncodeError:
        raise CandidateInvalid("the candidate holds half surrogates; save it as UTF-8") from None
    if size_bytes > MAX_SOURCE_BYTES:
        raise CandidateInvalid("the candidate is over 1 MB; a candidate is one short Python file: shorten it")
    if not source.strip():
        raise CandidateInvalid("the candidate is empty; start from the champion's file")
    _check_encoding(source)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source)
    except SyntaxError as error:
        where = f"line {error.lineno}: " if error.lineno else ""
        raise CandidateInvalid(
            f"syntax error: {where}{_short(error.msg or 'cannot be parsed')}; mend it"
        ) from None
    except (RecursionError, MemoryError):
        raise CandidateInvalid("the candidate is nested too deeply; split the expression") from None
    except (ValueError, OverflowError) as error:
        raise CandidateInvalid(f"the candidate cannot be parsed ({_short(str(error))}); mend it") from None
    _check_size(tree)
    return tree


def _check_size(tree: ast.Module) -> None:
    level: list[ast.AST] = [tree]
    nodes = 0
    for _ in range(MAX_NESTING):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
        nodes += len(level)
        if nodes > MAX_NODES:
            raise CandidateInvalid(
                "the candidate is far too long; a candidate is one short Python file: shorten it"
            )
        if not level:
            return
    line = getattr(level[0], "lineno", 0)
    raise CandidateInvalid(f"line {line}: nested more than {MAX_NESTING} deep; split the expression")


def canonical_form(tree: ast.Module) -> str:
    """A text that is equal for trees of the same code, whatever its comments, docstrings and layout.

    It does not depend on the Python version: fields that are empty are left out, as newer versions add
    such fields.
    """
    parts: list[str] = []
    stack: list[object] = [tree]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            parts.append(item)
        elif isinstance(item, ast.AST):
            stack.append(")")
            for name, value in reversed(list(ast.iter_fields(item))):
                if value is None and not isinstance(item, ast.Constant):
                    continue
                if name in ("ctx", "kind", "type_comment") or value == []:
                    continue
                stack.extend((value if isinstance(value, list) else _Leaf(value), f" {name}="))
            stack.append(f"({type(item).__name__}")
        elif isinstance(item, list):
            stack.append("]")
            stack.extend(_Leaf(value) for value in reversed(item) if not _is_bare_text(value))
            stack.append("[")
        elif isinstance(item, _Leaf):
            if isinstance(item.value, ast.AST):
                stack.append(item.value)
            else:
                # Hexadecimal, because a number with thousands of digits has no decimal text.
                value = item.value
                text = hex(value) if type(value) is int else repr(value)
                parts.append(f"{type(value).__name__}:{text},")
    return "".join(parts)


@dataclass(frozen=True, slots=True)
class _Leaf:
    value: object


def _is_bare_text(node: object) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _assigned(tree: ast.Module, name: str) -> ast.expr:
    """The value that the module assigns to `name`, once and at module level."""
    found: list[ast.expr] = []
    for node in tree.body:
        targets: Sequence[ast.expr] = ()
        value: ast.expr | None = None
        if isinstance(node, ast.Assign):
            targets, value = node.targets, node.value
        elif isinstance(node, ast.AnnAssign):
            targets, value = (node.target,), node.value
        if value is None or not any(isinstance(target, ast.Name) and target.id == name for target in targets):
            continue
        if len(targets) != 1:
            raise CandidateInvalid(
                f"line {node.lineno}: {name} shares its line; assign it on a line of its own"
            )
        found.append(value)
    if not found:
        example = "{}" if name == "SPACE" else '{"*": {}}'
        raise CandidateInvalid(
            f"there is no {name} at module level; add `{name} = {example}` or its tunables"
        )
    if len(found) > 1:
        raise CandidateInvalid(f"line {found[1].lineno}: {name} is assigned twice; keep one")
    return found[0]


def _literal(tree: ast.Module, name: str) -> object:
    node = _assigned(tree, name)
    remedy = f"write {name} as a plain dict of names, numbers, booleans and strings"
    for inner in ast.walk(node):
        if isinstance(inner, ast.Dict):
            keys = [key.value for key in inner.keys if isinstance(key, ast.Constant)]
            repeated = next((key for index, key in enumerate(keys) if key in keys[:index]), None)
            if repeated is not None:
                raise CandidateInvalid(
                    f"line {inner.lineno}: {name} lists {_shown(repeated)} twice; keep one"
                )
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        raise CandidateInvalid(f"line {node.lineno}: {name} is not a literal; {remedy}") from None


def _check_entry(tree: ast.Module, entry: str) -> None:
    found = [
        node
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and node.name == entry
    ]
    expected = _signature(entry)
    if not found:
        raise CandidateInvalid(f"there is no entry function {entry}; define `{expected}` at module level")
    if len(found) > 1:
        raise CandidateInvalid(f"line {found[1].lineno}: {entry} is defined twice; keep one")
    function = found[0]
    if not isinstance(function, ast.FunctionDef):
        raise CandidateInvalid(f"line {function.lineno}: {entry} is no plain function; define `{expected}`")
    if entry in ENTRY_PARAMETERS and not _can_be_called(function.args, *ENTRY_PARAMETERS[entry]):
        raise CandidateInvalid(
            f"line {function.lineno}: {entry} has the wrong parameters; define `{expected}`"
        )


def _signature(entry: str) -> str:
    if entry not in ENTRY_PARAMETERS:
        return f"def {entry}(...):"
    positional, keywords = ENTRY_PARAMETERS[entry]
    return f"def {entry}({', '.join(positional)}, *, {', '.join(keywords)}):"


def _can_be_called(arguments: ast.arguments, positional: Sequence[str], keywords: Sequence[str]) -> bool:
    """Whether a call with these arguments binds, the positional ones under their own names."""
    names = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args)]
    if names[: len(positional)] != list(positional):
        return False
    by_keyword = {
        argument.arg for argument in arguments.args[max(0, len(positional) - len(arguments.posonlyargs)) :]
    }
    by_keyword |= {argument.arg for argument in arguments.kwonlyargs}
    if not set(keywords) <= by_keyword and arguments.kwarg is None:
        return False
    with_default = set(names[len(names) - len(arguments.defaults) :])
    with_default |= {
        argument.arg
        for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        if default is not None
    }
    required = {
        *names[len(positional) :],
        *(argument.arg for argument in arguments.kwonlyargs),
    } - with_default
    return required <= set(keywords)


# ---- tunables and settings ------------------------------------------------------------------------


def _checked_space(value: object) -> Space:
    if not isinstance(value, dict):
        raise CandidateInvalid("SPACE is no dict; write `SPACE = {name: [values]}`")
    if len(value) > MAX_TUNABLES:
        raise CandidateInvalid(f"SPACE lists {len(value)} tunables; keep at most {MAX_TUNABLES}")
    space: Space = {}
    for name, values in value.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise CandidateInvalid(f"SPACE holds the name {_shown(name)}; use plain Python names")
        if not isinstance(values, list) or not values:
            raise CandidateInvalid(f"SPACE[{name!r}] is no list of values; write `[first, second, …]`")
        if len(values) > MAX_VALUES:
            raise CandidateInvalid(f"SPACE[{name!r}] lists {len(values)} values; keep at most {MAX_VALUES}")
        for index, item in enumerate(values):
            if not _is_value(item):
                raise CandidateInvalid(
                    f"SPACE[{name!r}] holds {_shown(item)}; use finite numbers, booleans and short strings"
                )
            if _is_among(item, values[:index]):
                raise CandidateInvalid(f"SPACE[{name!r}] lists {_shown(item)} twice; keep one")
        space[name] = list(values)
    return space


def _checked_config(value: object, space: Space) -> Config:
    if not isinstance(value, dict):
        raise CandidateInvalid('CONFIG is no dict; write `CONFIG = {"*": {name: value}}`')
    if len(value) > MAX_BUCKETS:
        raise CandidateInvalid(f"CONFIG lists {len(value)} buckets; keep at most {MAX_BUCKETS}")
    config: Config = {}
    for bucket, values in value.items():
        if not isinstance(bucket, str) or not _BUCKET.fullmatch(bucket):
            raise CandidateInvalid(
                f'CONFIG holds the bucket {_shown(bucket)}; use bucket names of the task and "*"'
            )
        if not isinstance(values, dict):
            raise CandidateInvalid(f"CONFIG[{bucket!r}] is no dict; write `{{name: value}}`")
        for name, item in values.items():
            if not isinstance(name, str) or name not in space:
                raise CandidateInvalid(
                    f"CONFIG[{bucket!r}] sets {_shown(name)}, which SPACE does not list; add it"
                )
            if not _is_among(item, space[name]):
                choices = _short(", ".join(map(repr, space[name])))
                raise CandidateInvalid(
                    f"CONFIG[{bucket!r}][{name!r}] = {_shown(item)} is not in SPACE; choose one of {choices}"
                )
        config[bucket] = dict(values)
    missing = [name for name in space if name not in config.get(REST, {})]
    if REST not in config or missing:
        names = f" for {_short(', '.join(missing))}" if missing else ""
        raise CandidateInvalid(f'CONFIG["*"] has no value{names}; give every tunable of SPACE a value there')
    return config


def _is_value(item: object) -> bool:
    if isinstance(item, bool):
        return True
    if isinstance(item, int):
        return abs(item) < 2**63
    if isinstance(item, float):
        return math.isfinite(item)
    return isinstance(item, str) and len(item) <= MAX_TEXT_VALUE and item.isprintable()


def _is_among(item: object, values: Sequence[object]) -> bool:
    """Membership that tells 1 from True and from 1.0."""
    return any(type(item) is type(value) and item == value for value in values)


def _formatted(config: Config, newline: str) -> str:
    rows = ["{"]
    for bucket, values in config.items():
        items = [f"{_python_text(name)}: {_python_text(value)}" for name, value in values.items()]
        row = f"    {_python_text(bucket)}: {{{', '.join(items)}}},"
        if len(row) <= LINE_LENGTH:
            rows.append(row)
        else:
            rows.append(f"    {_python_text(bucket)}: {{")
            rows.extend(f"        {item}," for item in items)
            rows.append("    },")
    rows.append("}")
    return newline.join(rows)


def _python_text(value: Value) -> str:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


def _lines_with_ends(source: str) -> list[str]:
    """Lines as Python's tokenizer counts them: split at LF, CR and CRLF alone."""
    ends = [match.end() for match in _LINE_END.finditer(source)]
    starts = [0, *ends]
    return [source[start:end] for start, end in zip(starts, [*ends, len(source)], strict=True)]


def _shown(value: object) -> str:
    try:
        return _short(repr(value), 60)
    except ValueError:  # an integer with too many digits to print
        return "a huge number"


def _short(text: str, length: int = 160) -> str:
    line = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return line if len(line) <= length else line[: length - 1] + "…"


def _cause(error: Exception) -> str:
    if isinstance(error, OSError) and error.errno is not None:
        return errno.errorcode.get(error.errno, "") and os.strerror(error.errno).lower()
    return "not a usable path"
