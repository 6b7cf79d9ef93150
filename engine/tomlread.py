"""TOML files read strictly: every wrong value is named with its file, line and remedy.

`tomllib` gives values without positions, so a light scan of the text finds the line of each key. Tables are
read through `Table`, which checks types and ranges as values are taken, and whose `done()` refuses keys that
nobody took. Files come from people: they may be missing, huge, not UTF-8 or not TOML at all.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from kernel_lab.engine.errors import LabError

MAX_BYTES = 1_000_000

Where = tuple[str | int, ...]
"""Keys from the top of the file; an int is the index in an array of tables."""


def near(word: str, known: Iterable[str]) -> str:
    """` (did you mean "x"?)` for the known word nearest to `word`, or an empty string."""
    import difflib  # needed for messages alone, and start-up counts

    found = difflib.get_close_matches(word.lower(), sorted(known), n=1, cutoff=0.55)
    return f' (did you mean "{found[0]}"?)' if found else ""


class TomlFile:
    """One file, parsed. `error` is the LabError subclass that everything wrong with it is raised as."""

    def __init__(self, path: Path, error: type[LabError]) -> None:
        self.path = path
        self._error = error
        self._lines: dict[Where, int] = {}
        text = self._text()
        try:
            self.data: dict[str, Any] = tomllib.loads(text)
        except (tomllib.TOMLDecodeError, RecursionError) as problem:
            place = re.search(r"\(at line (\d+), column \d+\)", str(problem))
            line = int(place.group(1)) if place else text.count("\n") + 1
            what = re.sub(r"\s*\(at .*\)$", "", str(problem))
            self._raise(line, f"not valid TOML: {what}", "correct that line")
        self._lines = _key_lines(text)

    def _text(self) -> str:
        try:
            if self.path.stat().st_size > MAX_BYTES:
                self._raise(1, f"larger than {MAX_BYTES:,} B", "it should hold a few kilobytes of facts")
            return self.path.read_bytes().decode("utf-8")
        except UnicodeDecodeError as problem:
            line = problem.object[: problem.start].count(b"\n") + 1
            self._raise(line, "not UTF-8", "save the file as UTF-8")
        except OSError as problem:
            raise self._error(
                f"{self.path}: cannot be read ({problem.strerror}); check the path and its permissions"
            ) from None

    def line_of(self, where: Where) -> int:
        """Line of a key, or of the nearest thing around it that has one."""
        while where and where not in self._lines:
            where = where[:-1]
        return self._lines.get(where, 1)

    def fail(self, where: Where, problem: str, remedy: str) -> NoReturn:
        self._raise(self.line_of(where), problem, remedy)

    def _raise(self, line: int, problem: str, remedy: str) -> NoReturn:
        raise self._error(f"{self.path}, line {line}: {problem}; {remedy}") from None

    def root(self) -> Table:
        return Table(self, (), self.data)


class Table:
    """One table of a file; values are taken by name and checked on the way."""

    def __init__(self, file: TomlFile, where: Where, data: dict[str, Any]) -> None:
        self.file = file
        self.where = where
        self._data = data
        self._taken: set[str] = set()

    def names(self) -> list[str]:
        return list(self._data)

    def has(self, key: str) -> bool:
        return key in self._data

    def fail(self, key: str, problem: str, remedy: str) -> NoReturn:
        self.file.fail((*self.where, key), problem, remedy)

    def value(self, key: str, expected: str) -> Any:
        """The raw value; fails when the key is missing. `expected` says what should stand there."""
        if key not in self._data:
            inside = f" in [{_dotted(self.where)}]" if self.where else ""
            self.file.fail(self.where, f'"{key}" is missing{inside}', f"add {key} = {expected}")
        self._taken.add(key)
        return self._data[key]

    def text(self, key: str, *, one_of: Sequence[str] | None = None, default: str | None = None) -> str:
        if default is not None and key not in self._data:
            return default
        value = self.value(key, one_of_text(one_of) if one_of else 'a text in "quotes"')
        if not isinstance(value, str) or not value.strip():
            self._wrong_type(key, value, 'a text in "quotes" that is not empty')
        if one_of is not None and value not in one_of:
            self.fail(key, f'"{key}" is "{value}"{near(value, one_of)}', f"use {one_of_text(one_of)}")
        return value

    def integer(self, key: str, *, low: int = 1, high: int | None = None, default: int | None = None) -> int:
        if default is not None and key not in self._data:
            return default
        value = self.value(key, "a whole number")
        if not isinstance(value, int) or isinstance(value, bool):
            self._wrong_type(key, value, "a whole number")
        self._check_range(key, value, low, high)
        return value

    def number(self, key: str, *, above: float = 0.0, high: float | None = None) -> float:
        """A finite number greater than `above` and at most `high`."""
        value = self.value(key, "a number")
        return self.checked_number(key, value, above=above, high=high)

    def checked_number(self, key: str, value: Any, *, above: float, high: float | None = None) -> float:
        if not isinstance(value, int | float) or isinstance(value, bool):
            self._wrong_type(key, value, "a number")
        if not (value > above and value != float("inf")):
            self.fail(key, f'"{key}" is {value}, which cannot be', f"use a number above {above:g}")
        if high is not None and value > high:
            self.fail(key, f'"{key}" is {value}, which cannot be', f"use a number of at most {high:g}")
        return float(value)

    def boolean(self, key: str) -> bool:
        value = self.value(key, "true or false")
        if not isinstance(value, bool):
            self._wrong_type(key, value, "true or false")
        return value

    def texts(self, key: str, *, default: tuple[str, ...] | None = None) -> tuple[str, ...]:
        if default is not None and key not in self._data:
            return default
        value = self.value(key, 'a list of texts, such as ["a", "b"]')
        if not isinstance(value, list) or not all(isinstance(item, str) and item.strip() for item in value):
            self._wrong_type(key, value, 'a list of texts, such as ["a", "b"]')
        return tuple(value)

    def table(self, key: str) -> Table:
        value = self.value(key, "{ … } or a section of its own")
        if not isinstance(value, dict):
            self._wrong_type(key, value, "a table")
        return Table(self.file, (*self.where, key), value)

    def tables(self, key: str, *, required: bool = True) -> list[Table]:
        """An array of tables, `[[key]]`; empty when it may be missing and is."""
        if not required and key not in self._data:
            return []
        value = self.value(key, f"at least one [[{_dotted((*self.where, key))}]] section")
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            self._wrong_type(key, value, f"[[{_dotted((*self.where, key))}]] sections")
        if required and not value:
            self.fail(key, f'"{key}" is empty', "add at least one entry")
        return [Table(self.file, (*self.where, key, index), item) for index, item in enumerate(value)]

    def done(self) -> None:
        """Refuse the first key that nothing has taken: most often a typing error."""
        for key in self._data:
            if key not in self._taken:
                known = ", ".join(sorted(self._taken))
                self.fail(key, f'unknown key "{key}"{near(key, self._taken)}', f"known here: {known}")

    def _check_range(self, key: str, value: int, low: int, high: int | None) -> None:
        if value < low:
            self.fail(key, f'"{key}" is {value}, which cannot be', f"use a whole number of at least {low}")
        if high is not None and value > high:
            self.fail(key, f'"{key}" is {value}, which cannot be', f"use a whole number of at most {high}")

    def _wrong_type(self, key: str, value: Any, expected: str) -> NoReturn:
        self.fail(key, f'"{key}" is {_kind(value)}', f"it must be {expected}")


def one_of_text(words: Sequence[str]) -> str:
    return " or ".join(f'"{word}"' for word in words)


def _kind(value: Any) -> str:
    names = {bool: "true/false", int: "a whole number", float: "a number", str: "a text", list: "a list"}
    kind = "a table" if isinstance(value, dict) else names.get(type(value), "a date or time")
    if isinstance(value, str):
        return "an empty text" if not value.strip() else kind
    return kind


def _dotted(where: Where) -> str:
    return ".".join(part for part in where if isinstance(part, str))


_HEADER = re.compile(r"^\s*(\[\[?)\s*([^\]]+?)\s*\]\]?\s*(?:#.*)?$")
_KEY = re.compile(r"""^\s*((?:"[^"]*"|'[^']*'|[\w-]+)(?:\s*\.\s*(?:"[^"]*"|'[^']*'|[\w-]+))*)\s*=""")
_TRIPLE = re.compile(r'"""|\'\'\'')


def _key_lines(text: str) -> dict[Where, int]:
    """Where each key and section of a valid TOML text begins; keys of inline tables are not listed."""
    lines: dict[Where, int] = {}
    counts: dict[Where, int] = {}
    section: Where = ()
    open_quote = ""
    depth = 0
    for number, line in enumerate(text.splitlines(), start=1):
        if open_quote:
            if open_quote in line:
                open_quote = ""
            continue
        if depth == 0:
            header = _HEADER.match(line)
            if header:
                section = _enter(header.group(1) == "[[", _parts(header.group(2)), counts)
                for length in range(1, len(section) + 1):
                    lines.setdefault(section[:length], number)
                continue
            key = _KEY.match(line)
            if key:
                path = section
                for part in _parts(key.group(1)):
                    path = (*path, part)
                    lines.setdefault(path, number)
        quotes = _TRIPLE.findall(line)
        if len(quotes) % 2:
            open_quote = quotes[-1]
            continue
        bare = re.sub(r'"(?:\\.|[^"\\])*"|\'[^\']*\'|#.*$', "", line)
        depth += bare.count("[") + bare.count("{") - bare.count("]") - bare.count("}")
    return lines


def _enter(array: bool, parts: list[str], counts: dict[Where, int]) -> Where:
    """Full path of a section header; names of arrays of tables stand for their latest entry."""
    where: Where = ()
    for part in parts[:-1]:
        where = (*where, part)
        if where in counts:
            where = (*where, counts[where])
    where = (*where, parts[-1])
    if array:
        counts[where] = counts.get(where, -1) + 1
        where = (*where, counts[where])
    return where


def _parts(dotted: str) -> list[str]:
    return [part.strip("\"'") for part in re.findall(r""""[^"]*"|'[^']*'|[\w-]+""", dotted)]
