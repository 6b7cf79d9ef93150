"""Which shapes a candidate is checked on: the task's edge cases, and hidden ones drawn after it is frozen.

Seeds of inputs and hidden shapes come from a hash over the lab's seed, the experiment, the gate and the very
text of the candidate: no proposer can know them before it has committed to a text, and a resumed lab draws
the same ones again.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping, Sequence
from typing import Any

LONG = 512
"""From so many keys or queries on, a timed shape has a narrow case of its length."""
MOST_KEYS, MOST_QUERIES = 8192, 2048
"""Longer ones would take the interpreter too long."""


def frozen_seed(lab_seed: int, *parts: object) -> int:
    """A 63-bit seed that depends on every part."""
    text = "\x1f".join(str(part) for part in (lab_seed, *parts))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def seeded_cases(cases: Sequence[Mapping[str, Any]], task: str, seed: int) -> list[dict[str, Any]]:
    """The cases in an order of their own, each with a seed of its own, ready for the host."""
    rows = [
        {**case, "case": case["id"], "task": task, "seed": frozen_seed(seed, case["id"]) % 2**31}
        for case in cases
    ]
    random.Random(seed).shuffle(rows)  # noqa: S311  an order, not a secret
    return rows


def hidden_cases(
    hidden: Mapping[str, Any], task: str, seed: int, count: int, *, interpreted: bool = True
) -> list[dict[str, Any]]:
    """`count` cases drawn from a task's hidden ranges.

    `hidden` maps a field to a list of choices or to `{"min": a, "max": b}`; where cases are `interpreted`,
    its table `static` replaces what it names, since the interpreter is slow.
    """
    rng = random.Random(seed)  # noqa: S311  reproducible by design; the seed itself is the secret
    ranges = {**hidden, **(hidden.get("static", {}) if interpreted else {})}
    return [_draw(ranges, task, rng, index) for index in range(count)]


def in_dtypes(cases: Sequence[Mapping[str, Any]], dtypes: Sequence[str], seed: int) -> list[dict[str, Any]]:
    """Each case in one of the dtypes, drawn."""
    rng = random.Random(seed)  # noqa: S311  a choice, not a secret
    return [{**case, "dtype": rng.choice(dtypes)} for case in cases]


def long_cases(workloads: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One narrow case as long as each timed shape, for where the timed shapes themselves do not run.

    All keys of a timed shape meet few queries of one head, and all its queries few keys.
    """
    found: dict[str, dict[str, Any]] = {}
    for workload in workloads:
        keys, queries = int(workload["Sk"]), int(workload["Sq"])
        narrow = {
            **{key: workload[key] for key in ("task", "D", "causal") if key in workload},
            "B": 1,
            "Hq": 1,
            "Hkv": 1,
            "dtype": "fp16",
            "layout": "contiguous",
            "distribution": "normal",
        }
        if LONG <= keys <= MOST_KEYS:
            lengths = [keys] if "seq_lens" in workload else None
            found[f"keys-{keys}"] = {**narrow, "Sq": min(queries, 8), "Sk": keys, "seq_lens": lengths}
        if LONG <= queries <= MOST_QUERIES:
            found[f"queries-{queries}"] = {**narrow, "Sq": queries, "Sk": 64, "causal": False}
    return [{**case, "id": name} for name, case in found.items()]


def _draw(hidden: Mapping[str, Any], task: str, rng: random.Random, index: int) -> dict[str, Any]:
    def pick(name: str, default: Any) -> Any:
        spec = hidden.get(name, default)
        if isinstance(spec, Mapping):
            return rng.randint(int(spec["min"]), int(spec["max"]))
        return rng.choice(spec) if isinstance(spec, list | tuple) else spec

    kv_heads = pick("Hkv", [1, 2])
    case: dict[str, Any] = {
        "id": f"hidden-{index}",
        "B": pick("B", [1, 2]),
        "Hq": kv_heads * pick("group", [1, 4]),
        "Hkv": kv_heads,
        "Sq": pick("Sq", {"min": 1, "max": 100}),
        "Sk": pick("Sk", {"min": 1, "max": 200}),
        "D": pick("D", [64, 128]),
        "dtype": "fp16",
        "causal": pick("causal", [True]),
        "layout": pick("layout", ["contiguous"]),
        "distribution": pick("distribution", ["normal"]),
    }
    if task == "gqa_decode":
        case["Sk"] = max(case["Sk"], case["Sq"])
        lengths = [rng.randint(0, case["Sk"]) for _ in range(case["B"])]
        for index, length in zip(rng.sample(range(case["B"]), case["B"]), (case["Sk"], 0, 1), strict=False):
            lengths[index] = length
        case["seq_lens"] = lengths
    return case
