"""Entry of the `kernel-lab` command: parse, hand over, and turn every error into one line.

Exit status: 0 success, 1 the candidate was turned down or the check failed, 2 wrong use or environment
(130 after Ctrl+C, as shells have it). Nothing is imported before it is needed: neither the screen nor torch
is loaded for a command that does without.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import importlib
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, cast

from kernel_lab.engine.errors import LabError
from kernel_lab.tui.cli_parser import build_parser

OK, TURNED_DOWN, WRONG, INTERRUPTED = 0, 1, 2, 130

Handler = Callable[[argparse.Namespace], int]


def main(argv: Sequence[str] | None = None) -> int:
    """Carry out one command line and return the exit status."""
    for stream in (sys.stdout, sys.stderr):
        _never_fail_on_a_character(stream)
    try:
        options = build_parser().parse_command(argv)
        status = _handler(options.handler)(options)
        sys.stdout.flush()
        for line in options.beside:
            _note(line)
    except LabError as error:
        return fail(str(error), error.exit_status)
    except KeyboardInterrupt:
        return fail("interrupted; the same command starts again", INTERRUPTED)
    except BrokenPipeError:
        # The reader (`head`, a pager) has what it wanted; the interpreter must not flush into it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            return fail(_unexpected(error), WRONG)
        return fail("the disk is full where the answer was to be written: free some space", WRONG)
    except Exception as error:  # noqa: BLE001  the last stand before a person
        return fail(_unexpected(error), WRONG)
    return status


def fail(message: str, status: int) -> int:
    """Print the one line of an error, without characters that a terminal obeys, and return `status`."""
    from kernel_lab.tui.output import clean

    print(f"kernel-lab: {clean(message)}", file=sys.stderr, flush=True)
    return status


def _note(line: str) -> None:
    from kernel_lab.tui.output import note

    note(line)


def _handler(name: str) -> Handler:
    module, function = name.split(":")
    return cast(Handler, getattr(importlib.import_module(module), function))


def _never_fail_on_a_character(stream: IO[str] | None) -> None:
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="replace")


def _unexpected(error: Exception) -> str:
    """The line for an error that nobody foresaw; its traceback goes to a file."""
    import tempfile
    import time
    import traceback

    what = f"unexpected {type(error).__name__}: {error}"
    name = time.strftime("crash-%Y%m%d-%H%M%S") + f"-{os.getpid()}.log"
    folders: list[Path] = [Path(tempfile.gettempdir())]
    with contextlib.suppress(Exception):
        from kernel_lab.engine.paths import state_dir

        folders.insert(0, state_dir())
    for folder in folders:
        with contextlib.suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            path = folder / name
            path.write_text("".join(traceback.format_exception(error)), encoding="utf-8")
            return f"{what}; this is a mistake in kernel-lab: please report it with {path}"
    return f"{what}; this is a mistake in kernel-lab: please report it"


if __name__ == "__main__":
    sys.exit(main())
