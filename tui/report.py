"""A lab as one self-contained HTML page to share: chart, shapes, champion's diff, timeline, environment.

The page has no script and refers to nothing outside itself; its content policy forbids both. Every text of a
model, a compiler, a kernel or a person is cleaned and escaped on its way in.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path

from kernel_lab.engine import events as e
from kernel_lab.engine.errors import LedgerError
from kernel_lab.engine.facts import Speed
from kernel_lab.engine.ledger.records import Record
from kernel_lab.engine.ledger.store import RECORD_COLUMNS, EventReader
from kernel_lab.engine.ledger.views import ExperimentRow, LabView
from kernel_lab.tui import diffs, fmt, report_chart
from kernel_lab.tui.history import why_of
from kernel_lab.tui.live_text import baselines, fmt_baseline
from kernel_lab.tui.series import Scored
from kernel_lab.tui.text import one_line

MARK = "<!-- a report of kernel-lab -->"
"""Stands in the page's first lines: a file that has it may be written over."""

TOLD_MOST = 1_500
LISTED_MOST = 3_000
VALUE_LIMIT = 300
POLICY = "default-src 'none'; style-src 'unsafe-inline'"

_THIS_MACHINE = ("uuid", "cuda_visible", "devices", "other_processes")
"""Parts of the environment that name one machine and prove nothing about the numbers."""

_TOLD: tuple[type[e.Event], ...] = (
    e.EngineStarted,
    e.EngineStopped,
    e.ModeChanged,
    e.SpaceExplored,
    e.Decided,
    e.ChampionChanged,
    e.StatusRevised,
    e.ExperimentFinished,
    e.IdeaSaid,
    e.IdeaUsed,
    e.IdeaWithdrawn,
)


def page(ledger: EventReader, name: str, made: float) -> str:
    """The report of a lab as it stands at `made` (seconds since the epoch)."""
    view, rows = ledger.view(), ledger.experiments()
    by_id = {row.id: row for row in rows}
    champions = {task: by_id[n] for task in view.tasks if (n := view.champions.get(task, 0)) in by_id}
    baseline = "fa2" if all("fa2" in row.score for row in champions.values()) else "seed"
    parts = [_head(view, name, champions, made), _chart(rows, baseline)]
    for task in view.tasks:
        parts.append(_task(ledger, task, champions.get(task), rows))
    parts += [_timeline(ledger), _experiments(rows, view), _environment(view), _receipts(ledger, rows)]
    css = Path(__file__).with_name("report.css").read_text(encoding="utf-8")
    return (
        f'<!doctype html>\n{MARK}\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{_t(name, 80)} - kernel-lab</title><style>\n{css}</style></head>\n<body>\n"
        + "\n".join(filter(None, parts))
        + "\n</body></html>\n"
    )


def _t(text: object, limit: int = 600) -> str:
    """Any text on one line, without what a browser or an eye could be fooled by, and escaped."""
    return escape(one_line(text, limit))


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]], numeric: Sequence[int] = ()) -> str:
    """Cells are ready HTML; columns of `numeric` stand to the right."""

    def cells(row: Sequence[str], tag: str) -> str:
        return "".join(
            f'<{tag} class="num">{cell}</{tag}>' if index in numeric else f"<{tag}>{cell}</{tag}>"
            for index, cell in enumerate(row)
        )

    body = "".join(f"<tr>{cells(row, 'td')}</tr>\n" for row in rows)
    return f'<div class="wide"><table><tr>{cells(heads, "th")}</tr>\n{body}</table></div>'


def _when(moment: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.gmtime(moment))


# ---- sections --------------------------------------------------------------------------------------


def _head(view: LabView, name: str, champions: Mapping[str, ExperimentRow], made: float) -> str:
    tried = sum(n for status, n in view.counts.items() if status not in ("running", "seed"))
    count = "1 experiment" if tried == 1 else f"{tried} experiments"
    lines = [f"<h1>{_t(name, 80)}</h1>"]
    kind = "measured on the card" if view.device_kind == "measured" else "static: speeds are estimated"
    lines.append(
        f'<p class="dim">{_t(view.gpu, 40)} ({kind}), {_t(view.model, 60)}; {count}, '
        f"{view.counts.get('keep', 0)} kept; as of {_when(made)} UTC</p>"
    )
    for task, row in champions.items():
        lines.append(f"<p><strong>{_t(fmt.task_word(task), 40)}</strong> #{row.id}: {_scores(row)}</p>")
    return "\n".join(lines)


def _scores(row: ExperimentRow) -> str:
    """`1.31× FA2 [1.29, 1.33], 2.48× seed`, with the word for estimates."""
    if not row.score:
        return "not judged on speed"
    words = ", ".join(
        f"{fmt.ratio(row.score[name])} {_t(fmt_baseline(name), 20)} {fmt.interval(row.ci.get(name))}".strip()
        for name in baselines(row.score)
    )
    return words if row.score_kind == "measured" else f'{words} <span class="est">estimated</span>'


def _chart(rows: Sequence[ExperimentRow], baseline: str) -> str:
    scored = [
        Scored(
            row.id,
            row.task,
            row.status,
            row.score.get(baseline),
            row.score_kind != "measured",
            row.ci.get(baseline),
        )
        for row in rows
    ]
    svg = report_chart.progress_svg(scored, fmt_baseline(baseline))
    if not svg:
        return '<h2>Progress</h2><p class="dim">no experiment was judged on speed yet</p>'
    title = f"Progress: &#215; {_t(fmt_baseline(baseline), 20)} over the experiments"
    return f"<h2>{title}</h2><figure>{svg}<figcaption>{report_chart.legend(scored)}</figcaption></figure>"


def _task(
    ledger: EventReader, task: str, champion: ExperimentRow | None, rows: Sequence[ExperimentRow]
) -> str:
    word = _t(fmt.task_word(task), 40)
    if champion is None:
        return f'<h2>{word}</h2><p class="dim">no champion yet</p>'
    parts = [f"<h2>{word}: the champion #{champion.id}, shape by shape</h2>"]
    speed = ledger.speed(champion.id)
    parts.append(_shapes(speed) if speed else '<p class="dim">not judged on speed</p>')
    seed = next((row for row in rows if row.task == task and row.parent is None), None)
    parts.append(f"<h2>{word}: what changed from the seed</h2>")
    if seed is None or seed.id == champion.id:
        parts.append('<p class="dim">the seed itself is the champion</p>')
    else:
        parts.append(_diff(_text(ledger, seed.source_sha), _text(ledger, champion.source_sha)))
    return "\n".join(parts)


def _shapes(speed: Speed) -> str:
    names = baselines({name for row in speed.per_workload for name in row.vs})
    heads = ["workload", "weight", "time", *(f"&#215; {_t(fmt_baseline(name), 20)}" for name in names)]
    heads += ["of the roof", "limited by", "rate"]
    rows = []
    for row in speed.per_workload:
        ratios = [f"{fmt.ratio(row.vs.get(name))} {fmt.interval(row.ci.get(name))}".strip() for name in names]
        rate = f"{row.rate:.3g} {_t(row.rate_unit, 12)}"
        tail = [f"{row.roof_percent:.0f} %", _t(row.bound, 20), rate]
        rows.append([_t(row.workload, 60), f"{row.weight:.2g}", fmt.time_us(row.time_us), *ratios, *tail])
    note = (
        ""
        if speed.kind == "measured"
        else '<p class="est">estimated from the compiled code: not measured</p>'
    )
    last = len(names) + 5
    return note + _table(heads, rows, numeric=(1, 2, *range(3, 3 + len(names)), 3 + len(names), last))


def _text(ledger: EventReader, sha: str | None) -> str | None:
    try:
        return None if not sha else ledger.blob(sha).decode("utf-8", "replace")
    except LedgerError:
        return None


def _diff(old: str | None, new: str | None) -> str:
    if old is None or new is None:
        return '<p class="dim">a text is missing from the ledger</p>'
    diff = diffs.unified(old, new)
    if diff.same:
        return '<p class="dim">no difference</p>'
    signs = {"add": "+ ", "remove": "- ", "same": "  ", "hunk": "", "note": "# "}
    shown = [f'<span class="{row.kind}">{escape(signs[row.kind] + row.text)}</span>' for row in diff.rows]
    head = f'<p><span class="good">+{diff.added}</span> <span class="bad">-{diff.removed}</span> lines</p>'
    return f"{head}<pre>{''.join(shown)}</pre>"


def _timeline(ledger: EventReader) -> str:
    """Ideas, decisions, keeps and holds in order; the newest, if there are very many."""
    marks = ",".join("?" * len(_TOLD))
    found = ledger.fetch(
        f"SELECT {RECORD_COLUMNS} FROM events WHERE type IN ({marks}) ORDER BY seq",  # noqa: S608
        [e.type_name(kind) for kind in _TOLD],
    )
    told = [(record, words) for row in found if (words := told_of(record := Record.from_row(row)))]
    left_out = len(told) - TOLD_MOST
    rows = [[_when(record.time), _about(record), words] for record, words in told[-TOLD_MOST:]]
    note = f'<p class="dim">{left_out:,} earlier entries are left out</p>' if left_out > 0 else ""
    return f"<h2>Ideas and decisions (UTC)</h2>{note}" + _table(("when", "experiment", "what"), rows)


def _about(record: Record) -> str:
    number = getattr(record.event, "experiment", None)
    return "" if number is None else f"#{number}"


def told_of(record: Record) -> str:
    """One event as a sentence in HTML; empty for what a timeline leaves out."""
    match record.event:
        case e.EngineStarted() as event:
            return f"the engine of kernel-lab {_t(event.version, 20)} started"
        case e.EngineStopped() as event:
            return f"the engine stopped ({_t(event.reason, 20)}): {_t(event.text)}"
        case e.ModeChanged() as event:
            return f"mode {_t(event.mode, 20)} by {_t(event.by, 40)}"
        case e.SpaceExplored() as event:
            return f"{_t(fmt.task_word(event.task), 40)}: {_t(event.text)}"
        case e.Decided() as event if event.by != "mode":
            why = f": {_t(event.why)}" if event.why else ""
            return f"{_t(event.decision, 20)} ({_t(event.kind, 20)}) by {_t(event.by, 40)}{why}"
        case e.ChampionChanged() as event:
            after = f" after #{event.previous}" if event.previous is not None else ""
            return f'<strong class="good">champion</strong> of {_t(fmt.task_word(event.task), 40)}{after}'
        case e.StatusRevised() as event:
            return f"{_t(event.status, 20)} by {_t(event.by, 40)}: {_t(event.why)}"
        case e.ExperimentFinished() as event if event.status in ("held", "cheat"):
            why = "; ".join(_t(reason.detail) for reason in event.reasons[:3])
            return f"{_t(event.status, 20)}: {why}"
        case e.IdeaSaid() as event:
            whom = f"from #{event.from_experiment}" if event.scope == "from" else _t(event.scope, 10)
            return f"idea {event.idea} ({whom}) by {_t(event.by, 40)}: {_t(event.text, 2_000)}"
        case e.IdeaUsed() as event:
            return f"answers idea {event.idea}"
        case e.IdeaWithdrawn() as event:
            return f"idea {event.idea} taken back by {_t(event.by, 40)}"
        case _:
            return ""


def _experiments(rows: Sequence[ExperimentRow], view: LabView) -> str:
    kept = set(view.champions.values())
    listed = [
        [
            f"#{row.id}",
            _t(fmt.task_word(row.task), 40),
            f"<strong>{_t(row.status, 16)}</strong>" if row.id in kept else _t(row.status, 16),
            "" if row.parent is None else f"#{row.parent}",
            _scores(row) if row.score else "",
            _t(why_of(row)),
        ]
        for row in rows[-LISTED_MOST:]
    ]
    left_out = len(rows) - len(listed)
    note = f'<p class="dim">{left_out:,} earlier ones are left out</p>' if left_out else ""
    heads = ("experiment", "task", "verdict", "from", "speed", "why")
    return (
        f"<h2>Experiments</h2><details><summary>all {len(rows)}, with why each was kept or not</summary>"
        f"{note}{_table(heads, listed)}</details>"
    )


def _environment(view: LabView) -> str:
    rows = []
    for name, value in sorted(view.environment.items()):
        parts = value.items() if isinstance(value, dict) else ((None, value),)
        for part, inner in sorted(parts, key=lambda pair: str(pair[0])):
            if part in _THIS_MACHINE:
                continue
            words = inner if isinstance(inner, str) else json.dumps(inner, sort_keys=True, default=str)
            what = _t(name, 40) if part is None else f"{_t(name, 40)}: {_t(part, 40)}"
            rows.append([what, f"<code>{_t(words, VALUE_LIMIT)}</code>"])
    settings = [f"{_t(key, 40)} = {_t(value, VALUE_LIMIT)}" for key, value in sorted(view.config.items())]
    left_out = "".join(f"<li>{_t(line)}</li>" for line in view.left_out)
    return (
        "<h2>Environment</h2>"
        + _table(("what", "value"), rows)
        + f'<p class="dim">settings: {"; ".join(settings) or "none"}</p>'
        + (f"<p>Left out of the matrix:</p><ul>{left_out}</ul>" if left_out else "")
    )


def _receipts(ledger: EventReader, rows: Sequence[ExperimentRow]) -> str:
    """What names each kept text and the event that kept it, and the head of the chain that binds them."""
    found = ledger.fetch(
        f"SELECT {RECORD_COLUMNS} FROM events WHERE type = ? ORDER BY seq",  # noqa: S608
        [e.type_name(e.ChampionChanged)],
    )
    texts = {row.id: row.source_sha or "" for row in rows}
    kept = []
    for row in found:
        record = Record.from_row(row)
        number = getattr(record.event, "experiment", 0)
        kept.append(
            [
                f"#{number}",
                f"<code>{_t(texts.get(number, ''), 64)}</code>",
                str(record.seq),
                f"<code>{_t(record.hash, 64)}</code>",
            ]
        )
    head = ledger.fetch("SELECT seq, hash FROM events ORDER BY seq DESC LIMIT 1")
    chain = (
        f"<p>The chain of {head[0][0]:,} events ends in <code>{_t(head[0][1], 64)}</code>.</p>"
        if head
        else ""
    )
    how = '<p class="dim">`kernel-lab verify` on the lab judges every keep again.</p>'
    heads = ("kept", "sha256 of the candidate", "event", "hash of the event")
    return f"<h2>Receipts</h2>{_table(heads, kept, numeric=(2,))}{chain}{how}"
