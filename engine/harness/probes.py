"""What the probes of a check conclude from all calls together. Each catches a kind of cheat, not one trick.

A probe of the kind `cheat` that fails means that no honest mistake explains it; a probe of the kind
`mistake` means that the candidate breaks the contract, perhaps in good faith.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from referee import Step

DISABLED = frozenset(filter(None, os.environ.get("KERNEL_LAB_DISABLE_PROBE", "").split(",")))
"""Guards that are switched off, so that the selftest can show that it notices."""
PROBED_CASES = 4
KEYS_AT_LEAST = 32

KINDS = {
    "inputs_unchanged": "mistake",
    "same_bits": "mistake",
    "output_memory": "mistake",
    "held_output": "mistake",
    "host_sync": "mistake",
    "poisoned_memory": "mistake",
    "out_of_bounds": "mistake",
    "undefined_operation": "mistake",
    "false_hint": "mistake",
    "new_contents": "cheat",
    "one_element": "cheat",
    "aten_census": "cheat",
    "launch_census": "cheat",
    "same_launches": "cheat",
    "idle_kernels": "cheat",
    "process_census": "cheat",
    "functions_unchanged": "cheat",
}

HAZARDS = ("out_of_bounds", "undefined_operation", "false_hint")
"""What a trial finds while its kernels run (hazards.py)."""


REAL_LAUNCH = "real_launch"
"""That programs of a timed shape's real launch write something: told by samples, not over all calls."""


def chosen_cases(cases: list[dict[str, Any]], rng: random.Random) -> list[int]:
    """Cases that are called more than once: one of each sort, small ones, and never one of a few keys."""
    sorts: dict[tuple[Any, ...], list[tuple[int, int]]] = {}
    for index, case in enumerate(cases):
        if case["Sk"] < KEYS_AT_LEAST and len(cases) > 1:
            continue
        sort = (case.get("bucket"), case.get("causal"), case["Sq"] < case["Sk"], case["D"] > 128)
        work = case["B"] * case["Hq"] * case["Sq"] * case["Sk"] * case["D"]
        sorts.setdefault(sort, []).append((work, index))
    chosen = [min(group)[1] for group in sorts.values()]
    rng.shuffle(chosen)
    return chosen[:PROBED_CASES]


def verdicts(
    gate: str,
    cases: list[dict[str, Any]],
    steps: list[Step],
    helds: list[torch.Tensor],
    changed: list[str],
    elsewhere: dict[int, Any],
    shapes: Iterable[tuple[str, list[Any], Any]] = (),
) -> list[dict[str, Any]]:
    """One check for each probe. `helds`: what each step's answer looked like one call later; `elsewhere`: by
    case, the launches of the same call in a process without interpreter and contents, or why there are none;
    `shapes`: names of further calls with their launches here and there.
    """
    found: dict[str, list[str]] = {name: [] for name in KINDS}
    tried = dict.fromkeys(KINDS, 0)
    names = [str(case.get("case") or case.get("id") or index) for index, case in enumerate(cases)]
    census: dict[int, list[Any]] = {}
    for at, step in enumerate(steps):
        case, report = names[step.case], step.report
        _look(found, tried, "inputs_unchanged", not step.intact, f"{case}: an input was written to")
        _look(found, tried, "output_memory", bool(report["aliases"]),
              f"{case}: the result lies in the memory of {', '.join(report['aliases'])}")  # fmt: skip
        _look(found, tried, "output_memory", report["shares_previous"],
              f"{case}: the result lies in the memory of an earlier result")  # fmt: skip
        if at + 1 < len(steps):
            same = bool((helds[at] == step.answer).all())
            _look(found, tried, "held_output", not same, f"{case}: a result changed during the next call")
        _look(found, tried, "host_sync", bool(report["synchronising"]),
              f"{case}: waits for the device in aten.{', aten.'.join(report['synchronising'])}")  # fmt: skip
        _look(found, tried, "aten_census", bool(report["foreign"]),
              f"{case}: lets torch compute aten.{', aten.'.join(report['foreign'][:5])}")  # fmt: skip
        _look(found, tried, "launch_census", not report["launches"], f"{case}: no kernel launched")
        before, after = report["threads"]
        _look(found, tried, "process_census", after > before,
              f"{case}: {after - before} threads or processes more after the call")  # fmt: skip
        tried["poisoned_memory"] += report["poisoned"]
        for probe in HAZARDS:
            texts = report.get("hazards", {}).get(probe, [])
            _look(found, tried, probe, bool(texts), f"{case}: {texts[0]}" if texts else "")
        launches = [[*one, given] for one, given in zip(report["launches"], report["given"], strict=True)]
        first = census.setdefault(step.case, launches)
        text = f"{case}: launches {_text(launches)}, earlier {_text(first)} for the same shape"
        _look(found, tried, "launch_census", first != launches, text + _setting(launches, first))
    pairs = [(names[index], census[index], launches) for index, launches in elsewhere.items()]
    for name, here, there in (*pairs, *shapes):
        text = f"{name}: {_said(here)}, but without contents {_said(there)}{_setting(here, there)}"
        _look(found, tried, "same_launches", there != here, text)
    _compare_calls(found, tried, steps, names)
    tried["functions_unchanged"] = 1
    if changed:
        found["functions_unchanged"].append(f"replaced {', '.join(changed[:5])}")
    return [_check(gate, name, found[name], tried[name]) for name in KINDS if tried[name]]


def _compare_calls(
    found: dict[str, list[str]], tried: dict[str, int], steps: list[Step], names: list[str]
) -> None:
    """The bits of the calls of one case beside each other."""
    by_kind = {(step.case, step.kind): step for step in steps}
    for (index, kind), step in by_kind.items():
        if kind in ("main", "idle"):
            continue
        case = names[index]
        earlier = by_kind[index, "renewed" if kind == "changed" else "main"]
        same = bool((step.answer == earlier.answer).all())
        # Who is wrong anyway is incorrect; who is right once and then stale cheats. An answer that is right
        # for the new contents too (they may change nothing that counts) is not stale.
        stale = same and bool(earlier.right) and not step.right
        if kind == "repeat":
            _look(found, tried, "same_bits", not same, f"{case}: the same inputs gave other bits")
        elif kind == "renewed":
            _look(found, tried, "new_contents", stale,
                  f"{case}: new contents at the same address gave the old result")  # fmt: skip
        else:
            _look(found, tried, "one_element", stale, f"{case}: a changed element gave the old result")


def _look(found: dict[str, list[str]], tried: dict[str, int], probe: str, bad: bool, text: str) -> None:
    tried[probe] += 1
    if bad:
        found[probe].append(text)


def _text(launches: list[list[Any]]) -> str:
    return ", ".join(f"{name}{tuple(grid)}" for name, grid, _ in launches[:4]) or "nothing"


def _said(launches: Any) -> str:
    """What a call launches, or why it fails."""
    return launches if isinstance(launches, str) else f"launches {_text(launches)}"


def _setting(here: Any, there: Any) -> str:
    """The first setting that differs between launches of the same names and grids."""
    if isinstance(here, list) and isinstance(there, list) and _text(here) == _text(there):
        for (_, _, one), (_, _, other) in zip(here, there, strict=False):
            for key in sorted(one.keys() | other.keys()):
                if one.get(key) != other.get(key):
                    return f" ({key} is {one.get(key)}, then {other.get(key)})"
    return ""


def _check(gate: str, probe: str, problems: list[str], tried: int) -> dict[str, Any]:
    detail = problems[0] if problems else f"{tried} looked at"
    if len(problems) > 1:
        detail += f" (and {len(problems) - 1} more)"
    return {
        "gate": gate, "case": "all", "probe": probe, "status": "fail" if problems else "pass",
        "detail": detail, "error": float(len(problems)), "limit": 0.0, "seconds": 0.0,
    }  # fmt: skip
