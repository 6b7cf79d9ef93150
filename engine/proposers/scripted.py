"""A proposer that plays a script, for tests and demonstrations.

The script is a JSON file, or a `.py` file with one literal `STEPS = [...]`: a list of steps, of which each
experiment of a task takes the next. A step holds what it does and optionally how:

    source: TEXT | edit: [[OLD, NEW], ...] | config: {BUCKET: {NAME: VALUE}}
    refuse: WHY | fail: WHY | end: WHY
    description, hypothesis, lever, gain_percent, bottleneck, trial_space, ideas (bool), task, delay_s, text

`edit` and `config` start from the champion. `text` is a list of pieces that are said one by one, `delay_s`
the pause before each piece and before the answer.
"""

from __future__ import annotations

import ast
import asyncio
import json
from pathlib import Path
from typing import Any

from kernel_lab.engine.candidate import parse, read_candidate_file, with_config
from kernel_lab.engine.errors import CandidateInvalid, ProposerError, UsageError
from kernel_lab.engine.facts import Prediction, Reason
from kernel_lab.engine.proposers.base import Answer, Exhausted, Proposal, ProposalRequest, Refusal, Say
from kernel_lab.engine.proposers.handed_in import LEVER

ACTIONS = ("source", "edit", "config", "refuse", "fail", "end")
DETAILS = (
    *("description", "hypothesis", "lever", "gain_percent", "bottleneck", "trial_space", "ideas", "task"),
    *("delay_s", "text"),
)

Step = dict[str, Any]


class Scripted:
    """Answers from a list of steps. Which step is next follows from the history, so a resumed run goes on."""

    name = "scripted"

    def __init__(self, steps: list[Step]) -> None:
        self.steps = steps
        for number, step in enumerate(steps, 1):
            if not isinstance(step, dict) or sum(action in step for action in ACTIONS) != 1:
                raise UsageError(
                    f"step {number} of the script does not do one of {', '.join(ACTIONS)}; mend it"
                )
            unknown = [key for key in step if key not in ACTIONS + DETAILS]
            if unknown:
                raise UsageError(f"step {number} of the script has an unknown key {unknown[0]!r}; remove it")

    @classmethod
    def from_file(cls, path: str) -> Scripted:
        """Read a script. Raises UsageError."""
        if not path:
            raise UsageError("the scripted proposer needs a script; say `--proposer scripted:PATH`")
        text = read_candidate_file(Path(path).expanduser())
        try:
            steps = _literal_steps(text) if path.endswith(".py") else json.loads(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            raise UsageError(f"{path} holds no list of steps; write JSON or `STEPS = [...]`") from None
        if not isinstance(steps, list):
            raise UsageError(f"{path} holds no list of steps; write JSON or `STEPS = [...]`")
        return cls(steps)

    async def propose(self, request: ProposalRequest, say: Say) -> Answer:
        """Play the next step of this task."""
        mine = [step for step in self.steps if step.get("task", request.task.name) == request.task.name]
        done = sum(past.parent is not None and past.lever != LEVER for past in request.history)
        if done >= len(mine):
            return Exhausted("the script has ended; what would help now: an idea, an agent")
        step = mine[done]
        for piece in step.get("text", ()):
            await asyncio.sleep(step.get("delay_s", 0))
            say(piece)
        await asyncio.sleep(step.get("delay_s", 0))
        if "fail" in step:
            raise ProposerError(str(step["fail"]))
        if "end" in step:
            return Exhausted(str(step["end"]))
        if "refuse" in step:
            return Refusal(Reason("scope", "scripted", str(step["refuse"])))
        try:
            source = self._source(step, request)
        except CandidateInvalid as error:
            return Refusal(Reason("scope", "scripted", str(error)))
        return Proposal(
            source=source,
            description=step.get("description", f"Step {done + 1} of the script."),
            hypothesis=step.get("hypothesis", ""),
            prediction=Prediction(step.get("gain_percent"), step.get("bottleneck")),
            lever=step.get("lever", f"step:{done + 1}"),
            trial_space=step.get("trial_space", {}),
            ideas=tuple(idea.id for idea in request.ideas) if step.get("ideas") else (),
        )

    def _source(self, step: Step, request: ProposalRequest) -> str:
        if "source" in step:
            return str(step["source"])
        source = request.start_source
        for old, new in step.get("edit", ()):
            if source.count(old) != 1:
                raise CandidateInvalid(
                    f"the text {old[:60]!r} stands {source.count(old)} times; give it once"
                )
            source = source.replace(old, new)
        if "config" in step:
            champion = parse(source, request.task.entry)
            config = {bucket: dict(values) for bucket, values in champion.config.items()}
            for bucket, values in step["config"].items():
                config[bucket] = {**config.get(bucket, {}), **values}
            source = with_config(champion, config)
        return source


def _literal_steps(text: str) -> object:
    for node in ast.parse(text).body:
        if isinstance(node, ast.Assign) and any(
            isinstance(target, ast.Name) and target.id == "STEPS" for target in node.targets
        ):
            return ast.literal_eval(node.value)
    raise ValueError
