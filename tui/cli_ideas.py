"""`kernel-lab ideas`: what people said, what became of it, and how well ideas were predicted."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from kernel_lab.engine import scores
from kernel_lab.engine.commands import Command, EditIdea, MoveIdea, Withdraw
from kernel_lab.engine.errors import UsageError
from kernel_lab.engine.ledger.views import IdeaRow
from kernel_lab.tui import output
from kernel_lab.tui.cli_lab import reading
from kernel_lab.tui.cli_steer import send

LEVERS_SHOWN = 15


def ideas(options: argparse.Namespace) -> int:
    """List them, or change one that waits."""
    command = _command(options)
    if command is not None:
        return send(options, command)
    with reading(options) as lab:
        rows = lab.ledger.ideas()
        tried = lab.ledger.experiments()
    found = {
        "sources": scores.by_source(tried),
        "levers": scores.by_lever(tried),
        "calibration": scores.calibration(tried),
    }
    if options.json:
        output.print_json({"ideas": rows, **found})
        return 0
    _print_said(rows)
    about = "~" if any(row.score_kind == "estimated" for row in tried) else ""
    titles = {"sources": "proposals of", "levers": "lever", "calibration": "predicted gain"}
    for name, records in found.items():
        if records:
            print()
            _print_records(titles[name], records, about)
    return 0


def _command(options: argparse.Namespace) -> Command | None:
    if options.withdraw is not None:
        return Withdraw(options.withdraw)
    if options.edit is not None:
        number, text = options.edit
        if text == "-":
            text = sys.stdin.read()
        return EditIdea(_whole(number, "IDEA"), text)
    if options.move is not None:
        number, place = options.move
        return MoveIdea(_whole(number, "IDEA"), _whole(place, "PLACE"))
    return None


def _whole(text: str, what: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise UsageError(f"{what} is {text!r}: give a whole number of 1 or more")
    return int(text)


def _print_said(rows: list[IdeaRow]) -> None:
    if not rows:
        print('no ideas yet: `kernel-lab say "…"` tells the proposer one')
        return
    cells = []
    for row in rows:
        used = ", ".join(f"#{number}" for number in row.used_by)
        state = "withdrawn" if row.withdrawn else f"used by {used}" if used else "waiting"
        scope = f"from #{row.from_experiment}" if row.scope == "from" else row.scope
        cells.append([row.id, scope, state, output.who(row.by), row.text])
    print(output.table(["idea", "for", "state", "by", "text"], cells, right=(0,)))


def _print_records(title: str, records: list[scores.Record], about: str) -> None:
    cells = [
        [
            record.name,
            record.proposals,
            record.with_speed,
            record.kept,
            f"{about}{record.gain:.3f}×" if record.kept else "–",
            record.predicted or "",
            _percent(record.mean_predicted_percent),
            f"{about if record.predicted else ''}{_percent(record.mean_result_percent)}",
            "–" if record.mean_error_points is None else f"{record.mean_error_points:.1f}",
            "–" if record.right_sign is None else f"{record.right_sign:.0%}",
        ]
        for record in records[:LEVERS_SHOWN]
    ]
    headers = [title, "tried", "timed", "kept", "gain", "predicted", "mean said", "mean got", "error", "sign"]
    print(output.table(headers, cells, right=tuple(range(1, 10))))
    if len(records) > LEVERS_SHOWN:
        print(f"and {len(records) - LEVERS_SHOWN} more: `kernel-lab ideas --json` lists them all")


def _percent(value: Any) -> str:
    return "–" if value is None else f"{value:+.1f} %"
