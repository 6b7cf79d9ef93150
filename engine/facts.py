"""The words that cross boundaries: verdicts, gates, reasons and the facts that a judge decides on.

Everything here is a frozen dataclass of plain values, so that it can be written to the ledger as JSON and
read back equal. Times are microseconds, sizes bytes, rates per second unless the name says otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Verdict = Literal[
    "seed",
    "keep",
    "discard",
    "held",
    "incorrect",
    "cheat",
    "invalid",
    "compile_error",
    "oom",
    "timeout",
    "crash",
    "rejected",
    "vetoed",
    "interrupted",
]
VERDICTS: tuple[Verdict, ...] = Verdict.__args__  # type: ignore[attr-defined]

Gate = Literal[
    "scope", "lint", "screen", "quick", "trials", "correctness", "integrity", "speed", "confirm", "person"
]
GATES: tuple[Gate, ...] = Gate.__args__  # type: ignore[attr-defined]

ScoreKind = Literal["measured", "estimated"]
Mode = Literal["ask", "wins", "auto"]
MODES: tuple[Mode, ...] = Mode.__args__  # type: ignore[attr-defined]


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a gate turned a candidate down, or what it could not prove.

    `detail` may quote a compiler, a kernel or a model: it is data, never markup.
    """

    gate: str
    probe: str
    detail: str


@dataclass(frozen=True, slots=True)
class Check:
    """One case of one gate: a shape with a distribution, or a probe.

    `status` is `pass`, `fail` or `unproven` (it could not run here). `error` and `limit` are the measured
    error and what it may be, in the same unit, where the check compares numbers.
    """

    gate: str
    case: str
    probe: str
    status: Literal["pass", "fail", "unproven"]
    detail: str = ""
    error: float | None = None
    limit: float | None = None
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Launch:
    """One kernel that a candidate launches for one workload, as compiled for the device."""

    workload: str
    kernel: str
    grid: tuple[int, ...]
    num_warps: int
    smem_bytes: int
    registers: int
    spill_bytes: int
    tensor_cores: str
    """Instruction family seen in the machine code: `HMMA`, `HGMMA`, `UTCMMA`, … or an empty string."""
    ctas_per_sm: int
    occupancy: float
    time_us: float | None = None
    share: float | None = None


@dataclass(frozen=True, slots=True)
class WorkloadTime:
    """One workload's time under one candidate, with the ratios that the score is made of.

    Ratios are other / candidate: above 1 the candidate is faster. `bound` names the resource that the
    estimate or the profile says limits it.
    """

    workload: str
    bucket: str
    weight: float
    time_us: float
    rate: float
    rate_unit: Literal["TFLOP/s", "TB/s"]
    roof_percent: float
    bound: str
    vs: dict[str, float] = field(default_factory=dict)
    """Ratio by baseline: `fa2`, `seed`, `champion`, …"""
    ci: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Interval of each ratio; empty for estimates, which have none."""


@dataclass(frozen=True, slots=True)
class Speed:
    """Scores of one candidate over the workload matrix: weighted geometric means of the ratios."""

    kind: ScoreKind
    score: dict[str, float]
    ci: dict[str, tuple[float, float]]
    per_workload: tuple[WorkloadTime, ...]


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a proposer expects before anything is measured."""

    gain_percent: float | None
    bottleneck: str | None
