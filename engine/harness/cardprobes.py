"""What the probes of a check on the card conclude, beyond those of every check (probes.py).

streams        an answer changes after the stream that was called on is done, or the card works on
graph_capture  the call cannot be captured in a CUDA graph
graph_replay   a captured call, its answer poisoned before, gives a wrong answer where the plain call
               gives a right one
graph_census   what the graph launches is not what the plain call launched
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import probes

if TYPE_CHECKING:
    from cardreferee import Step

KINDS = {
    **probes.KINDS,
    "streams": "cheat",
    "graph_capture": "mistake",
    "graph_replay": "cheat",
    "graph_census": "cheat",
    "two_clocks": "cheat",
    "late_work": "cheat",
}
DRAIN_US = 200.0
"""Work that goes on so long after the stream is done is no accident of the clock."""

_TORCH_KERNELS = ("elementwise_kernel", "FillFunctor", "CatArrayBatchedCopy", "index_elementwise")


def is_layout_node(name: str) -> bool:
    """Whether a node fills or copies memory and computes nothing: torch's part of a call."""
    return name in ("memcpy", "memset") or any(part in name for part in _TORCH_KERNELS)


def verdicts(
    gate: str, cases: list[dict[str, Any]], steps: list[Step], changed: list[str]
) -> list[dict[str, Any]]:
    """One check for each probe that looked at something."""
    eager: Any = [step for step in steps if not step.graph]
    helds = [step.answer if step.held is None else step.held for step in eager]
    found = probes.verdicts(gate, cases, eager, helds, changed, elsewhere={})
    names = [str(case.get("case") or case.get("id") or index) for index, case in enumerate(cases)]
    problems: dict[str, list[str]] = {}
    tried: dict[str, int] = {}

    def look(probe: str, bad: bool, text: str) -> None:
        tried[probe] = tried.get(probe, 0) + 1
        if bad:
            problems.setdefault(probe, []).append(text)

    for step in eager:
        case, report = names[step.case], step.report
        look("streams", report["late"], f"{case}: the result changed after its stream was done")
        look(
            "streams", report["drain_us"] > max(DRAIN_US, 0.2e6 * report["seconds"]),
            f"{case}: the card worked {report['drain_us']:.0f} us beyond the stream of the call",
        )  # fmt: skip
    plain = {step.case: step.report["launches"] for step in eager}
    right = {step.case: step.right for step in eager if step.kind == "main"}
    for step in steps:
        if not step.graph or (step.kind == "replayed" and "failed" in step.report):
            continue
        case = names[step.case]
        failed = step.report.get("failed")
        look("graph_capture", failed is not None, f"{case}: cannot be captured in a graph: {failed}")
        if failed is not None:
            continue
        wrong = step.right is False and right.get(step.case) is True
        look("graph_replay", wrong, f"{case}: wrong in a graph's replay, right when called")
        nodes = [node for node in step.report["nodes"] if not is_layout_node(node[0])]
        look(
            "graph_census", nodes != plain[step.case],
            f"{case}: a graph launches {_text(nodes)}, a call {_text(plain[step.case])}",
        )  # fmt: skip
    return found + [one_check(gate, name, problems.get(name, []), count) for name, count in tried.items()]


def _text(launches: list[list[Any]]) -> str:
    return ", ".join(f"{name[:60]}{tuple(grid)}" for name, grid in launches[:4]) or "nothing"


def one_check(gate: str, probe: str, problems: list[str], count: int) -> dict[str, Any]:
    detail = problems[0] if problems else f"{count} looked at"
    if len(problems) > 1:
        detail += f" (and {len(problems) - 1} more)"
    return {
        "gate": gate, "case": "all", "probe": probe, "status": "fail" if problems else "pass",
        "detail": detail, "error": float(len(problems)), "limit": 0.0, "seconds": 0.0,
    }  # fmt: skip
