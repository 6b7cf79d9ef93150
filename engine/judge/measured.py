"""The measured device: a real card, judged beside it by the host.

Compiling and the lint are those of the static device, for this very card; checks run on the card in every
dtype, and speed is a race of candidate, champion and baselines, each in a process of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kernel_lab.engine.errors import EnvironmentProblem
from kernel_lab.engine.events import build
from kernel_lab.engine.facts import Check, ScoreKind
from kernel_lab.engine.judge.race import RaceScore
from kernel_lab.engine.judge.static import StaticDevice
from kernel_lab.engine.profiles import GpuProfile
from kernel_lab.engine.tasks import TaskSpec

if TYPE_CHECKING:
    from kernel_lab.engine.hostlink import HostLink

ROUNDS = 60
ROOF_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Race:
    """What a race showed. `outcome` is `ok`, or the verdict that it asks for with `detail`."""

    outcome: str
    detail: str
    score: RaceScore
    checks: tuple[Check, ...]
    facts: dict[str, Any]


class MeasuredDevice(StaticDevice):
    """Judges candidates of one task on the card of this machine."""

    kind: ScoreKind = "measured"
    check_device = "cuda"
    dtypes = ("fp16", "bf16")

    unwell: str = ""
    """What the host found wrong with the card after a bad end; whoever looks after the card empties it."""

    def __init__(self, host: HostLink, gpu: GpuProfile) -> None:
        super().__init__(host, gpu)
        self.roofs: dict[str, Any] = {}

    async def card_facts(self, probe: bool) -> dict[str, Any]:
        """What the card is and how it is now; `probe` also tries whether a new process can compute on it.

        Raises EnvironmentProblem where no card answers.
        """
        card = await self.host.call("card", probe=probe)
        if card.outcome != "ok":
            raise EnvironmentProblem(f"{card.detail}: see `kernel-lab doctor`, or judge statically")
        return card.facts

    def _ended(self, facts: Mapping[str, Any]) -> None:
        card = facts.get("card")
        if isinstance(card, Mapping) and card.get("healthy") is False:
            self.unwell = str(card.get("why") or "it did not come back after a candidate")

    async def environment(self) -> dict[str, Any]:
        """Versions, layers, the card as it is now, and its measured roofs."""
        hello = await self.host.call("hello")
        card = await self.card_facts(True)
        if not card.get("healthy", True):
            raise EnvironmentProblem(f"the card is not well ({card.get('why')}): restart its driver")
        if not self.roofs:
            self.roofs = (await self.host.call("roofs", seconds=ROOF_SECONDS)).facts
        return {**hello.facts, "device": self.gpu.title, "card": card, "roofs": self.roofs}

    async def race(
        self,
        task: TaskSpec,
        contestants: Mapping[str, str],
        workloads: Sequence[Mapping[str, Any]],
        seed: int,
        stop: Callable[[RaceScore], bool],
    ) -> Race:
        """Time `contestants` (name to text, `candidate` among them) and FA2, round by round, until `stop`."""
        score = RaceScore(workloads, [*(name for name in contestants if name != "candidate"), "fa2"])
        asked = False

        def progress(fields: dict[str, Any]) -> None:
            nonlocal asked
            if "samples" in fields:
                score.add(fields["samples"])
                if not asked and stop(score):
                    asked = True
                    self.host.finish()

        result = await self.host.call(
            "time",
            on_progress=progress,
            contestants=[{"name": name, "source": text} for name, text in contestants.items()],
            baselines=["fa2"],
            workloads=[dict(workload) for workload in workloads],
            entry=task.entry,
            task_dir=str(task.folder),
            tolerance=task.tolerances,
            seed=seed,
            rounds=ROUNDS,
        )
        self._ended(result.facts)
        compared = result.facts.get("compared", {}).get("candidate", ())
        checks = tuple(build(Check, check) for check in compared)
        return Race(result.outcome, result.detail, score, checks, result.facts)
