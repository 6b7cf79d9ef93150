"""`kernel-lab context`: exactly what an agent would be shown for the next proposal."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from kernel_lab.engine.errors import UsageError
from kernel_lab.engine.facts import ScoreKind
from kernel_lab.engine.lab import Lab
from kernel_lab.engine.proposers.base import ProposalRequest
from kernel_lab.tui import output
from kernel_lab.tui.cli_lab import reading

if TYPE_CHECKING:
    from kernel_lab.engine.requests import Requests


def context(options: argparse.Namespace) -> int:
    """Print the context of the next proposal."""
    from kernel_lab.engine.proposers.agent.context import build_context
    from kernel_lab.engine.proposers.agent.settings import AgentSettings

    with reading(options) as lab:
        request = next_request(lab, options.task)
        tokens = options.tokens or AgentSettings.of(lab.config).context_tokens
    found = build_context(request, token_budget=tokens)
    if options.json:
        output.print_json(
            {
                "lab": lab.path,
                "task": request.task.name,
                "experiment": request.experiment,
                "tokens": found.tokens,
                "token_budget": found.token_budget,
                "dropped": found.dropped,
                "prefix": found.prefix,
                "changing": found.changing,
                "sections": found.sections,
            }
        )
        return 0
    print(output.clean(found.text, keep_lines=True))
    left_out = f"; {', '.join(found.dropped)}" if found.dropped else ""
    output.note(f"about {found.tokens:,} tokens of {found.token_budget:,}{left_out}")
    return 0


def next_request(lab: Lab, task: str | None = None) -> ProposalRequest:
    """The request that the next proposal for a task would get (None: the task whose turn it is)."""
    from kernel_lab.engine.tasks import load_task

    ledger, view = lab.ledger, lab.ledger.view()
    tasks = view.tasks or lab.config.tasks
    if task is not None and task not in tasks:
        raise UsageError(f"{lab.path} has no task {task!r}: use one of {', '.join(tasks)}")
    requests = requests_of(lab)
    name = task or requests.next_task(tasks)
    champion = ledger.experiment(view.champions.get(name, 0))
    if champion is None:
        raise UsageError(f"{lab.path} has no champion of {name} yet: `kernel-lab run` judges the seed first")
    number = ledger.last_experiment() + 1
    return requests.make(load_task(name), number, champion, view.workloads.get(name, ()))


def requests_of(lab: Lab) -> Requests:
    """Requests of a lab as its engine makes them."""
    from kernel_lab.engine.profiles import load_gpu, load_model
    from kernel_lab.engine.requests import Requests

    device = lab.ledger.view().device_kind or lab.config.device
    kind: ScoreKind = "measured" if device == "measured" else "estimated"
    return Requests(lab.ledger, lab.config, load_gpu(lab.config.gpu), load_model(lab.config.model), kind)
