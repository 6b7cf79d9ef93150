"""Requests as the loop makes them, and a small judge of candidates by formula, for tests of proposers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

from kernel_lab.engine.candidate import parse, values_for, with_config
from kernel_lab.engine.ledger.views import ExperimentRow, IdeaRow, TrialRow
from kernel_lab.engine.profiles import load_gpu, load_model
from kernel_lab.engine.proposers.base import Answer, PastExperiment, Proposal, ProposalRequest, Proposer
from kernel_lab.engine.tasks import load_task


def row(
    number: int, task: str = "gqa_decode", status: str = "seed", parent: int | None = None
) -> ExperimentRow:
    return ExperimentRow(
        id=number,
        task=task,
        parent=parent,
        proposer="seed" if parent is None else "search",
        status=status,
        description="",
        hypothesis="",
        lever="seed" if parent is None else "",
        prediction=None,
        source_sha="0" * 64,
        reasons=(),
        score={},
        ci={},
        score_kind=None,
        trials=0,
        started=0.0,
        finished=1.0,
        commit=None,
        phase="",
        ideas=(),
    )


def idea(number: int, text: str, scope: str = "next") -> IdeaRow:
    return IdeaRow(number, text, scope, None, "a person", (), False)


def request(task: str = "gqa_decode", *, gpu: str = "rtx3060", source: str | None = None) -> ProposalRequest:
    """The first request of a lab: only the seed is there. With a source of its own there are no notes."""
    spec = load_task(task)
    if source is not None:
        spec = replace(spec, notes="")
    return ProposalRequest(
        experiment=2,
        task=spec,
        gpu=load_gpu(gpu),
        model=load_model("llama-3.1-8b"),
        champion=row(1, task),
        champion_source=spec.seed_source if source is None else source,
        history=(past(1, None, "seed", task, spec.seed_source),),
        ideas=(),
        seed=0,
        trials=8,
    )


def past(
    number: int,
    parent: int | None,
    lever: str,
    task: str = "gqa_decode",
    source: str = "",
    *,
    status: str = "discard",
    ratio: float | None = None,
    trials: tuple[TrialRow, ...] = (),
) -> PastExperiment:
    entry = load_task(task).entry
    canonical = parse(source, entry).canonical_sha if source else ""
    return PastExperiment(number, task, parent, status, lever, "", None, canonical, ratio, trials)


def after(
    before: ProposalRequest,
    proposal: Proposal,
    *,
    keep: bool = False,
    status: str = "discard",
    ratio: float = 0.9,
) -> ProposalRequest:
    """The request that follows once `proposal` was judged. A keep makes it the champion."""
    done = past(
        before.experiment,
        before.champion.id,
        proposal.lever,
        before.task.name,
        proposal.source,
        status="keep" if keep else status,
        ratio=ratio,
    )
    following = replace(before, experiment=before.experiment + 1, history=(*before.history, done))
    if not keep:
        return following
    champion = row(before.experiment, before.task.name, "keep", before.champion.id)
    return replace(following, champion=champion, champion_source=proposal.source)


def ask(proposer: Proposer, asked: ProposalRequest, said: list[str] | None = None) -> Answer:
    """One answer, at once."""

    async def answer() -> Answer:
        return await asyncio.wait_for(proposer.propose(asked, (said if said is not None else []).append), 10)

    return asyncio.run(answer())


def best_per_bucket(
    asked: ProposalRequest, proposal: Proposal, speed: Callable[[str, dict[str, object]], float]
) -> str:
    """The proposal with each bucket settled: its own values where they are faster, else the champion's."""
    champion, candidate = (parse(one, asked.task.entry) for one in (asked.champion_source, proposal.source))
    config = {bucket: dict(values) for bucket, values in candidate.config.items()}
    for bucket in proposal.trial_space:
        old, new = (dict(values_for(one, bucket)) for one in (champion, candidate))
        config[bucket] = values_for(
            champion if speed(bucket, old) >= speed(bucket, new) else candidate, bucket
        )
    return with_config(candidate, config)
