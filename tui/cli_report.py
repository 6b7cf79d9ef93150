"""`kernel-lab report`: the lab as one HTML page, written beside what is there and over nothing foreign."""

from __future__ import annotations

import argparse
import re
import sys
import time
from contextlib import closing, suppress
from pathlib import Path

from kernel_lab.engine import paths
from kernel_lab.engine.errors import UsageError
from kernel_lab.engine.ledger.store import DATABASE, Ledger
from kernel_lab.tui import output, report
from kernel_lab.tui.cli_lab import reading


def run(options: argparse.Namespace) -> int:
    """Write the page and print where it lies; `-` writes it to standard output."""
    with reading(options) as lab:
        text = report.page(lab.ledger, lab.name, time.time())
        name = lab.name
    if options.output == "-":
        sys.stdout.write(text)
        return 0
    path = Path(options.output) if options.output else Path(f"{_file_name(name)}.html")
    write(path, text)
    if options.json:
        output.print_json({"report": path.absolute(), "bytes": len(text.encode())})
    else:
        print(output.clean(f"wrote {path}: open it in a browser; it needs no network"))
    return 0


def write_beside(lab: Path, name: str) -> Path:
    """Write the report of a lab's folder, or of a recording's file, into the present folder; where it lies.

    A present folder that cannot be written, or has another file of that name, is passed over for the state
    folder. Raises LabError.
    """
    ledger = Ledger.recording(lab / DATABASE if lab.is_dir() else lab)
    with closing(ledger):
        text = report.page(ledger, name, time.time())
    file = f"{_file_name(name)}.html"
    try:
        path = Path.cwd() / file
        write(path, text)
    except (UsageError, OSError):
        folder = paths.state_dir() / "reports"
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
        path = folder / file
        write(path, text)
    return path


def write(path: Path, text: str) -> None:
    """Write a report, over another report at most. Raises UsageError."""
    try:
        if path.is_dir():
            raise UsageError(f"{path} is a folder: name a file with -o")
        if path.exists():
            with path.open(encoding="utf-8", errors="replace") as file:
                if report.MARK not in file.read(200):
                    raise UsageError(f"{path} is no report and was left as it is: name another file with -o")
        new = path.with_name(f".{path.name}.new")
        new.write_text(text, encoding="utf-8")
        new.replace(path)
    except OSError as problem:
        why = problem.strerror or problem
        raise UsageError(f"{path} cannot be written ({why}): name another file with -o") from None


def _file_name(lab: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", lab).strip("-.") or "report"
