"""What a candidate's process says about itself, checked for form before anything relies on it.

A message with the right nonce comes from the harness's code, unless the candidate has taken that over. Then
the form is all that can be checked, and a wrong form means just that.
"""

from __future__ import annotations

from typing import Any

from children import Failed
from wire import one_line

NAME_LIMIT = 200
ARGUMENTS_LIMIT = 256
GIVEN_LIMIT = 1024
GRID_LIMIT = 1 << 31


def _need(condition: bool) -> None:
    if not condition:
        raise Failed("cheat", "sent a result of the wrong form")


def _name(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) <= NAME_LIMIT


def _grid(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) == 3
        and all(type(n) is int and 0 < n < GRID_LIMIT for n in value)
    )


def _given(value: Any) -> bool:
    """What a launch was given beside its tensors."""
    return (
        isinstance(value, dict)
        and len(value) <= GIVEN_LIMIT
        and all(_name(key) and isinstance(v, str) and len(v) <= NAME_LIMIT for key, v in value.items())
    )


def unit(value: Any) -> dict[str, Any]:
    """A kernel's intermediate code, from a capture."""
    _need(isinstance(value, dict) and all(_name(value.get(key)) for key in ("key", "name")))
    _need(value.get("suffix") in ("ttir", "ttgir") and isinstance(value.get("text"), str))
    options = value.get("options")
    _need(isinstance(options, dict) and len(options) < 32)
    _need(all(isinstance(v, str | int | float | None) for v in options.values()))
    checked: dict[str, Any] = value
    return checked


def launches(value: Any, units: set[str]) -> list[dict[str, Any]]:
    """The launches of one call, from a capture. `units`: those that were sent."""
    _need(isinstance(value, list) and len(value) > 0)
    for one in value:
        _need(isinstance(one, dict) and one.get("unit") in units and _name(one.get("kernel")))
        _need(_grid(one.get("grid")) and _given(one.get("given")))
        arguments = one.get("args")
        _need(isinstance(arguments, list) and len(arguments) <= ARGUMENTS_LIMIT)
        _need(all(isinstance(a, dict) and _name(a.get("name")) for a in arguments))
    checked: list[dict[str, Any]] = value
    return checked


def report(value: Any) -> dict[str, Any]:
    """What a trial says about one call. `given` has a place for each launch."""
    _need(isinstance(value, dict))
    for key in ("foreign", "synchronising", "aliases"):
        _need(isinstance(value.get(key), list) and all(isinstance(v, str) for v in value[key]))
    _need(isinstance(value.get("aten"), dict) and len(value["aten"]) < 1000)
    for key in ("poisoned", "seconds"):
        _need(isinstance(value.get(key), int | float))
    _need(isinstance(value.get("shares_previous"), bool) and _name(value.get("dtype")))
    for key in ("shape", "threads"):
        _need(isinstance(value.get(key), list) and all(type(n) is int for n in value[key]))
    _need(len(value["threads"]) == 2)
    hazards = value.setdefault("hazards", {})
    _need(isinstance(hazards, dict) and len(hazards) < 10)
    for texts in hazards.values():
        _need(isinstance(texts, list) and 0 < len(texts) < 10 and all(isinstance(v, str) for v in texts))
    value["hazards"] = {key: [one_line(text) for text in texts] for key, texts in hazards.items()}
    return launched(value)


def launched(value: Any) -> dict[str, Any]:
    """The launches in a trial's report."""
    _need(isinstance(value, dict))
    seen = value.get("launches")
    _need(isinstance(seen, list) and len(seen) < 1000)
    _need(all(isinstance(v, list) and len(v) == 2 and _name(v[0]) and _grid(v[1]) for v in seen))
    given = value.setdefault("given", [{} for _ in seen])
    _need(isinstance(given, list) and len(given) == len(seen) and all(_given(v) for v in given))
    checked: dict[str, Any] = value
    return checked


def sample(value: Any, shape: dict[str, Any], most: int) -> dict[str, Any]:
    """What a trial says about a sample of a launch whose result is `shape`d [batch, head, query, D]."""
    _need(isinstance(value, dict) and isinstance(value.get("seconds"), int | float))
    for key in ("unproven", "nothing"):
        if key in value:
            _need(isinstance(value[key], str))
            return {key: one_line(value[key]), "seconds": value["seconds"]}
    rows, programs = value.get("rows"), value.get("programs")
    _need(isinstance(rows, list) and 0 < len(rows) <= most)
    for row in rows:
        _need(isinstance(row, list) and len(row) == 3 and all(type(n) is int for n in row))
        _need(all(0 <= n < size for n, size in zip(row, shape["shape"][:3], strict=True)))
    _need(isinstance(programs, list) and all(isinstance(text, str) for text in programs))
    return {"rows": rows, "programs": [one_line(p, 80) for p in programs[:8]], "seconds": value["seconds"]}


def names(value: Any) -> list[str]:
    _need(isinstance(value, list) and all(isinstance(v, str) for v in value))
    checked: list[str] = value
    return checked


def refusal(value: Any) -> Failed:
    """The reason that the harness's code in the candidate's process gave up."""
    known = ("invalid", "compile_error", "oom", "crash", "cheat", "unproven")
    _need(isinstance(value, dict) and value.get("outcome") in known and isinstance(value.get("detail"), str))
    return Failed(value["outcome"], value["detail"])
