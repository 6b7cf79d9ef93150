"""Commands that only read: labs, results, profiles, paths."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import Any

from kernel_lab.engine.errors import ProfileError, UsageError
from kernel_lab.engine.ledger.views import ExperimentRow, LabView, Spending, provisional
from kernel_lab.tui import output
from kernel_lab.tui.cli_lab import reading

TSV_COLUMNS = (
    "commit",
    "score",
    "status",
    "description",
    "experiment",
    "task",
    "parent",
    "score_kind",
    "vs_seed",
    "trials",
    "proposer",
)


def results(options: argparse.Namespace) -> int:
    """Every experiment of a lab, seeds first."""
    with reading(options) as lab:
        view = lab.ledger.view()
        rows = sorted(lab.ledger.experiments(), key=lambda row: (row.parent is not None, row.id))
        asked = {question.experiment for question in lab.ledger.open_questions()}
        path, gpu = lab.path, lab.config.gpu
    if options.json:
        output.print_json(
            {
                "lab": path,
                "device": device(view) or gpu,
                "champions": view.champions,
                "agents": {**asdict(view.spending), "tokens": view.spending.tokens},
                "experiments": [_result(row) for row in rows],
                **({"provisional": why} if (why := provisional(view.selftest)) else {}),
            }
        )
    elif options.tsv:
        print(output.tsv(TSV_COLUMNS, [_tsv_row(row) for row in rows]))
    else:
        _print_results(path, view, rows, asked)
    return 0


def device(view: LabView) -> str:
    """The device in words: `rtx3060 (static)`."""
    return f"{view.gpu} ({view.device_kind})" if view.gpu else ""


def _result(row: ExperimentRow) -> dict[str, Any]:
    return {
        "id": row.id,
        "task": row.task,
        "parent": row.parent,
        "status": row.status,
        "score": row.score.get("fa2"),
        "score_kind": row.score_kind,
        "vs_seed": row.score.get("seed"),
        "ci": row.ci.get("fa2"),
        "trials": row.trials,
        "proposer": row.proposer,
        "description": row.description,
        "commit": row.commit,
        "reasons": row.reasons,
    }


def _tsv_row(row: ExperimentRow) -> list[Any]:
    def number(value: float | None) -> str:
        return "" if value is None else f"{value:.6f}"

    return [
        row.commit,
        number(row.score.get("fa2")),
        row.status,
        row.description,
        row.id,
        row.task,
        row.parent,
        row.score_kind,
        number(row.score.get("seed")),
        row.trials,
        row.proposer,
    ]


def _print_results(path: Path, view: LabView, rows: list[ExperimentRow], asked: set[int]) -> None:
    print(f"{path} · {device(view)} · {view.model}")
    if view.device_kind == "static":
        print("~ marks estimates: no number here was measured")
    if why := provisional(view.selftest):
        print(output.clean(f"wins are kept provisionally: {why} (`kernel-lab selftest`)"))
    champions = {number: task for task, number in view.champions.items()}
    cells = [
        [
            f"#{row.id}{'*' if row.id in champions else ''}",
            row.task,
            "" if row.parent is None else f"#{row.parent}",
            f"{row.status}, needs you" if row.id in asked else row.status,
            output.ratio(row.score.get("seed"), row.score_kind),
            output.ratio(row.score.get("fa2"), row.score_kind),
            row.trials or "",
            output.who(row.proposer),
            row.description,
        ]
        for row in rows
    ]
    headers = ["#", "task", "from", "status", "× seed", "× FA2", "trials", "by", "what"]
    print(output.table(headers, cells, right=(4, 5, 6)))
    for number, task in sorted(champions.items()):
        print(f"* champion of {task}: #{number}")
    if view.spending.requests:
        print(f"agents: {spending_words(view.spending)}")
    for row in view.asked:
        words = f"question {row.id} of an agent: {output.clean(row.text)}"
        print(f"needs you: {words} → kernel-lab answer {row.id} …")


def spending_words(spent: Spending) -> str:
    """`9 requests, 30,000 tokens (12,000 from a cache, 800 thinking), 0.42 USD`."""
    words = f"{spent.requests} requests, {spent.tokens:,} tokens ({spent.cached_tokens:,} from a cache, "
    words += f"{spent.thinking_tokens:,} thinking), "
    if spent.unpriced == spent.requests:
        return f"{words}price unknown"
    unknown = f" and {spent.unpriced} requests of unknown price" if spent.unpriced else ""
    estimated = f"; {spent.incomplete} cut, their output estimated" if spent.incomplete else ""
    return f"{words}{spent.usd:.2f} USD{unknown}{estimated}"


def labs(options: argparse.Namespace) -> int:
    """The labs on this machine, the last used first."""
    from kernel_lab.engine.lab import list_labs

    found = list_labs()
    if options.json:
        output.print_json({"labs": found})
    elif not found:
        print("no labs yet: `kernel-lab run` starts one")
    else:
        cells = []
        for lab in found:
            state = lab.problem or (f"running (process {lab.engine_pid})" if lab.engine_pid else "")
            waiting = f"{lab.waiting} need you" if lab.waiting else ""
            device = f"{lab.gpu} ({lab.device_kind})" if lab.gpu else ""
            tasks = ", ".join(lab.tasks)
            state = ", ".join(part for part in (state, waiting) if part)
            cells.append([lab.name, device, lab.model, tasks, lab.experiments, lab.kept, state, lab.path])
        headers = ["lab", "device", "model", "tasks", "experiments", "kept", "", "folder"]
        print(output.table(headers, cells, right=(4, 5)))
    return 0


def profiles(options: argparse.Namespace) -> int:
    """List, show or validate GPU and model profiles."""
    if options.action == "show":
        return _show_profile(options)
    if options.action == "validate":
        return _validate_profiles(options)
    if options.name:
        raise UsageError(f"`profiles list` takes no name: use `kernel-lab profiles show {options.name}`")
    from kernel_lab.engine.profiles import list_gpus, list_models

    found = {"gpus": list_gpus(), "models": list_models()}
    if options.json:
        output.print_json(found)
        return 0
    for kind, entries in found.items():
        cells = [
            [
                entry.name,
                entry.title,
                "your own" if entry.origin == "user" else "",
                entry.problem or entry.detail,
            ]
            for entry in entries
        ]
        print(output.table([kind, "", "", ""], cells))
        print()
    return 0


def _show_profile(options: argparse.Namespace) -> int:
    from kernel_lab.engine.profiles import list_gpus, list_models, load_gpu, load_model
    from kernel_lab.tui.profile_text import gpu_lines, model_lines

    if not options.name:
        raise UsageError(
            "which profile? `kernel-lab profiles` lists the names, `profiles show NAME` shows one"
        )
    models = {entry.name for entry in list_models()}
    gpus = {entry.name for entry in list_gpus()}
    if options.name not in models | gpus:
        raise ProfileError(f"unknown profile {options.name!r}: `kernel-lab profiles` lists the names")
    if options.name in models:
        model = load_model(options.name)
        profile: object = model
        lines = model_lines(model)
    else:
        gpu = load_gpu(options.name)
        profile, lines = gpu, gpu_lines(gpu)
    if options.json:
        output.print_json(profile)
        return 0
    for line in lines:
        print(output.clean(line))
    return 0


def _validate_profiles(options: argparse.Namespace) -> int:
    """Exit status 2 with the first problem if a profile is wrong; each problem names its line."""
    from kernel_lab.engine.profiles import list_gpus, list_models

    entries = [*list_gpus(), *list_models()]
    if options.name:
        wanted = Path(options.name).stem
        entries = [entry for entry in entries if entry.name == wanted or str(entry.path) == options.name]
        if not entries:
            raise ProfileError(f"unknown profile {options.name!r}: `kernel-lab profiles` lists the names")
    problems = [entry for entry in entries if entry.problem]
    if options.json:
        output.print_json({"valid": not problems, "profiles": entries})
    else:
        for entry in entries:
            print(output.clean(f"{'✗' if entry.problem else '✓'} {entry.name}: {entry.problem or 'valid'}"))
    if problems:
        count = f"{len(problems)} profile{'s are' if len(problems) > 1 else ' is'} wrong"
        raise ProfileError(f"{count}: {problems[0].problem}")
    return 0


def paths(options: argparse.Namespace) -> int:
    """Where kernel-lab keeps its files."""
    from kernel_lab.engine import paths as places

    found = {
        "settings": places.config_dir(),
        "profiles": places.config_dir() / "profiles",
        "labs": places.labs_dir(),
        "state": places.state_dir(),
        "cache": places.cache_dir(),
    }
    if options.json:
        output.print_json(found)
    else:
        for name, path in found.items():
            print(f"{name:<10} {path}")
    return 0
