"""Load a candidate in its own process, call it, and say what went wrong in one line of its terms."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from wire import one_line

MODULE_NAME = "candidate"


class Refused(Exception):
    """The candidate cannot go on: `outcome` is a word of the host protocol."""

    def __init__(self, outcome: str, detail: str) -> None:
        super().__init__(detail)
        self.outcome = outcome
        self.detail = one_line(detail)


def load(path: str, entry: str) -> Callable[..., Any]:
    """The candidate's entry function."""
    spec = importlib.util.spec_from_file_location(MODULE_NAME, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[MODULE_NAME] = module
    try:
        spec.loader.exec_module(module)
    except (SyntaxError, ImportError) as failure:
        raise Refused("invalid", describe(failure, path)) from failure
    except BaseException as failure:
        raise Refused(outcome_of(failure), f"while loading: {describe(failure, path)}") from failure
    function = getattr(module, entry, None)
    if not callable(function):
        raise Refused("invalid", f"has no function {entry}")
    return function  # type: ignore[no-any-return]


def describe(failure: BaseException, path: str) -> str:
    """`TypeError: … (line 12)`: the exception and the deepest line of the candidate that it passed."""
    line = None
    for frame, number in traceback.walk_tb(failure.__traceback__):
        if frame.f_code.co_filename == path:
            line = number
    if isinstance(failure, SyntaxError) and failure.filename == path:
        line = failure.lineno
        return f"SyntaxError: {failure.msg} (line {line})"
    where = "" if line is None else f" (line {line})"
    return f"{type(failure).__name__}: {failure}{where}"


def outcome_of(failure: BaseException) -> str:
    """Which outcome an exception out of a candidate's call means."""
    name = type(failure).__name__
    text = str(failure)
    if isinstance(failure, MemoryError) or "can't allocate memory" in text or name == "OutOfMemoryError":
        return "oom"
    if name == "OutOfResources":
        return "oom"
    if type(failure).__module__.startswith("triton.compiler") or name in (
        "PTXASError",
        "CompileTimeAssertionFailure",
    ):
        return "compile_error"
    return "crash"


def print_trace(failure: BaseException) -> None:
    """The trace goes to the log, whose tail people can read."""
    traceback.print_exception(type(failure), failure, failure.__traceback__, file=sys.stderr)


def is_own(function: Any, path: str) -> bool:
    """Whether a Python function was written in the candidate's file."""
    code = getattr(function, "__code__", None)
    return code is not None and Path(code.co_filename) == Path(path)
