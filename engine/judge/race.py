"""From the rounds of a timed race to a measured speed and a decision: pure functions of the samples.

A round times every contestant on every workload. Its ratios become one number, the weighted mean of the log
ratios, so that a round is one draw of the score; the confidence sequences of `statistics` run over rounds.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from kernel_lab.engine.facts import Reason, Speed, WorkloadTime
from kernel_lab.engine.judge.statistics import PairedSequence
from kernel_lab.engine.judge.verdict import BUCKET_FLOOR, Decision, bucket_ratios

ALPHA = 0.001
"""Chance that an experiment's lower bound is ever above the truth, over all its rounds."""
ALPHA_LOSS = 0.05
"""A loss needs less certainty: it costs a second look, not a false claim."""
THRESHOLD = 1.005
"""A keep must be faster than this, whatever the noise; see `threshold_for`."""
OFFSETS = 3
"""A card whose equal kernels differ by an offset is asked for at least so many times that offset."""
CANDIDATE = "candidate"


class RaceScore:
    """Samples of one race against each of `others`, and what they show so far."""

    def __init__(self, workloads: Sequence[Mapping[str, Any]], others: Sequence[str]) -> None:
        self.workloads = workloads
        self.weights = {str(w["id"]): float(w["weight"]) for w in workloads}
        self.whole = {other: PairedSequence(ALPHA, ALPHA_LOSS) for other in others}
        self.single = {
            (name, other): PairedSequence(ALPHA, ALPHA_LOSS) for name in self.weights for other in others
        }
        self.times: dict[tuple[str, str], list[float]] = {}
        self.rounds = 0

    def add(self, samples: Sequence[Mapping[str, Any]]) -> None:
        """One round: for each workload `{"workload", "us": {contestant: microseconds}}`."""
        self.rounds += 1
        logs: dict[str, dict[str, float]] = {other: {} for other in self.whole}
        for sample in samples:
            name, us = str(sample["workload"]), sample["us"]
            for contestant, value in us.items():
                self.times.setdefault((name, contestant), []).append(float(value))
            for other in self.whole:
                if other in us and CANDIDATE in us:
                    logs[other][name] = math.log(us[other] / us[CANDIDATE])
                    self.single[name, other].add(logs[other][name])
        for other, by_workload in logs.items():
            total = sum(self.weights[name] for name in by_workload)
            if total > 0:
                mean = sum(self.weights[name] * log for name, log in by_workload.items()) / total
                self.whole[other].add(mean)

    def settled(self, threshold: float = THRESHOLD) -> bool:
        """Whether more rounds would change nothing: surely faster than the champion, or surely not."""
        champion = self.whole["champion"]
        return champion.low > math.log(threshold) or champion.high < math.log(threshold)

    def speed(
        self,
        flops: Mapping[str, float],
        moved_bytes: Mapping[str, float],
        roofs: Mapping[str, Any],
    ) -> Speed:
        """Medians and intervals. A workload without samples is left out."""
        rows = []
        for workload in self.workloads:
            name = str(workload["id"])
            if (name, CANDIDATE) not in self.times:
                continue
            us = statistics.median(self.times[name, CANDIDATE])
            tera_bytes, tera_flops = moved_bytes[name] / us / 1e6, flops[name] / us / 1e6
            decode = workload["task"] == "gqa_decode"
            shares = {
                "dram": tera_bytes * 1e5 / float(roofs["read_gbs"]),
                "tensor": tera_flops * 100 / float(roofs["matmul_tflops"][workload["dtype"]]),
            }
            bound = max(shares, key=lambda resource: shares[resource])
            others = {other: seq for (at, other), seq in self.single.items() if at == name and len(seq)}
            rows.append(
                WorkloadTime(
                    workload=name,
                    bucket=str(workload["bucket"]),
                    weight=self.weights[name],
                    time_us=us,
                    rate=tera_bytes if decode else tera_flops,
                    rate_unit="TB/s" if decode else "TFLOP/s",
                    roof_percent=shares[bound],
                    bound=bound,
                    vs={other: sequence.ratio() for other, sequence in others.items()},
                    ci={other: sequence.interval() for other, sequence in others.items()},
                )
            )
        compared = {other: seq for other, seq in self.whole.items() if len(seq)}
        return Speed(
            kind="measured",
            score={other: sequence.ratio() for other, sequence in compared.items()},
            ci={other: sequence.interval() for other, sequence in compared.items()},
            per_workload=tuple(rows),
        )


def disturbed(facts: Mapping[str, Any]) -> bool:
    """Whether more processes computed on the card in some round than in the first: another program came."""
    rounds = facts.get("rounds")
    if not isinstance(rounds, Sequence):
        return False
    counts = [row["process_count"] for row in rounds if row.get("process_count") is not None]
    return bool(counts) and max(counts) > counts[0]


def threshold_for(itself: float | None) -> float:
    """The threshold on a card where a kernel raced against itself came out at the ratio `itself`."""
    if itself is None or not math.isfinite(itself) or itself <= 0:
        return THRESHOLD
    return max(THRESHOLD, math.exp(OFFSETS * abs(math.log(itself))))


def decide_measured(speed: Speed, threshold: float = THRESHOLD) -> Decision:
    """Keep, hold or discard on measurements: the roof first, then every bucket, then the whole."""
    above = [row for row in speed.per_workload if row.roof_percent > 100.0]
    if above:
        worst = max(above, key=lambda row: row.roof_percent)
        detail = (
            f"{worst.workload} ran at {worst.roof_percent:.0f} % of this card's measured {worst.bound} roof"
        )
        return Decision("held", (Reason("speed", "roof", detail),))
    low, high = speed.ci["champion"]
    gain = speed.score["champion"]
    interval = f"{gain:.3f} × the champion [{low:.3f}, {high:.3f}]"
    slower = {name: ratio for name, ratio in bucket_ratios(speed, "champion").items() if ratio < BUCKET_FLOOR}
    if slower:
        name, ratio = min(slower.items(), key=lambda item: item[1])
        detail = f"bucket {name} ran at {ratio:.3f} × the champion (at least {BUCKET_FLOOR} is asked)"
        return Decision("discard", (Reason("speed", "bucket_floor", detail),))
    if low <= threshold:
        detail = f"measured {interval}: not surely above {threshold:.3f}"
        return Decision("discard", (Reason("speed", "threshold", detail),))
    return Decision("keep", (Reason("speed", "threshold", f"measured {interval}"),))
