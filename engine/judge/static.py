"""The static device: a GPU profile without the card.

The candidate is compiled for the target by the real compiler, its values are checked in Triton's
interpreter (fp16 on scaled-down shapes: the interpreter miscomputes bf16), and its speed is estimated by a
model. Nothing here is a measurement.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from kernel_lab.engine.events import build
from kernel_lab.engine.facts import Check, Launch, ScoreKind
from kernel_lab.engine.profiles import GpuProfile
from kernel_lab.engine.tasks import TaskSpec

if TYPE_CHECKING:
    from kernel_lab.engine.hostlink import HostLink

SCREEN_DEADLINE_S = {"load": 20.0, "compile": 90.0}
CHECK_DEADLINE_S = {"load": 20.0, "case": 60.0}


@dataclass(frozen=True, slots=True)
class Screening:
    """What compiling for the device showed. `outcome` is `ok` or the verdict that it asks for."""

    outcome: str
    detail: str
    output: str
    launches: tuple[Launch, ...] = ()
    time_us: dict[str, float] = field(default_factory=dict)
    parts: dict[str, dict[str, Any]] = field(default_factory=dict)
    flops: dict[str, float] = field(default_factory=dict)
    moved_bytes: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Checking:
    """What running on checked inputs showed. `outcome` is `cheat` where an integrity probe failed."""

    outcome: str
    detail: str
    output: str
    checks: tuple[Check, ...] = ()


class StaticDevice:
    """Judges candidates of one task for one GPU profile through a host that needs no card."""

    kind: ScoreKind = "estimated"
    check_device = "interpreter"
    dtypes: tuple[str, ...] = ("fp16",)
    """What values are checked in: Triton's interpreter miscomputes bf16."""

    def __init__(self, host: HostLink, gpu: GpuProfile) -> None:
        self.host = host
        self.gpu = gpu

    @cached_property
    def quiet(self) -> asyncio.Lock:
        """Held by a race, and by work that nobody waits for: they take turns."""
        return asyncio.Lock()

    async def environment(self) -> dict[str, Any]:
        """Versions and active layers of protection."""
        result = await self.host.call("hello")
        return {**result.facts, "device": f"{self.gpu.title} (static: estimated, not measured)"}

    def _ended(self, facts: Mapping[str, Any]) -> None:
        """A job on candidates ended with these facts: what they say of the card matters on one."""

    async def screen(self, task: TaskSpec, source: str, workloads: Sequence[Mapping[str, Any]]) -> Screening:
        """Compile for every workload and estimate each."""
        result = await self.host.call(
            "screen",
            source=source,
            entry=task.entry,
            task_dir=str(task.folder),
            target=self.gpu.to_target(),
            workloads=[dict(workload) for workload in workloads],
            deadline_s=SCREEN_DEADLINE_S,
        )
        facts = result.facts
        return Screening(
            outcome=result.outcome,
            detail=result.detail,
            output=result.output,
            launches=tuple(build(Launch, _listed(launch)) for launch in facts.get("launches", ())),
            time_us=dict(facts.get("time_us", {})),
            parts=dict(facts.get("parts", {})),
            flops=dict(facts.get("flops", {})),
            moved_bytes=dict(facts.get("moved_bytes", {})),
        )

    async def check(
        self,
        task: TaskSpec,
        source: str,
        gate: str,
        cases: Sequence[Mapping[str, Any]],
        *,
        seed: int,
        probes: bool,
        on_check: Callable[[Check], None] | None = None,
    ) -> Checking:
        """Run the entry on every case and compare with the reference; `probes` adds the integrity probes."""

        def progress(fields: dict[str, Any]) -> None:
            if on_check and "check" in fields:
                on_check(build(Check, fields["check"]))

        result = await self.host.call(
            "check",
            on_progress=progress,
            source=source,
            entry=task.entry,
            task_dir=str(task.folder),
            target=self.gpu.to_target(),
            gate=gate,
            seed=seed,
            cases=[dict(case) for case in cases],
            tolerance=task.tolerances,
            device=self.check_device,
            deadline_s=CHECK_DEADLINE_S,
            probes=probes,
        )
        self._ended(result.facts)
        checks = tuple(build(Check, check) for check in result.facts.get("checks", ()))
        return Checking(result.outcome, result.detail, result.output, checks)


def _listed(launch: Mapping[str, Any]) -> dict[str, Any]:
    return cast(dict[str, Any], json.loads(json.dumps(dict(launch))))
