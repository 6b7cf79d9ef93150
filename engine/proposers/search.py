"""The proposer that needs no key: it turns one lever of the champion's SPACE at a time.

    1  each switch that was never turned in this lab, over all buckets, in the order of the task's notes
    2  switches whose worth a keep has changed since they were turned: splits once heads are packed
    3  together, the switches that fell just short by themselves
    4  a tuning round of tiles, warps and stages for each bucket, the heaviest bucket first
    5  switches that were turned on an earlier champion, those that brought most first
    6  every number of warps and stages for each bucket
    7  switches that did not fit everywhere, one bucket at a time

The answer depends on the request alone. What was tried on this champion is not tried again, so the space has
an end, and a keep starts over from the new champion.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kernel_lab.engine.candidate import Candidate, Config, Value, parse, values_for, with_config
from kernel_lab.engine.facts import Prediction
from kernel_lab.engine.proposers.base import Answer, Exhausted, PastExperiment, Proposal, ProposalRequest, Say
from kernel_lab.engine.proposers.levers import (
    LAUNCH,
    TOGETHER,
    TUNING,
    Lever,
    is_switch,
    is_tunable,
    known,
    neighbours,
    position,
)
from kernel_lab.engine.tasks import workload_matrix

LAUNCH_TUNABLES = ("num_warps", "num_stages")
DID_NOT_FIT = ("oom", "compile_error", "timeout")


@dataclass(frozen=True, slots=True)
class Move:
    """One lever to turn. `space` holds what the trials may settle, by bucket."""

    lever: str
    names: tuple[str, ...]
    """The switches it turns; none for a tuning round."""
    entry: Lever
    where: str
    """Where it is turned, for people."""
    config: Config
    space: dict[str, dict[str, list[Value]]]


class Search:
    """Turns the levers that a candidate declares in SPACE."""

    name = "search"

    async def propose(self, request: ProposalRequest, say: Say) -> Answer:
        """The next lever that was not turned on this champion yet, or the end of the space."""
        candidate = parse(request.start_source, request.task.entry)
        plan = _Plan(request, candidate)
        for move in plan.moves():
            if move.lever not in plan.tried_here:
                answer = plan.proposal(move)
                say(f"{answer.description} {answer.hypothesis}\n")
                return answer
        text = plan.summary()
        say(text + "\n")
        return Exhausted(text)


class _Plan:
    """All moves from one champion, in order."""

    def __init__(self, request: ProposalRequest, candidate: Candidate) -> None:
        self.request = request
        self.candidate = candidate
        self.weights = _bucket_weights(request)
        self.tried_here = {past.lever for past in self._here()}
        self.tried_ever = {past.lever for past in request.history if past.parent is not None}
        self.switches = [
            name
            for name in self._in_order()
            if is_switch(candidate.space[name]) and self._possible(known(name))
        ]
        self.tunables = [name for name, values in candidate.space.items() if is_tunable(values)]

    def moves(self) -> Iterator[Move]:
        """Every move, best first."""
        switches = [move for name in self.switches if (move := self._switch(name))]
        yield from (move for move in switches if move.lever not in self.tried_ever)
        again = [move for move in switches if move.lever in self.tried_ever]
        yield from (move for move in again if self._changed_since(move))
        together = self._together()
        if together is not None:
            yield together
        yield from (move for bucket in self.weights if (move := self._tuning(bucket)))
        yield from sorted(again, key=lambda move: -self._best_gain(move.lever))
        yield from (move for bucket in self.weights if (move := self._launch(bucket)))
        for name in self.switches:
            if self._did_not_fit(name.lower()):
                for bucket in self.weights:
                    move = self._switch(name, bucket)
                    if move is not None:
                        yield move

    # ---- moves

    def _switch(self, name: str, one_bucket: str | None = None) -> Move | None:
        """Turn a switch in every timed bucket, or in one; None if there is nothing to turn."""
        config = self._settings()
        space: dict[str, dict[str, list[Value]]] = {}
        for bucket in self.weights if one_bucket is None else [one_bucket]:
            others = self._others(name, bucket)
            if others:
                config[bucket] = {**config.get(bucket, {}), name: others[0]}
                space[bucket] = {name: others, **self._beside(name, bucket)}
        if not space:
            return None
        lever = name.lower() if one_bucket is None else f"{name.lower()}:{one_bucket}"
        return Move(lever, (name,), known(name), _where(list(space), self.weights), config, space)

    def _together(self) -> Move | None:
        """All switches at once that were faster than this champion, but not by enough to be kept."""
        short = [
            past.lever
            for past in self._here()
            if past.status == "discard" and (past.score_vs_parent or 0) > 1
        ]
        names = tuple(name for name in self.switches if name.lower() in short)
        if len(names) < 2:
            return None
        config = self._settings()
        space: dict[str, dict[str, list[Value]]] = {}
        for bucket in self.weights:
            turned = {name: others for name in names if (others := self._others(name, bucket))}
            if turned:
                first = {name: others[0] for name, others in turned.items()}
                config[bucket] = {**config.get(bucket, {}), **first}
                space[bucket] = turned
        lever = f"together:{'+'.join(name.lower() for name in names)}"
        return (
            Move(lever, names, TOGETHER, _where(list(space), self.weights), config, space) if space else None
        )

    def _others(self, name: str, bucket: str) -> list[Value]:
        """Every other value of a switch, those further down its list first.

        None for a switch of two values that an earlier champion turned here: it is not turned back.
        """
        values = self.candidate.space[name]
        at = position(values, values_for(self.candidate, bucket)[name])
        if at > 0 and len(values) == 2 and name.lower() in self.tried_ever:
            return []
        return [*values[at + 1 :], *values[:at]]

    def _beside(self, name: str, bucket: str) -> dict[str, list[Value]]:
        """Tunables whose best value a switch may move, with the values next to the present one."""
        current = values_for(self.candidate, bucket)
        partners = [partner for partner in known(name).partners if partner in self.tunables]
        return {partner: neighbours(self.candidate.space[partner], current[partner]) for partner in partners}

    def _tuning(self, bucket: str) -> Move | None:
        """Other values for every numeric tunable of one bucket."""
        current = values_for(self.candidate, bucket)
        names = [*self.tunables]
        names += [name for name in self.switches if _is_strength(self.candidate.space[name], current[name])]
        space = {name: list(self.candidate.space[name]) for name in names}
        where = _where([bucket], self.weights)
        return (
            Move(f"tiles:{bucket}", (), TUNING, where, self._settings(), {bucket: space}) if space else None
        )

    def _launch(self, bucket: str) -> Move | None:
        """Every number of warps and stages, where the tuning round had more to settle."""
        names = [name for name in LAUNCH_TUNABLES if name in self.tunables]
        if not names or len(names) == len(self.tunables):
            return None
        space = {name: list(self.candidate.space[name]) for name in names}
        where = _where([bucket], self.weights)
        return Move(f"launch:{bucket}", (), LAUNCH, where, self._settings(), {bucket: space})

    def _settings(self) -> Config:
        return {bucket: dict(values) for bucket, values in self.candidate.config.items()}

    # ---- what is known

    def _in_order(self) -> list[str]:
        """Tunables in the order in which the task's notes name them, the rest in the order of SPACE."""
        notes = self.request.task.notes
        names = list(self.candidate.space)
        return sorted(names, key=lambda name: (_mention(notes, name), names.index(name)))

    def _possible(self, entry: Lever) -> bool:
        return entry.needs is None or entry.needs in self.request.gpu.features

    def _past(self, lever: str) -> list[PastExperiment]:
        return [past for past in self.request.history if past.lever == lever and past.parent is not None]

    def _best_gain(self, lever: str) -> float:
        """The best ratio that a lever reached, over the whole or in one bucket; 0 if it never ran."""
        found = [0.0]
        for past in self._past(lever):
            found += [past.score_vs_parent or 0.0]
            found += [trial.vs_parent or 0.0 for trial in past.trials]
        return max(found)

    def _here(self) -> list[PastExperiment]:
        return [past for past in self.request.history if past.parent == self.request.start.id]

    def _did_not_fit(self, lever: str) -> bool:
        return any(past.lever == lever and past.status in DID_NOT_FIT for past in self._here())

    def _changed_since(self, move: Move) -> bool:
        """Whether a lever that changes what this one is worth was kept after it was turned last."""
        last = max(past.id for past in self._past(move.lever))
        changing = {name.lower() for name in move.entry.after}
        kept = [past for past in self.request.history if past.status == "keep" and past.id > last]
        return any(past.lever in changing for past in kept)

    # ---- words

    def proposal(self, move: Move) -> Proposal:
        """The move as a complete candidate."""
        names = ", ".join(move.names or next(iter(move.space.values())))
        return Proposal(
            source=with_config(self.candidate, move.config),
            description=f"Try {move.entry.what} ({names}) {move.where}.",
            hypothesis=self._hypothesis(move),
            prediction=Prediction(self._predicted(move), move.entry.bottleneck),
            lever=move.lever,
            trial_space=move.space,
        )

    def _hypothesis(self, move: Move) -> str:
        past = [one for one in self._past(move.lever) if one.parent != self.request.start.id]
        if not past:
            return move.entry.why
        best = self._best_gain(move.lever)
        what = f"reached {best:.3f} ×" if best > 0 else "did not run"
        return f"{move.entry.why} On #{past[-1].parent} it {what}; the champion has changed since."

    def _predicted(self, move: Move) -> float:
        """Percent over the whole matrix: the table's gain, or what it brought before, by bucket weight."""
        share = sum(self.weights[bucket] for bucket in move.space)
        best = self._best_gain(move.lever)
        gain = move.entry.gain_percent if best == 0 else max(0.0, (best - 1.0) * 50.0)
        return round(gain * share, 1)

    def summary(self) -> str:
        """What was explored and what would help now."""
        if not self.switches and not self.tunables:
            return (
                "space explored: SPACE lists nothing to turn; what would help now: tunables in SPACE, "
                "an idea, an agent"
            )
        levers = {past.lever.split(":")[0] for past in self.request.history if past.parent is not None}
        trials = sum(len(past.trials) for past in self.request.history)
        turned = len(self.tried_here)
        return (
            f"space explored: {turned} moves from #{self.request.start.id} brought no more, "
            f"{len(levers)} levers and {trials} settings in all; what would help now: an idea, an agent"
        )


def _mention(notes: str, name: str) -> int:
    """Where the notes first name a tunable; behind their end if they never do."""
    found = re.search(rf"\b{re.escape(name)}\b", notes)
    return found.start() if found else len(notes)


def _is_strength(values: list[Value], current: Value) -> bool:
    """A numeric switch that is on: how strongly is a question of tuning."""
    return (
        isinstance(current, int | float)
        and not isinstance(current, bool)
        and current != 0
        and len(values) > 2
    )


def _bucket_weights(request: ProposalRequest) -> dict[str, float]:
    """Buckets that are timed with their share of the score, the heaviest first."""
    workloads, _ = workload_matrix(request.task, request.model, request.gpu)
    weights: dict[str, float] = {}
    for workload in workloads:
        weights[workload["bucket"]] = weights.get(workload["bucket"], 0.0) + float(workload["weight"])
    return dict(sorted(weights.items(), key=lambda item: (-item[1], item[0])))


def _where(buckets: list[str], weights: Mapping[str, float]) -> str:
    if len(buckets) == len(weights):
        return "in every bucket" if len(buckets) > 1 else f"in {buckets[0]}"
    return f"in {', '.join(buckets)}"
