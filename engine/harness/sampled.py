"""The referee's side of samples: inputs of the timed shapes, which programs are drawn, and what is right.

The rows that a few programs of the real launch wrote are compared with float64 as problems of their own: a
head's rows with the keys that they see.
"""

from __future__ import annotations

import random
import time
from types import ModuleType
from typing import Any

import patterns
import probes
import tensors
import torch
from compare import Comparison, compare, tolerance_for

DTYPE = "fp16"
DRAWS = 3
MOST_HEADS = 4
MOST_SPAN = 256
"""Rows of one head that are computed again; those further apart are left out."""
ROWS_ROOM = 128


def result_bytes(sample: dict[str, Any]) -> int:
    """Room for the rows that come back."""
    return int(ROWS_ROOM * sample["D"] * 2)


class Sampled:
    """The samples of one check."""

    def __init__(
        self, specification: dict[str, Any], reference: ModuleType, rng: random.Random, pattern: int | None
    ) -> None:
        self._spec = specification
        self._reference = reference
        self._cases: list[dict[str, Any]] = [
            {**case, "dtype": DTYPE, "layout": "contiguous"} for case in specification.get("sampled", ())
        ]
        self._arena = None if pattern is None else patterns.Arena(pattern)
        if pattern is not None and self._cases:
            patterns.fill(pattern, rng.randrange(2**31))
        self.samples = [self._sample(case, rng) for case in self._cases]

    def _sample(self, case: dict[str, Any], rng: random.Random) -> dict[str, Any]:
        """What the candidate's process is told. Without `sample` it cannot be made."""
        told: dict[str, Any] = {"case": f"{case.get('case') or case.get('id')}:sample", "D": case["D"]}
        if not (hasattr(self._reference, "part") and hasattr(self._reference, "integer_inputs")):
            return {**told, "why": "the task's reference has no `part` and `integer_inputs`"}
        inputs = tensors.meta_inputs(self._reference, case)
        layout = tensors.layouts(inputs)
        if not patterns.room_for(layout):
            return {**told, "why": f"its inputs are larger than {patterns.ROOM_BYTES >> 30} GiB"}
        return {
            **told,
            "sample": layout,
            "call": tensors.call_of(self._reference, inputs, case),
            "orders": patterns.orders(layout, rng),
            "integers": self._reference.integer_inputs(case),
            "draws": [rng.random() for _ in range(DRAWS)],
        }

    def judge(self, number: int, report: dict[str, Any], values: torch.Tensor) -> dict[str, Any]:
        """The check of one sample, as the fields of a Check. `values`: bytes of the rows that came back."""
        started = time.monotonic()
        sample, case = self.samples[number], self._cases[number]
        check: dict[str, Any] = {
            "gate": self._spec["gate"], "case": sample["case"], "probe": "compare",
            "error": None, "limit": None, "seconds": float(report.get("seconds", 0.0)),
        }  # fmt: skip
        if "unproven" in report:
            return {
                **check,
                "status": "unproven",
                "detail": f"a sample of the real launch: {report['unproven']}",
            }
        if "nothing" in report:
            return {**check, "probe": probes.REAL_LAUNCH, "status": "fail", "detail": str(report["nothing"])}
        rows: list[list[int]] = report["rows"]
        size = case["D"] * 2
        out = values[: len(rows) * size].view(torch.float16).reshape(len(rows), case["D"])
        assert self._arena is not None  # noqa: S101 (samples are made with one alone)
        inputs = self._arena.inputs(sample["sample"], sample["orders"], sample["integers"])
        found = [self._compare(inputs, case, *group, out) for group in _groups(rows)]
        worst = max(found, key=lambda one: one.error / one.limit if one.limit else one.error)
        where = f"{len(rows)} rows of {', '.join(report['programs'][:2])}"
        return {
            **check,
            "status": "pass" if all(one.ok for one in found) else "fail",
            "detail": f"{where}: {worst.rule}: {worst.detail}",
            "seconds": round(check["seconds"] + time.monotonic() - started, 4),
            "error": worst.error if worst.error == worst.error else None,
            "limit": worst.limit,
        }

    def _compare(
        self, inputs: dict[str, torch.Tensor], case: dict[str, Any], b: int, head: int, places: list[int],
        queries: list[int], out: torch.Tensor,
    ) -> Comparison:  # fmt: skip
        """`places` in `out` hold the rows `queries` of one head."""
        first, last = min(queries), max(queries) + 1
        part, small = self._reference.part(inputs, case, b, head, first, last)
        chosen = torch.tensor([query - first for query in queries])
        right = self._reference.reference(part, small)[:, :, chosen]
        base = self._reference.baseline_emulation(part, small)[:, :, chosen]
        counts = self._reference.row_key_counts(small)[:, chosen]
        tolerance = tolerance_for(self._spec["tolerance"], DTYPE)
        return compare(out[places][None, None], right, base, counts, tolerance)


def _groups(rows: list[list[int]]) -> list[tuple[int, int, list[int], list[int]]]:
    """(batch, head, places in `rows`, queries) of a few heads."""
    found: dict[tuple[int, int], tuple[list[int], list[int]]] = {}
    for place, (b, head, query) in enumerate(rows):
        if (b, head) not in found and len(found) == MOST_HEADS:
            continue
        places, queries = found.setdefault((b, head), ([], []))
        if not queries or query - queries[0] < MOST_SPAN:
            places.append(place)
            queries.append(query)
    return [(b, head, places, queries) for (b, head), (places, queries) in found.items()]
