"""docs/judge.md names every gate, probe and rule of the lint that the code has, and none that it has not."""

from __future__ import annotations

import ast
import itertools
import re
from pathlib import Path

import pytest
from kernel_lab.engine.facts import GATES
from kernel_lab.engine.judge.lint_rules import RULES
from kernel_lab.engine.judge.race import ALPHA, ALPHA_LOSS, THRESHOLD
from kernel_lab.engine.judge.verdict import BUCKET_FLOOR, KEEP_THRESHOLD_ESTIMATED
from test_false_keeps import RACES, scores
from test_noise import NOISE

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "judge.md").read_text(encoding="utf-8")


def table(section: str) -> dict[str, list[str]]:
    """First cell, without its backticks, to the other cells of the table in a section."""
    text = re.split(r"^## ", PAGE.split(f"\n## {section}\n")[1], flags=re.MULTILINE)[0]
    rows = [line.strip("|").split(" | ") for line in text.splitlines() if line.startswith("| `")]
    return {row[0].strip().strip("`"): [cell.strip() for cell in row[1:]] for row in rows}


def kinds(name: str) -> dict[str, str]:
    """The literal KINDS of a module of the harness, which only torch's interpreter could import."""
    tree = ast.parse((ROOT / "engine" / "harness" / name).read_text(encoding="utf-8"))
    found = next(
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "KINDS"
    )
    assert isinstance(found, ast.Dict)
    return {
        str(ast.literal_eval(key)): str(ast.literal_eval(value))
        for key, value in zip(found.keys, found.values, strict=True)
        if key is not None
    }


def test_every_gate_is_explained_in_order_and_no_other() -> None:
    assert tuple(table("The gates")) == GATES


def test_every_probe_is_explained_with_its_kind_and_no_other() -> None:
    found = table("Probes")
    static, card = kinds("probes.py"), kinds("cardprobes.py")
    assert {name: cells[1] for name, cells in found.items()} == {**static, **card}
    assert {name for name, cells in found.items() if cells[2].startswith("card")} == set(card)


def test_every_rule_of_the_lint_is_explained_as_the_code_has_it() -> None:
    assert table("The lint") == {
        name: [rule.kind, rule.summary, rule.instead] for name, rule in RULES.items()
    }


def test_every_other_reason_that_the_judge_gives_is_a_gate_of_the_page() -> None:
    sources = [*(ROOT / "engine" / "judge").glob("*.py"), *(ROOT / "engine").glob("*.py")]
    given = {gate for path in sources for gate in re.findall(r'Reason\("(\w+)", ', path.read_text())}
    assert given <= set(GATES)


@pytest.mark.parametrize("number", [ALPHA, ALPHA_LOSS, THRESHOLD, BUCKET_FLOOR])
def test_the_numbers_of_the_keep_rule_are_those_of_the_code(number: float) -> None:
    assert f"{number:g}" in PAGE.split("## Speed, measured")[1].split("## Speed, estimated")[0]


def test_the_estimated_threshold_is_that_of_the_code() -> None:
    assert f"must promise {(KEEP_THRESHOLD_ESTIMATED - 1) * 100:.0f} % over the champion" in " ".join(
        PAGE.split()
    )


def test_the_figures_of_the_recording_are_what_it_holds() -> None:
    assert f"40 a workload, {len(NOISE)} workloads" in PAGE
    assert {len(rounds) for rounds in NOISE.values()} == {40}
    offsets, together = [], []
    for task in ("gqa_prefill", "gqa_decode"):
        found = scores(task)
        middle = sorted(found)[len(found) // 2]
        mean = sum(found) / len(found)
        spread = sum((log - mean) ** 2 for log in found)
        neighbours = sum((a - mean) * (b - mean) for a, b in itertools.pairwise(found))
        offsets.append(f"{middle * 100:.2f} %".replace("-", "−"))
        together.append(f"{neighbours / spread:.2f}")
    assert f"{offsets[0]} (prefill), {offsets[1]} (decode)" in PAGE
    assert f"{together[0]} (prefill), {together[1]} (decode)" in PAGE
    assert f"0 of {RACES:,} for each task" in PAGE
