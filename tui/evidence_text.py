"""The evidence behind a verdict as tables: values against their limits, probes by gate, launches, clocks.

Also what else bears on it: verdicts so far, and earlier vetoes of something like it. Pure: no widgets.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping, Sequence

from kernel_lab.engine.facts import Check
from kernel_lab.engine.ledger.views import ExperimentRow
from kernel_lab.tui import fmt, theme
from kernel_lab.tui.detail import GATE_ORDER, Detail
from kernel_lab.tui.text import fit, one_line, wrapped
from rich.style import Style
from rich.text import Text

LEVELS = {"good": theme.GOOD, "bad": theme.BAD, "warn": theme.WARN, "plain": theme.PLAIN}
BAR_CELLS = 20
CASES_SHOWN = 300
SIMILAR_SHOWN = 5
SIMILAR_FROM = 3
_MARKS = {"pass": (".", theme.GOOD), "fail": ("F", theme.BAD), "unproven": ("?", theme.WARN)}
_TAKEN_BACK = ("vetoed", "cheat", "rejected")
_HEADS = {"correctness": "correct", "integrity": "integr."}


def matrix_lines(detail: Detail, width: int) -> list[Text]:
    """Every shape's error as a share of what it may be, then probes by gate."""
    if not detail.checks:
        return []
    return [*_value_lines(detail, width), *_probe_lines(detail, width)]


def _value_lines(detail: Detail, width: int) -> list[Text]:
    checks = [
        check
        for check in detail.checks.values()
        if check.error is not None and check.limit and check.limit > 0
    ]
    if not checks:
        return []
    lines = [
        Text.styled(
            fit("Values: error as a share of its limit, which FA2's own arithmetic sets", width),
            theme.HEADING,
        )
    ]
    checks.sort(key=lambda check: (_order(check.gate), -_share(check)))
    first = min(34, max(len(one_line(check.case, 34)) for check in checks))
    for check in checks[:CASES_SHOWN]:
        share = _share(check)
        style = (
            theme.BAD if check.status == "fail" or share > 1 else theme.WARN if share > 0.8 else theme.GOOD
        )
        cells = min(BAR_CELLS, max(0, round(share * BAR_CELLS)))
        line = Text.styled(f"{fit(one_line(check.case, 60), first):<{first}} ")
        line.append(f"{_HEADS.get(check.gate, one_line(check.gate, 8)):<8} ", theme.DIM)
        if width >= first + 60:
            line.append("#" * cells, style).append("." * (BAR_CELLS - cells) + " ", theme.DIM)
        line.append(f"{min(share, 99.99) * 100:>5.0f} % ", style)
        line.append(f"{check.error:.2e} of {check.limit:.2e}", theme.LABEL)
        lines.append(line)
    if len(checks) > CASES_SHOWN:
        lines.append(Text.styled(f"... {len(checks) - CASES_SHOWN:,} more", theme.DIM))
    return [*lines, Text()]


def _share(check: Check) -> float:
    return (check.error or 0.0) / check.limit if check.limit else 0.0


def _order(gate: str) -> int:
    return GATE_ORDER.index(gate) if gate in GATE_ORDER else len(GATE_ORDER)


def _probe_lines(detail: Detail, width: int) -> list[Text]:
    """One row for each probe, one column for each gate: `.` passed, `F` failed, `?` unproven here."""
    gates = sorted({gate for gate, _, _ in detail.checks}, key=_order)
    probes = sorted({probe for _, _, probe in detail.checks})
    first = min(28, max(len(one_line(probe, 28)) for probe in probes))
    heads = [_HEADS.get(gate, one_line(gate, 8)) for gate in gates]
    sizes = [max(8, len(head)) for head in heads]
    passed = sum(check.status == "pass" for check in detail.checks.values())
    lines = [Text.styled(f"Probes: {passed} of {len(detail.checks)} checks passed", theme.HEADING)]
    row = f"{'':<{first}} " + " ".join(f"{head:>{size}}" for head, size in zip(heads, sizes, strict=True))
    lines.append(Text.styled(fit(row, max(width, 20)), theme.LABEL))
    counted: dict[tuple[str, str], list[str]] = {}
    for (gate, _, probe), check in detail.checks.items():
        counted.setdefault((probe, gate), []).append(check.status)
    for probe in probes:
        line = Text.styled(f"{fit(one_line(probe, 60), first):<{first}} ")
        for gate, size in zip(gates, sizes, strict=True):
            found = counted.get((probe, gate), [])
            worst = next((s for s in ("fail", "unproven", "pass") if s in found), "")
            mark, style = _MARKS.get(worst, ("", theme.DIM))
            bad = sum(status == worst for status in found)
            words = (
                f"{bad} {mark}" if worst in ("fail", "unproven") else f"{len(found)} {mark}" if found else ""
            )
            line.append(f"{words:>{size}} ", style)
        lines.append(line)
    return [*lines, Text()]


# ---- launches and clocks, from the race's own facts ------------------------------------------------


def census_lines(detail: Detail, width: int) -> list[Text]:
    """What ran on the card by its own count, and the host's clock beside it; nothing if none raced."""
    gate = detail.gates.get("speed")
    facts: Mapping[str, object] = gate.facts if gate is not None else {}
    lines: list[Text] = []
    launches = _table(facts.get("launches"))
    if launches:
        lines.append(
            Text.styled(
                fit("Launch census of the race: kernels seen on the card in one call", width), theme.HEADING
            )
        )
        for workload, kernels in launches.items():
            seen = [
                f"{_number(one.get('count'))} x {fit(one_line(one.get('kernel', ''), 200), 40)}"
                for one in (kernels if isinstance(kernels, list) else ())
                if isinstance(one, Mapping)
            ]
            words = f"{fit(one_line(workload, 60), 26):<27}{', '.join(seen) or 'none'}"
            lines.append(Text(fit(words, max(20, width))))
        lines.append(Text())
    clocks = _table(facts.get("clocks"))
    if clocks:
        lines.append(
            Text.styled(
                fit("Two clocks: a timed block by the card's events and by the host", width), theme.HEADING
            )
        )
        lines.append(Text.styled(f"{'':<27}{'card':>10} {'host':>10}  host / card", theme.LABEL))
        for workload, found in clocks.items():
            if not isinstance(found, Mapping):
                continue
            card, host = _float(found.get("block_us")), _float(found.get("host_us"))
            line = Text(
                f"{fit(one_line(workload, 60), 26):<27}{fmt.time_us(card):>10} {fmt.time_us(host):>10}"
            )
            if card and host:
                # A host that saw less than the card has been lied to by one of them.
                style = theme.BAD if host < card * 0.98 else theme.LABEL
                line.append(f"  {host / card:.3f}", style)
            lines.append(line)
        lines.append(Text())
    return lines


def _table(found: object) -> Mapping[str, object]:
    """The candidate's part of a fact that is kept for each rival."""
    own = found.get("candidate") if isinstance(found, Mapping) else None
    return own if isinstance(own, Mapping) else {}


def _float(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _number(value: object) -> str:
    number = _float(value)
    return "?" if number is None else f"{number:g}"


# ---- verdicts, and what was taken back before ------------------------------------------------------


def verdict_lines(detail: Detail, width: int) -> list[Text]:
    """Every verdict and decision so far, the newest first, with who and why; nothing while there is none."""
    if not detail.verdicts:
        return []
    lines = [Text.styled("Verdicts, the newest first", theme.HEADING)]
    for step in reversed(detail.verdicts):
        clock = time.strftime("%Y-%m-%d %H:%M", time.localtime(step.time)) if step.time else ""
        head = f"{clock} {one_line(step.what, 40):<22} "
        parts = wrapped(one_line(step.text), max(8, width - len(head)), 8) or [""]
        lines.append(Text.styled(head, LEVELS.get(step.level, theme.PLAIN)).append(parts[0], theme.PLAIN))
        lines += [Text(" " * len(head) + part) for part in parts[1:]]
    return [*lines, Text()]


def similar_vetoes(detail: Detail, rows: Iterable[ExperimentRow]) -> list[tuple[ExperimentRow, str]]:
    """Earlier experiments that were taken back or caught and were like this one, with why they are alike."""
    proposed = detail.proposed
    if proposed is None:
        return []
    words = _words(f"{proposed.description} {proposed.hypothesis}")
    found: list[tuple[int, ExperimentRow, str]] = []
    for row in rows:
        if row.id >= detail.experiment or row.status not in _TAKEN_BACK:
            continue
        alike = []
        score = 0
        if row.lever and row.lever == proposed.lever:
            score += 2
            alike.append(f"turned {one_line(row.lever, 30)} too")
        if row.source_sha and row.source_sha == detail.source_sha:
            score += 4
            alike.append("the very same text")
        shared = words & _words(f"{row.description} {row.hypothesis}")
        if len(shared) >= 3:
            score += min(4, len(shared) - 1)
            alike.append("speaks of " + ", ".join(sorted(shared)[:4]))
        score += row.task == detail.task
        if score >= SIMILAR_FROM:
            found.append((score, row, "; ".join(alike)))
    found.sort(key=lambda entry: (-entry[0], -entry[1].id))
    return [(row, alike) for _, row, alike in found[:SIMILAR_SHOWN]]


_COMMON = frozenset(
    [
        "about",
        "after",
        "again",
        "also",
        "because",
        "before",
        "below",
        "both",
        "could",
        "does",
        "down",
        "each",
        "every",
        "from",
        "have",
        "into",
        "keys",
        "less",
        "more",
        "most",
        "much",
        "only",
        "over",
        "same",
        "should",
        "some",
        "than",
        "that",
        "their",
        "them",
        "then",
        "there",
        "these",
        "they",
        "this",
        "those",
        "through",
        "time",
        "tile",
        "tiles",
        "with",
        "when",
        "where",
        "which",
        "while",
        "will",
        "would",
        "kernel",
        "faster",
        "attention",
    ]
)


def _words(text: str) -> set[str]:
    return {
        word for word in re.findall(r"[a-z0-9_]{4,24}", one_line(text, 4_000).lower()) if word not in _COMMON
    }


def similar_lines(similar: Sequence[tuple[ExperimentRow, str]], width: int) -> list[Text]:
    """Those experiments, with the reason that a person or the judge gave."""
    if not similar:
        return []
    lines = [Text.styled("Like it, and taken back or caught before", theme.HEADING)]
    for row, alike in similar:
        why = "; ".join(one_line(reason.detail, 200) for reason in row.reasons[-2:])
        style: Style = theme.status_style(row.status)
        head = Text.styled(f"#{row.id} {one_line(row.status, 12)} ", style)
        lines.append(head.append(fit(why, max(8, width - head.cell_len)), theme.PLAIN))
        lines.append(Text.styled(fit(f"   {alike}", max(8, width)), theme.LABEL))
    return [*lines, Text()]
