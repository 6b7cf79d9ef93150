"""Commands about one experiment: everything known about it, and what it changed."""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from kernel_lab.engine import receipt
from kernel_lab.engine.errors import LabError, UsageError
from kernel_lab.engine.events import AgentSaid, Decided, Remeasured, Screened, StatusRevised
from kernel_lab.engine.facts import Launch, Speed
from kernel_lab.engine.lab import Lab
from kernel_lab.engine.ledger.views import CheckRow, ExperimentRow, TrialRow
from kernel_lab.tui import output
from kernel_lab.tui.cli_lab import experiment_of, reading
from kernel_lab.tui.cli_read import spending_words

SAID_LINES = 40
"""Lines of what an agent said that are printed, from the end; `--json` has more."""


def show(options: argparse.Namespace) -> int:
    """Everything known about one experiment, or the receipt of a kept one."""
    with reading(options) as lab:
        row = experiment_of(lab, options.experiment)
        if options.receipt:
            sys.stdout.write(receipt.render(receipt.collect(lab.ledger, row.id)))
            return 0
        trials, checks = lab.ledger.trials(row.id), lab.ledger.checks(row.id)
        speed = lab.ledger.speed(row.id)
        launches: Sequence[Launch] = ()
        history: list[dict[str, Any]] = []
        said = ""
        for record in lab.ledger.records(experiment=row.id):
            if isinstance(record.event, Screened):
                launches = record.event.launches
            elif isinstance(record.event, Decided | StatusRevised | Remeasured):
                history.append({"time": record.time, "type": record.type, **output.plain(record.event)})
            elif isinstance(record.event, AgentSaid):
                said = record.event.text
        source = _source(lab, row)
        spent = lab.ledger.spending(row.id)
        question = next((q for q in lab.ledger.open_questions() if q.experiment == row.id), None)
    if options.json:
        output.print_json(
            {
                "experiment": row,
                "question": question,
                "trials": trials,
                "checks": checks,
                "launches": launches,
                "speed": speed,
                "decisions": history,
                "source": source,
                "said": said,
                "agents": {**asdict(spent), "tokens": spent.tokens},
            }
        )
        return 0
    _print_head(row, question.reason if question else None)
    if spent.requests:
        print(f"  agents     {spending_words(spent)}")
    _print_speed(speed)
    _print_trials(trials)
    _print_checks(checks)
    print_launches(launches)
    if said:
        print("\nwhat the agent said:")
        for line in said.strip().splitlines()[-SAID_LINES:]:
            print(output.clean(f"  {line}"))
    for entry in history:
        word = entry.get("decision") or entry.get("status")
        if word is None:
            print(output.clean(f"judged again: {entry['outcome']}, against #{entry['against']}"))
            continue
        print(
            output.clean(
                f"{word} by {output.who(entry['by'])}" + (f": {entry['why']}" if entry["why"] else "")
            )
        )
    return 0


def _print_head(row: ExperimentRow, question: str | None) -> None:
    state = row.phase if row.status == "running" and row.phase else row.status
    state = "waits for you" if state == output.PERSON else state
    origin = "" if row.parent is None else f" from #{row.parent}"
    print(output.clean(f"#{row.id} {row.task}{origin} by {output.who(row.proposer)}: {state}"))
    if question:
        print(output.clean(f"needs you: {question}"))
    prediction = row.prediction
    predicted = ""
    if prediction is not None and prediction.gain_percent is not None:
        predicted = f"{prediction.gain_percent:+.1f} %"
        if prediction.bottleneck:
            predicted += f", then bound by {prediction.bottleneck}"
    for name, value in (
        ("what", row.description),
        ("why", row.hypothesis),
        ("lever", row.lever),
        ("predicted", predicted),
        ("ideas", ", ".join(map(str, row.ideas))),
        ("commit", row.commit or ""),
        ("candidate", row.source_sha or ""),
    ):
        if value:
            print(output.clean(f"  {name:<10} {value}"))
    for reason in row.reasons:
        print(output.clean(f"  reason     {output.who(reason.gate)} {reason.probe}: {reason.detail}"))


def _print_speed(speed: Speed | None) -> None:
    if speed is not None:
        print()
        print_speed(speed)


def print_speed(speed: Speed) -> None:
    """Scores and the table of workloads; estimates carry `~` and are said to be estimates."""
    others = sorted(speed.score, key=lambda name: (_ORDER.get(name, len(_ORDER)), name))
    about = "~" if speed.kind == "estimated" else ""
    rows = [
        [
            workload.workload,
            workload.bucket,
            f"{about}{workload.time_us:.1f}",
            f"{about}{workload.rate:.2f} {workload.rate_unit}",
            f"{workload.roof_percent:.0f} %",
            workload.bound,
            *(output.ratio(workload.vs.get(other), speed.kind) for other in others),
        ]
        for workload in speed.per_workload
    ]
    heads = [
        "workload",
        "bucket",
        "µs",
        "rate",
        "of roof",
        "bound by",
        *(f"× {_NAMES.get(o, o)}" for o in others),
    ]
    print(output.table(heads, rows, right=(2, 3, 4, *range(6, 6 + len(others)))))
    for other in others:
        interval = speed.ci.get(other)
        between = f" [{interval[0]:.3f}, {interval[1]:.3f}]" if interval else ""
        print(f"{speed.kind} {output.ratio(speed.score[other])}{between} against {_NAMES.get(other, other)}")


_ORDER = {"seed": 0, "champion": 1, "fa2": 2}
_NAMES = {"fa2": "FA2"}


def _print_trials(trials: Sequence[TrialRow]) -> None:
    if trials:
        cells = [
            [
                trial.trial,
                trial.bucket,
                trial.status,
                output.ratio(trial.vs_parent),
                " ".join(f"{name}={value}" for name, value in trial.values.items()),
                trial.detail,
            ]
            for trial in trials
        ]
        print()
        print(output.table(["trial", "bucket", "status", "× parent", "values", ""], cells, right=(0, 3)))


def _print_checks(checks: Sequence[CheckRow]) -> None:
    """Numbers stand only where a check compares some: a probe is passed or failed."""
    if checks:
        cells = [
            [
                row.status,
                row.gate,
                row.case,
                row.probe,
                f"{row.error:.2e}" if row.error is not None and row.limit else "",
                f"{row.limit:.2e}" if row.error is not None and row.limit else "",
                row.detail,
            ]
            for row in checks
        ]
        print()
        print(output.table(["check", "gate", "case", "probe", "error", "limit", ""], cells, right=(4, 5)))


def print_launches(launches: Sequence[Launch]) -> None:
    """The table of compiled kernels."""
    if launches:
        cells = [
            [
                launch.workload,
                launch.kernel,
                "×".join(map(str, launch.grid)),
                launch.num_warps,
                f"{launch.smem_bytes:,}",
                launch.registers,
                launch.spill_bytes,
                launch.tensor_cores or "–",
                f"{launch.occupancy:.0%}",
            ]
            for launch in launches
        ]
        heads = [
            "workload",
            "kernel",
            "grid",
            "warps",
            "smem B",
            "regs",
            "spill B",
            "tensor cores",
            "occupancy",
        ]
        print()
        print(output.table(heads, cells, right=(3, 4, 5, 6, 8)))


def diff(options: argparse.Namespace) -> int:
    """What an experiment changed against its parent, the champion or the seed."""
    with reading(options) as lab:
        row = experiment_of(lab, options.experiment)
        other = _other_side(lab, row, options.against)
        new, old = _source(lab, row), _source(lab, other)
    if new is None:
        raise UsageError(f"#{row.id} has no candidate yet: `kernel-lab show {row.id}` says where it is")
    if old is None:
        raise UsageError(f"#{other.id} has no candidate to compare with: choose another side with --against")
    lines = list(
        difflib.unified_diff(
            old.splitlines(),
            new.splitlines(),
            f"#{other.id} {other.status}",
            f"#{row.id} {row.status}",
            lineterm="",
        )
    )
    if options.json:
        text = "".join(f"{line}\n" for line in lines)
        output.print_json({"experiment": row.id, "against": other.id, "side": options.against, "diff": text})
    elif lines:
        for line in lines:
            print(output.clean(line, keep_lines=True))
    else:
        print(f"no difference between #{row.id} and #{other.id}")
    return 0


def _other_side(lab: Lab, row: ExperimentRow, against: str) -> ExperimentRow:
    if against == "champion":
        number = lab.ledger.view().champions.get(row.task)
    elif against == "seed":
        seeds = (seed.id for seed in lab.ledger.experiments(task=row.task) if seed.parent is None)
        number = next(seeds, None)
    else:
        number = row.parent
    if number is None:
        sides = "; a seed has no parent" if row.parent is None else ""
        raise UsageError(f"#{row.id} has no {against} to compare with{sides}: choose another with --against")
    return experiment_of(lab, number)


def _source(lab: Lab, row: ExperimentRow) -> str | None:
    if row.source_sha is None:
        return None
    try:
        return lab.ledger.blob(row.source_sha).decode(errors="replace")
    except LabError:
        return None
