"""Load a candidate in its own process, call it, and say what went wrong in one line of its terms."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import linecache
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
    """The candidate's entry function. The file is UTF-8, whatever it declares: that text was judged."""
    spec = importlib.util.spec_from_file_location(MODULE_NAME, path)
    if spec is None or spec.loader is None:
        raise Refused("invalid", "cannot be loaded as a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[MODULE_NAME] = module
    try:
        text = Path(path).read_bytes().decode("utf-8-sig")
        _remember_lines(path, text)
        exec(compile(text, path, "exec", dont_inherit=True), module.__dict__)  # noqa: S102 (in its own process)
    except (SyntaxError, ImportError, UnicodeDecodeError) as failure:
        raise Refused("invalid", describe(failure, path)) from failure
    except BaseException as failure:
        raise Refused(outcome_of(failure), f"while loading: {describe(failure, path)}") from failure
    function = getattr(module, entry, None)
    if not callable(function):
        raise Refused("invalid", f"has no function {entry}")
    return function  # type: ignore[no-any-return]


def _remember_lines(path: str, text: str) -> None:
    """Triton compiles the lines that Python remembers of a file, which it would read as they are declared."""
    lines = io.StringIO(text, newline=None).readlines()
    linecache.cache[path] = (len(text), None, lines, path)  # without a time it is never read again


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
    text = f": {failure}" if str(failure) else ""
    return f"{type(failure).__name__}{text}{where}"


def describe_compile(failure: BaseException, kernel: str, path: str) -> str:
    """A failed compile: the kernel, the innermost cause, and the line of the file that it is about.

    Triton nests one error for each device function on the way; each quotes the function's source.
    """
    chain = [failure]
    while chain[-1].__cause__ is not None:
        chain.append(chain[-1].__cause__)
    text = getattr(chain[-1], "error_message", None) or str(chain[-1]) or type(chain[-1]).__name__
    if text.startswith("at ") and (quoted := text.strip().splitlines()):
        text = quoted[-1]
    lines = [found for error in chain if (found := _line_of(error, path)) is not None]
    where = f" (line {lines[-1]})" if lines else ""
    return f"{kernel}: {text}{where}"


def _line_of(error: BaseException, path: str) -> int | None:
    """The line in the file that a Triton error is about, by the source that it quotes."""
    source, number = getattr(error, "src", None), getattr(getattr(error, "node", None), "lineno", None)
    if not isinstance(source, str) or not isinstance(number, int):
        return None
    with contextlib.suppress(OSError):
        whole = Path(path).read_text(encoding="utf-8")
        if (at := whole.find(source.strip())) >= 0:
            return whole[:at].count("\n") + number
    return None


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
    """The trace goes to the log, whose tail people can read. A log that is full stays as it is."""
    with contextlib.suppress(Exception):
        traceback.print_exception(type(failure), failure, failure.__traceback__, file=sys.stderr)
        sys.stderr.flush()


def flush() -> None:
    """Let what was printed reach the log. Raises Refused when the log is full."""
    try:
        sys.stdout.flush()
    except OSError as failure:
        raise Refused("crash", "prints more than the log can hold") from failure


def is_own(function: Any, path: str) -> bool:
    """Whether a Python function was written in the candidate's file."""
    code = getattr(function, "__code__", None)
    return code is not None and Path(code.co_filename) == Path(path)
