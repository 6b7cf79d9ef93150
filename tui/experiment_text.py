"""What the Experiment screen says in its sections. Functions from state to lines; no widgets."""

from __future__ import annotations

import time
from collections.abc import Sequence

from kernel_lab.engine.ledger.views import ExperimentRow, OpenQuestion
from kernel_lab.tui import fmt, theme
from kernel_lab.tui.detail import Detail
from kernel_lab.tui.live_text import KIND_WORDS, baselines, expectation, fmt_baseline
from kernel_lab.tui.output import who
from kernel_lab.tui.text import fit, one_line, wrap, wrapped
from kernel_lab.tui.widgets.bars import joined
from rich.style import Style
from rich.text import Text

LAUNCH_HEADS = ("workload", "kernel", "grid")
OUTPUT_LINES = 200
PROPOSAL_LINES = 400
SHORT_NAMES = {"fa2": "FA2", "champion": "champ"}
LEVELS = {"good": theme.GOOD, "bad": theme.BAD, "warn": theme.WARN, "plain": theme.PLAIN}


def banner_lines(
    row: ExperimentRow | None,
    detail: Detail,
    question: OpenQuestion | None,
    champion: bool,
    width: int,
    similar: int = 0,
) -> list[Text]:
    """Why this experiment wants a person, or why it ended as it did; then what it is. At most six lines.

    `similar`: how many earlier ones that were taken back or caught are like it.
    """
    lines: list[Text] = []
    if question is not None:
        head = Text.styled(f" {KIND_WORDS.get(question.kind, question.kind)} ", theme.ALERT)
        keys = "a yes  r no  e edit" if question.kind == "proposal" else "a yes  r no  v veto"
        if question.kind == "plateau":
            keys = "i say an idea  a go on"
        head.append(f" {keys}  ", theme.KEY)
        head.append(fit(one_line(question.reason, 400), max(10, width - head.cell_len)), theme.WARN)
        lines.append(head)
    else:
        head = Text.styled(f" {detail.status} ", theme.status_style(detail.status) + Style(reverse=True))
        reasons = row.reasons if row is not None and row.reasons else detail.reasons
        why = "; ".join(one_line(reason.detail, 300) for reason in reasons[-2:])
        if detail.running and not why:
            why = "still being judged"
        head.append(" " + fit(why, max(10, width - head.cell_len - 1)))
        lines.append(head)
    lines.append(_title_line(row, detail, champion, width, similar))
    proposed = detail.proposed
    if proposed is not None:
        sentence = one_line(proposed.description, 600)
        lines += [Text.styled(line, theme.BOLD) for line in wrap(sentence, width)[:2]]
        expects = expectation(detail)
        if proposed.hypothesis or expects:
            why = " ".join(
                filter(None, [one_line(proposed.hypothesis, 600), f"Expects {expects}." if expects else ""])
            )
            lines += [Text.styled(line, theme.LABEL) for line in wrap(why, width)[:2]]
    return lines


def _title_line(row: ExperimentRow | None, detail: Detail, champion: bool, width: int, similar: int) -> Text:
    """Number, task and scores, then as much of the rest as fits: what is dropped is dropped whole."""
    origin = "the seed" if detail.parent is None else f"from #{detail.parent}"
    scores = Text()
    if detail.speed is not None:
        score = detail.speed.score
        words = ", ".join(f"{fmt.ratio(score[name])} {fmt_baseline(name)}" for name in baselines(score))
        scores.append(words, theme.BOLD)
        if detail.speed.kind != "measured":
            scores.append(" estimated", theme.WARN)
    return joined(
        [
            Text.styled(f"#{detail.experiment} {fmt.task_word(one_line(detail.task, 20))}", theme.HEADING),
            scores,
            Text.styled("champion" if champion else "", theme.GOOD),
            Text.styled(f"{similar} like it taken back before (6)" if similar else "", theme.WARN),
            Text.styled(f"{origin}, by {who(one_line(detail.proposer, 30))}", theme.LABEL),
            Text.styled(f"commit {one_line(row.commit, 40)[:10]}" if row and row.commit else "", theme.DIM),
        ],
        width,
    )


def speed_lines(detail: Detail, width: int) -> list[Text]:
    """Every workload: time, the ratios, share of the roof, what limits it, rate and weight."""
    speed = detail.speed
    if speed is None:
        return [Text.styled("not judged on speed", theme.DIM)]
    names = baselines(speed.score)
    told = (
        "measured"
        if speed.kind == "measured"
        else "estimated from the compiled code by a model: not measured"
    )
    lines = [Text.styled(line, theme.HEADING) for line in wrap(f"Speed, {told}", width)]
    for name in names:
        line = Text.styled(f"× {fmt_baseline(name):<14}", theme.LABEL)
        line.append(f"{fmt.ratio(speed.score[name]):>8}", theme.BOLD)
        line.append(f" {fmt.interval(speed.ci.get(name))}", theme.LABEL)
        lines.append(line)
    lines.append(Text())
    first = max((len(one_line(row.workload, 28)) for row in speed.per_workload), default=8)
    head = f"{'workload':<{first}} {'time':>9}"
    for name in names:
        head += f" {'× ' + SHORT_NAMES.get(name, one_line(name, 6)):>7}"
    lines.append(Text.styled(f"{head} {'roof':>6}  {'limited by':<12} {'rate':>13}  weight", theme.LABEL))
    for row in speed.per_workload:
        line = Text(f"{one_line(row.workload, 28):<{first}} {fmt.time_us(row.time_us):>9}")
        for name in names:
            value = row.vs.get(name)
            line.append(f" {fmt.ratio(value):>7}", ratio_style(value))
        line.append(f" {row.roof_percent:>4.0f} %  {one_line(row.bound, 12):<12}", theme.LABEL)
        line.append(f" {row.rate:>5.3g} {row.rate_unit:>7}  {row.weight:.2g}", theme.DIM)
        lines.append(line)
        intervals = [
            f"× {SHORT_NAMES.get(name, one_line(name, 6))} {row.ci[name][0]:.3f} to {row.ci[name][1]:.3f}"
            for name in names
            if name in row.ci
        ]
        if intervals:
            lines.append(Text.styled(fit(f"  {'   '.join(intervals)}", max(20, width)), theme.DIM))
    return lines


def ratio_style(value: float | None) -> Style:
    """Green above 1, red below, plain where the difference is within half a percent."""
    if value is None or abs(value - 1.0) <= 0.005:
        return theme.PLAIN
    return theme.GOOD if value > 1.0 else theme.BAD


def trial_lines(detail: Detail, width: int, estimated: bool) -> list[Text]:
    """Every setting tried, the fastest first within its bucket."""
    if not detail.trials:
        return [Text.styled("no setting was tried", theme.DIM)]
    lines: list[Text] = []
    if detail.changed:
        lines.append(Text.styled("settled", theme.HEADING))
        for bucket, chosen in detail.changed.items():
            lines.append(
                Text.styled(f"  {one_line(bucket, 30)}: {one_line(fmt.values(chosen), 300)}", theme.GOOD)
            )
        lines.append(Text.styled(""))
    kind = ", × the parent estimated" if estimated else ", × the parent measured"
    buckets = list(dict.fromkeys(trial.bucket for trial in detail.trials))
    for bucket in buckets:
        trials = [trial for trial in detail.trials if trial.bucket == bucket]
        lines.append(Text.styled(f"{one_line(bucket, 40)}  {len(trials)} tried{kind}", theme.HEADING))
        for trial in sorted(trials, key=lambda trial: -(trial.vs_parent or 0.0)):
            ratio = trial.vs_parent
            style = theme.BAD if ratio is None else theme.GOOD if ratio > 1.0 else theme.DIM
            line = Text.styled(f"{trial.trial:>4} ", theme.DIM)
            line.append(
                f"{fmt.ratio(ratio) if ratio is not None else one_line(trial.status, 13):>13}  ", style
            )
            line.append(one_line(fmt.values(trial.values), 400))
            lines.append(line)
            if ratio is None and trial.detail:
                lines += [
                    Text.styled(" " * 20 + part, theme.WARN)
                    for part in wrapped(trial.detail, max(8, width - 20), 8)
                ]
    return lines


def launch_lines(detail: Detail, estimated: bool) -> list[Text]:
    """What was compiled: shared memory, registers, spills, occupancy of every launch."""
    if not detail.launches:
        return [Text.styled("nothing was compiled", theme.DIM)]
    rows = [
        (
            one_line(launch.workload, 28),
            one_line(launch.kernel, 28),
            "x".join(str(part) for part in launch.grid[:3]).replace("x1x1", ""),
        )
        for launch in detail.launches
    ]
    widths = [max(len(head), *(len(row[i]) for row in rows)) for i, head in enumerate(LAUNCH_HEADS)]
    head = " ".join(f"{name:<{size}}" for name, size in zip(LAUNCH_HEADS, widths, strict=True))
    facts = f"{'warps':>5} {'smem':>9} {'regs':>4} {'spill':>6} {'CTA/SM':>6} {'occup.':>6}  tensor cores"
    lines = [Text.styled(f"{head} {facts}", theme.LABEL)]
    for row, launch in zip(rows, detail.launches, strict=True):
        line = Text(" ".join(f"{cell:<{size}}" for cell, size in zip(row, widths, strict=True)))
        line.append(f" {launch.num_warps:>5} {launch.smem_bytes:>7,} B {launch.registers:>4} ")
        line.append(f"{launch.spill_bytes:>4} B", theme.BAD if launch.spill_bytes else theme.PLAIN)
        line.append(f" {launch.ctas_per_sm:>6} {launch.occupancy * 100:>4.0f} %")
        cores = one_line(launch.tensor_cores, 12)
        line.append(f"  {cores or 'none'}", theme.PLAIN if cores else theme.WARN)
        if launch.time_us is not None:
            share = f" {launch.share * 100:.0f} %" if launch.share is not None else ""
            line.append(f"  {'est. ' if estimated else ''}{fmt.time_us(launch.time_us)}{share}", theme.DIM)
        lines.append(line)
    return lines


def story_lines(detail: Detail, row: ExperimentRow | None, width: int) -> list[Text]:
    """What happened in order, every reason in full, and what the candidate itself printed."""
    lines = _proposed_lines(detail, width)
    lines.append(Text.styled("What happened", theme.HEADING))
    for step in detail.steps:
        clock = time.strftime("%H:%M:%S", time.localtime(step.time)) if step.time else ""
        head = f"{clock} {one_line(step.what, 22):<14} "
        parts = wrapped(one_line(step.text), max(8, width - len(head)), 40) or [""]
        lines.append(Text.styled(head, LEVELS.get(step.level, theme.PLAIN)).append(parts[0], theme.PLAIN))
        lines += [Text.styled(" " * len(head) + part) for part in parts[1:]]
    reasons = row.reasons if row is not None and row.reasons else detail.reasons
    if reasons:
        lines += [Text.styled(""), Text.styled("Reasons", theme.HEADING)]
        for reason in reasons:
            lines.append(
                Text.styled(f"{who(one_line(reason.gate, 20))} / {one_line(reason.probe, 40)}", theme.LABEL)
            )
            lines += [Text.styled(f"  {part}") for part in wrapped(reason.detail, max(8, width - 2), 60)]
    if detail.said:
        lines += [Text.styled(""), Text.styled("What the agent said", theme.HEADING)]
        lines += [
            Text.styled(f"  {part}", theme.DIM)
            for part in wrapped(detail.said, max(8, width - 2), OUTPUT_LINES)
        ]
    for gate, finished in detail.gates.items():
        output = finished.facts.get("output")
        if output:
            lines += [
                Text.styled(""),
                Text.styled(f"The candidate's own output ({one_line(gate, 20)})", theme.HEADING),
            ]
            lines += [
                Text.styled(f"  {part}", theme.DIM)
                for part in wrapped(output, max(8, width - 2), OUTPUT_LINES)
            ]
    return lines


def _proposed_lines(detail: Detail, width: int) -> list[Text]:
    """The proposal's own words in full."""
    proposed = detail.proposed
    if proposed is None:
        return []
    lines = [Text.styled("What was proposed", theme.HEADING)]
    for words in (proposed.description, proposed.hypothesis):
        lines += [Text(part) for part in wrapped(words, width, PROPOSAL_LINES)]
    facts = (expectation(detail), f"turns {one_line(proposed.lever, 60)}", _answers(proposed.ideas))
    lines += [Text.styled(part, theme.LABEL) for part in wrapped("; ".join(filter(None, facts)), width)]
    return [*lines, Text()]


def _answers(ideas: Sequence[int]) -> str:
    return "answers " + ", ".join(f"idea {number}" for number in ideas) if ideas else ""
