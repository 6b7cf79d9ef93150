"""`kernel-lab bottleneck`: what limits a lab's champion, or a candidate file, workload by workload."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path
from typing import Any

from kernel_lab.engine.bottleneck import Bottleneck, bottlenecks, limits_by_weight
from kernel_lab.engine.candidate import parse, read_candidate_file
from kernel_lab.engine.errors import CandidateInvalid, UsageError
from kernel_lab.engine.proposers.base import ChampionFacts
from kernel_lab.tui import output
from kernel_lab.tui.cli_lab import reading

HOW = {
    "model": "estimated by the time model: nothing here was measured",
    "roofline": "measured times against this card's measured ceilings; ~ marks what the model estimates",
}


def bottleneck(options: argparse.Namespace) -> int:
    """Of a file, or of the champions of a lab. Exit status 1 if the file does not compile for the device."""
    if options.file is not None:
        return _of_file(options)
    if options.gpu or options.model:
        raise UsageError("--gpu and --model are for a FILE; a lab's champion is known on the lab's own GPU")
    answers = []
    with reading(options) as lab:
        from kernel_lab.tui.cli_context import requests_of

        view = lab.ledger.view()
        if options.task is not None and options.task not in view.tasks:
            raise UsageError(f"{lab.path} has no task {options.task!r}: use one of {', '.join(view.tasks)}")
        requests = requests_of(lab)
        for task, number in view.champions.items():
            row = lab.ledger.experiment(number)
            if row is not None and options.task in (None, task):
                found = bottlenecks(requests.facts(row), view.workloads.get(task, ()))
                answers.append((task, f"#{number}", found))
        path = lab.path
    if not answers:
        raise UsageError(f"{path} has no champion yet: `kernel-lab run` judges the seed first")
    if options.json:
        output.print_json({"lab": path, "champions": [_json(*answer) for answer in answers]})
    else:
        for task, name, found in answers:
            _print(task, f"champion {name}", found)
    return 0


def _of_file(options: argparse.Namespace) -> int:
    from kernel_lab.engine.judge.judge import bench_candidate
    from kernel_lab.engine.tasks import load_task
    from kernel_lab.tui import machine
    from kernel_lab.tui.choices import choose_device
    from kernel_lab.tui.cli_judge import judges

    if options.task is None:
        raise UsageError("say which operator the file is for: --task gqa_decode, for example")
    task = load_task(options.task)
    device = choose_device(options.gpu, options.model)
    source = read_candidate_file(Path(options.file))
    try:
        parse(source, task.entry)
    except CandidateInvalid as error:
        return _turned(options, task.name, str(error))
    machine.require_compiler()
    output.note(device.line)

    async def work() -> tuple[str, ChampionFacts, list[dict[str, Any]]]:
        async with judges([task], device) as found:
            judge = found[task.name]
            gate, speed, screening = await bench_candidate(judge, source)
            facts = ChampionFacts(
                launches=screening.launches,
                speed=speed,
                parts=screening.parts,
                flops=screening.flops,
                moved_bytes=screening.moved_bytes,
                roofs=dict(getattr(judge.device, "roofs", {})),
            )
            return "; ".join(reason.detail for reason in gate.reasons), facts, judge.workloads

    why, facts, workloads = asyncio.run(work())
    if facts.speed is None:
        return _turned(options, task.name, why)
    found = bottlenecks(facts, workloads)
    if options.json:
        output.print_json({"file": options.file, **_json(task.name, options.file, found)})
    else:
        _print(task.name, options.file, found)
    return 0


def _turned(options: argparse.Namespace, task: str, why: str) -> int:
    if options.json:
        output.print_json({"file": options.file, **_json(task, options.file, []), "problem": why})
    else:
        output.note(f"{options.file}: no speed to look at: {why}")
    return 1


def _json(task: str, name: str, found: list[Bottleneck]) -> dict[str, Any]:
    return {
        "task": task,
        "candidate": name,
        "kind": found[0].kind if found else None,
        "source": found[0].source if found else None,
        "limits": limits_by_weight(found),
        "workloads": [{**output.plain(one), "reread": one.reread} for one in found],
    }


def _print(task: str, name: str, found: list[Bottleneck]) -> None:
    print(output.clean(f"{task} · {name}"))
    if not found:
        print("no speed is recorded yet\n")
        return
    print(HOW[found[0].source])
    about = "~" if found[0].kind == "estimated" else ""
    cells = []
    for one in found:
        what = one.limit if one.resource == one.limit else f"{one.limit} ({one.resource})"
        cells.append(
            [
                one.workload,
                f"{one.weight:.2f}",
                what,
                f"{about}{one.time_us:.1f}",
                f"{about}{one.roof_percent:.0f} %",
                *(_share(one.busy.get(resource), about) for resource in ("dram", "tensor", "exp")),
                f"~{one.launch_share:.0%}",
                "–" if one.reread is None else f"~{one.reread:.2f}×",
                "–" if one.waves is None else f"~{one.waves:.2f}",
                "–" if one.occupancy is None else f"{one.occupancy:.0%}",
                one.spill_bytes or "",
            ]
        )
    headers = ["workload", "weight", "limit", "µs", "of roof", "dram", "tensor", "exp"]
    headers += ["launch", "bytes", "waves", "occup.", "spills"]
    print(output.table(headers, cells, right=tuple(range(1, 2)) + tuple(range(3, 13))))
    whole = ", ".join(f"{limit} {share:.0%}" for limit, share in limits_by_weight(found).items())
    print(f"by weight: {whole}\n")


def _share(value: float | None, about: str) -> str:
    return "–" if value is None else f"{about}{value:.0%}"
