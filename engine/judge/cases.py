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
"""From so many queries on, a timed shape has a narrow case of its length."""
MOST_QUERIES = 2048
"""More would take the interpreter too long."""
LONGEST_SAMPLE = 8192
SHORTENED = 4096
SHORTEN = 0.75
"""So often the sequences of longer caches than LONGEST_SAMPLE end at SHORTENED in a sample."""


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


def model_cases(workloads: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The heads of each timed shape over few keys, every program of which runs, where no timed shape does."""
    found: dict[str, dict[str, Any]] = {}
    for workload in workloads:
        heads = {key: workload[key] for key in ("task", "Hq", "Hkv", "D")}
        queries = min(int(workload["Sq"]), 16)
        case = {**heads, "B": 1, "Sq": queries, "Sk": 40, "causal": workload.get("causal", True)}
        if "seq_lens" in workload:
            case["seq_lens"] = [33]
        name = "-".join(str(case[key]) for key in ("Hq", "Hkv", "D"))
        found.setdefault(f"heads-{name}", {**case, **_NARROW})
    return [{**case, "id": name} for name, case in found.items()]


def long_cases(workloads: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One narrow case with as many queries as each timed shape has, over few keys of one head: all rows of a
    head where the timed shapes themselves do not run."""
    found: dict[str, dict[str, Any]] = {}
    for workload in workloads:
        queries = int(workload["Sq"])
        if LONG <= queries <= MOST_QUERIES:
            heads = {**{key: workload[key] for key in ("task", "D")}, "B": 1, "Hq": 1, "Hkv": 1}
            found[f"queries-{queries}"] = {**heads, "Sq": queries, "Sk": 64, "causal": False, **_NARROW}
    return [{**case, "id": name} for name, case in found.items()]


def sampled_cases(workloads: Sequence[Mapping[str, Any]], task: str, seed: int) -> list[dict[str, Any]]:
    """The timed shapes, of whose launches a few programs run in the interpreter.

    Very long sequences are mostly cut short there: what a cache holds is data that no launch depends on.
    """
    rng = random.Random(seed)  # noqa: S311  a choice, not a secret
    cases = []
    for case in seeded_cases(workloads, task, seed):
        lengths = case.get("seq_lens")
        if case["Sk"] > LONGEST_SAMPLE and lengths is not None and rng.random() < SHORTEN:
            case = {**case, "seq_lens": [min(int(length), SHORTENED) for length in lengths]}
        cases.append({**case, "sampled": True})
    return cases


_NARROW = {"dtype": "fp16", "layout": "contiguous", "distribution": "normal"}


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
