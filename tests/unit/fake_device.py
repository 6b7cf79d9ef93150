"""A device whose answers are a formula over CONFIG, so that the loop can be tested without a compiler."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kernel_lab.engine.candidate import parse, values_for
from kernel_lab.engine.facts import Check, Launch
from kernel_lab.engine.judge.static import Checking, Screening, StaticDevice
from kernel_lab.engine.profiles import load_gpu
from kernel_lab.engine.tasks import TaskSpec

GAIN = {"SKIP": 1.6, "TWO_LOOPS": 1.1, "EXP2": 1.04, "SPLIT_KV": 1.5, "PACK_GQA": 1.3, "DESCRIPTORS": 0.9}


class FakeDevice(StaticDevice):
    """Every switch of GAIN multiplies the speed; the largest tile does not fit; values are always right."""

    def __init__(self) -> None:
        self.gpu = load_gpu("rtx3060")
        self.screened = 0
        self.failing: dict[str, str] = {}
        """Text that a source contains to the gate that it then fails."""
        self.unproven: str | None = None
        """Text that a source contains which the interpreter cannot run."""
        self.roof_percent = 50.0

    async def environment(self) -> dict[str, Any]:
        return {"device": "fake"}

    async def screen(self, task: TaskSpec, source: str, workloads: Sequence[Mapping[str, Any]]) -> Screening:
        self.screened += 1
        candidate = parse(source, task.entry)
        time_us = {}
        for workload in workloads:
            values = values_for(candidate, workload["bucket"])
            if values.get("BLOCK_M") == 128 and values.get("BLOCK_N") == 128:
                detail = "needs 131,074 B of shared memory, an RTX 3060 block has 101,376"
                return Screening("oom", detail, "")
            us = 100.0 + 8.0 * abs(int(values.get("BLOCK_N", 64)) - 64) / 64
            for switch, gain in GAIN.items():
                if values.get(switch):
                    us /= gain
            time_us[workload["id"]] = us
        launch = Launch("w", "k", (1, 1, 1), 4, 49152, 128, 0, "HMMA", 2, 0.5)
        names = list(time_us)
        return Screening(
            "ok",
            "",
            "",
            (launch,),
            time_us,
            {name: {"bound": "tensor", "roof_percent": self.roof_percent} for name in names},
            dict.fromkeys(names, 1e9),
            dict.fromkeys(names, 1e6),
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
        checks = []
        for case in cases:
            bad = any(text in source and gate == at for text, at in self.failing.items())
            probe = "new_contents" if probes else "compare"
            status: Any = "fail" if bad else "pass"
            if self.unproven is not None and self.unproven in source:
                status = "unproven"
            check = Check(gate, str(case["case"]), probe, status, "made up", 2.0, 1.0)
            checks.append(check)
            if on_check:
                on_check(check)
        cheated = probes and any(check.status == "fail" for check in checks)
        return Checking("cheat" if cheated else "ok", "", "", tuple(checks))
