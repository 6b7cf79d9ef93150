"""`kernel-lab report`: the lab as one HTML page, written beside what is there and over nothing foreign."""

from __future__ import annotations

import argparse
import re
import sys
import time
from pathlib import Path

from kernel_lab.engine.errors import UsageError
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
