"""What Live says in words: status, proposal, strip of checks, queue. From state to lines; no widgets."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

from kernel_lab.engine.ledger.views import OpenQuestion, provisional
from kernel_lab.tui import fmt, theme
from kernel_lab.tui.detail import GATE_ORDER, Detail
from kernel_lab.tui.model import LabModel
from kernel_lab.tui.output import who
from kernel_lab.tui.text import ellipsis, fit, one_line, wrapped
from kernel_lab.tui.widgets.bars import checks_strip, joined
from rich.text import Text

STREAM_SHOWN = 12_000
"""Characters of streamed text that the pane shows, from the end."""

QUEUE_LINES = 3
BLOCK_LINES = 60
"""Lines of one part of a proposal: its hypothesis, say. The Experiment screen has the rest."""

STRIP_GATES = ("lint", "screen", "quick", "trials", "correctness", "integrity", "speed", "confirm")
PHASE_WORDS = {"person": "waits for you", "approval": "waits for you", "propose": "proposing"}
KIND_WORDS = {
    "proposal": "may it be judged?",
    "keep": "keep it?",
    "hold": "held: keep it?",
    "plateau": "plateau",
}


# ---- status


def status_lines(model: LabModel, width: int, height: int, replaying: bool) -> list[Text]:
    """One or two lines that always say what runs, how good the champions are, and who decides."""
    view = model.view
    if view is None:
        return [Text.styled(" opening the lab ...", theme.DIM)]
    parts = [_state_word(model, replaying), _experiment_word(model), *champion_words(model)]
    rest = [
        Text.styled(f"mode {one_line(view.mode, 12) or '-'}", theme.LABEL),
        budget_word(model),
        card_word(model),
        _judge_word(model),
        Text.styled(one_line(view.model, 30), theme.LABEL),
        Text.styled(one_line(view.lab, 30), theme.DIM),
    ]
    if height < 2:
        order = [parts[0], *parts[2:], parts[1], *rest]
        return [joined([Text(" ") + part if i == 0 else part for i, part in enumerate(order)], width)]
    first = joined([Text(" ") + parts[0], parts[1], *rest], width)
    return [first, scores_line(model, width)]


def scores_line(model: LabModel, width: int) -> Text:
    """Every champion's score in the longest form that fits."""
    for brief in (0, 1, 2):
        line = Text(" ")
        for part in champion_words(model, brief):
            line.append_text(part if line.plain == " " else Text("   ") + part)
        if line.cell_len <= width:
            break
    line.truncate(width)
    return line


def _state_word(model: LabModel, replaying: bool) -> Text:
    view = model.view
    assert view is not None  # noqa: S101  the caller has looked
    if replaying:
        place = model.position
        state = "playing" if place.playing else "halted"
        return Text.styled(f"replay {state} {place.seq}/{place.total} {place.speed:g}x", theme.WARN)
    if not view.engine_alive:
        why = one_line(view.stopped or "").removeprefix("stopped ")
        return Text.styled(f"stopped ({ellipsis(why, 24)})" if why else "stopped", theme.WARN)
    if model.questions and model.now.get("phase") == "approval":
        return Text.styled("needs you", theme.WARN)
    if view.paused:
        return Text.styled(
            "paused" if model.detail is None or not model.detail.running else "pausing", theme.WARN
        )
    return Text.styled("running", theme.GOOD)


def _experiment_word(model: LabModel) -> Text:
    detail = model.detail
    if model.proposing is not None:
        task = fmt.task_word(one_line(model.now.get("task") or "", 20))
        return Text.styled(f"#{model.proposing} {task} ", theme.BOLD).append("proposing", theme.ACCENT)
    if detail is None:
        return Text.styled("no experiment yet", theme.LABEL)
    if not detail.running:
        return Text.styled(f"#{detail.experiment} ", theme.BOLD).append(
            one_line(detail.status, 16), theme.status_style(detail.status)
        )
    return Text.styled(f"#{detail.experiment} {fmt.task_word(detail.task)} ", theme.BOLD).append(
        phase_words(model), theme.ACCENT
    )


def phase_words(model: LabModel) -> str:
    """`trials 5/24`, `correctness`, …"""
    detail = model.detail
    now = model.now if detail and model.now.get("experiment") == detail.experiment else {}
    phase = one_line(now.get("phase") or "", 24)
    if not phase and detail:
        row = model.rows.get(detail.experiment)
        phase = one_line(row.phase, 24) if row else ""
    if phase == "trials" and now.get("trials"):
        return f"trials {now.get('trial', '?')}/{now['trials']}"
    return PHASE_WORDS.get(phase, phase) or "at work"


def champion_words(model: LabModel, brief: int = 0) -> list[Text]:
    """`decode #9 1.31× seed, 0.97× FA2` for each task, then the word that says what the numbers are.

    `brief` 1 leaves out the champion's number, 2 the seed as well.
    """
    view = model.view
    result: list[Text] = []
    kinds = set()
    for task in view.tasks if view else ():
        row = model.champion(task)
        text = Text.styled(fmt.task_word(one_line(task, 20)), theme.task_style(task))
        if row is None:
            result.append(text.append(" no champion yet", theme.DIM))
            continue
        if not brief:
            text.append(f" #{row.id}", theme.LABEL)
        scores = [
            f"{fmt.ratio(row.score[name])} {word} {fmt.interval(row.ci.get(name))}".rstrip()
            for name, word in (("seed", "seed"), ("fa2", "FA2"))
            if name in row.score and (brief < 2 or name == "fa2")
        ]
        text.append(" " + ", ".join(scores) if scores else " not judged", theme.BOLD)
        if scores:
            kinds.add(row.score_kind)
        result.append(text)
    if kinds - {"measured"}:
        word = Text.styled("estimated" if kinds == {"estimated"} else "estimated in part", theme.WARN)
        # Where the line may be cut the word comes first.
        result.insert(0 if brief > 1 else len(result), word)
    return result


def budget_word(model: LabModel) -> Text:
    budget = model.setting("budget")
    words = f"{model.done}/{budget} tried" if budget else f"{model.done} tried"
    spent = model.view.spending if model.view is not None else None
    if spent is not None and spent.requests:
        usd, tokens = model.setting("usd"), model.setting("tokens")
        if spent.unpriced < spent.requests:
            words += f", {spent.usd:.2f}{f'/{usd:g}' if usd else ''} USD"
        if tokens or spent.unpriced == spent.requests:
            words += f", {spent.tokens:,}{f'/{tokens:,}' if tokens else ''} tokens"
    return Text.styled(words, theme.LABEL)


def card_word(model: LabModel) -> Text:
    """The card as it was last seen at work: clock, temperature, power, and what holds it back."""
    view = model.view
    if view is None:
        return Text()
    word = Text.styled(one_line(view.gpu, 24), theme.LABEL)
    if view.device_kind != "measured":
        return word.append(f" {view.device_kind}", theme.LABEL)
    facts = model.card
    for name, unit in (("clock_mhz", "MHz"), ("temperature_c", "°C"), ("power_w", "W")):
        value = facts.get(name)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            word.append(f" {value:.0f} {unit}", theme.LABEL)
    held_back = facts.get("throttle")
    names = (
        [one_line(name, 20).replace("_", " ") for name in held_back] if isinstance(held_back, list) else []
    )
    return word.append(f" {', '.join(names[:3])}", theme.WARN) if names else word


def _judge_word(model: LabModel) -> Text:
    """What the judge's word is worth here."""
    why = provisional(model.view.selftest) if model.view else ""
    if why:
        return Text.styled(f"keeps provisional ({one_line(why, 60)})", theme.WARN)
    tried = model.view.selftest if model.view else None
    if tried is not None and tried.line:
        return Text.styled(f"judge {one_line(tried.line, 80).partition(',')[0]}", theme.GOOD)
    return Text.styled(
        "judge: checked, estimated" if model.estimated else "judge: checked, measured", theme.LABEL
    )


# ---- the proposal


def proposal_lines(model: LabModel, width: int) -> list[Text]:
    """The newest experiment as people read it, from its sentence to its verdict."""
    detail = model.detail
    if model.proposing is not None:
        return proposing_lines(model, width)
    if detail is None:
        return [Text.styled("Nothing is proposed yet.", theme.DIM)]
    lines = [*asked_lines(model, detail, width)]
    head = Text.styled(f"#{detail.experiment} {fmt.task_word(detail.task)}", theme.HEADING)
    origin = "the seed" if detail.parent is None else f"from #{detail.parent}"
    head.append(f"  {origin}, by {who(one_line(detail.proposer, 30))}", theme.LABEL)
    lines.append(head)
    proposed = detail.proposed
    if proposed is not None:
        lines += _block("", proposed.description, width, theme.BOLD)
        lines += _block("Why", proposed.hypothesis, width)
        lines += _block("Expects", expectation(detail), width)
        lines += _block("Turns", proposed.lever, width)
        if proposed.ideas:
            said = {idea.id: idea.text for idea in model.ideas}
            for number in proposed.ideas:
                lines += _block("Answers", f"idea {number}: {one_line(said.get(number, ''), 300)}", width)
    if detail.trials:
        lines.append(Text.styled(""))
        lines += _trials_summary(detail, width, model.estimated)
    if detail.speed is not None:
        kind = "" if detail.speed.kind == "measured" else ", estimated"
        scores = ", ".join(
            f"{fmt.ratio(detail.speed.score[name])} {fmt_baseline(name)} "
            f"{fmt.interval(detail.speed.ci.get(name))}".strip()
            for name in baselines(detail.speed.score)
        )
        lines += _block("Speed", f"{scores}{kind}", width)
    if not detail.running:
        lines.append(Text.styled(""))
        verdict = Text.styled(detail.status, theme.status_style(detail.status))
        lines.append(Text.styled("Verdict ", theme.LABEL).append_text(verdict))
        for reason in detail.reasons[:6]:
            lines += _block(who(reason.gate), reason.detail, width)
    return lines


def proposing_lines(model: LabModel, width: int) -> list[Text]:
    """What the proposer says while it works, from the end."""
    task = fmt.task_word(one_line(model.now.get("task") or "", 20))
    head = Text.styled(f"#{model.proposing} {task}", theme.HEADING).append(
        "  being proposed ...", theme.ACCENT
    )
    text = str(model.now.get("text") or "")
    return [head, *(Text(line) for line in wrapped(text[-STREAM_SHOWN:], width))]


def asked_lines(model: LabModel, detail: Detail, width: int) -> list[Text]:
    """What a person is asked about this experiment, on top of everything."""
    question = model.question_about(detail.experiment)
    if question is None:
        return []
    words = f" {KIND_WORDS.get(question.kind, question.kind)}  a yes  r no  e edit  o look "
    if question.kind != "proposal":
        words = f" {KIND_WORDS.get(question.kind, question.kind)}  a yes  r no  o look "
    if question.kind == "plateau":
        words = f" {KIND_WORDS['plateau']}  i say an idea  a go on "
    lines = [Text.styled(fit(words, width), theme.ALERT)]
    lines += [Text.styled(line, theme.WARN) for line in wrapped(one_line(question.reason), width)]
    lines.append(Text.styled(""))
    return lines


def expectation(detail: Detail) -> str:
    proposed = detail.proposed
    if proposed is None:
        return ""
    gain, bottleneck = proposed.prediction.gain_percent, proposed.prediction.bottleneck
    parts = [
        f"{gain:+.1f} %" if gain is not None else "",
        f"limited by {one_line(bottleneck, 60)}" if bottleneck else "",
    ]
    return ", ".join(part for part in parts if part)


def fmt_baseline(name: str) -> str:
    return {"fa2": "FA2", "champion": "the champion"}.get(name, one_line(name, 20))


def baselines(names: Iterable[str]) -> list[str]:
    """What a speed is compared with, the seed and FA2 first."""
    order = ["seed", "fa2", "champion"]
    return sorted(names, key=lambda name: (order.index(name) if name in order else len(order), name))


def _block(label: str, text: str, width: int, style: object = theme.PLAIN) -> list[Text]:
    """`Why  text that wraps below itself`; nothing for an empty text."""
    if not text:
        return []
    indent = 9 if label and width >= 40 else 0
    result = []
    for index, line in enumerate(wrapped(text, max(8, width - indent), BLOCK_LINES)):
        row = Text.styled(f"{label[:8]:<{indent}}" if index == 0 and indent else " " * indent, theme.LABEL)
        row.append(line, style)  # type: ignore[arg-type]
        result.append(row)
    return result


def _trials_summary(detail: Detail, width: int, estimated: bool) -> list[Text]:
    ran = [trial for trial in detail.trials if trial.vs_parent is not None]
    best = max(ran, key=lambda trial: trial.vs_parent or 0.0, default=None)
    lines = _block("Tried", f"{len(detail.trials)} settings, {len(ran)} ran", width)
    if best is not None:
        kind = "estimated " if estimated else ""
        words = f"{kind}{fmt.ratio(best.vs_parent)} the parent in {best.bucket}: {fmt.values(best.values)}"
        lines += _block("Best", words, width)
    return lines


# ---- the strip and the queue


def strip_line(model: LabModel, width: int) -> Text:
    """The gates of the newest experiment, filling as their checks end."""
    detail = model.detail
    if detail is None:
        return Text.styled("")
    gates = []
    phase = model.now.get("phase") if model.now.get("experiment") == detail.experiment else ""
    for gate in STRIP_GATES:
        outcomes = [check.status for (of, _, _), check in detail.checks.items() if of == gate]
        state, word = detail.gate_state(gate), ""
        if not state and detail.running and phase in (gate, f"{gate} check"):
            state, word = "running", "now"
        if gate == "trials" and detail.trials:
            word = str(len(detail.trials))
        gates.append((gate, state, outcomes, word))
    return checks_strip(gates, width)


def queue_lines(
    model: LabModel, width: int, most: int, replaying: bool, digest: str = ""
) -> list[tuple[int | None, Text]]:
    """What needs a person; if nothing does, the last notice or how things stand.

    `digest` tells what happened while the person was away, and stands above the rest.
    """
    lines: list[tuple[int | None, Text]] = [
        (question.experiment, question_line(model, question)) for question in model.questions
    ]
    view = model.view
    if view is not None and not replaying:
        for row in view.asked:
            line = Text.styled(f" #{row.experiment} ", theme.ALERT)
            line.append("the agent asks (i answers) ", theme.WARN).append(
                one_line(row.text, 200), theme.PLAIN
            )
            lines.insert(0, (None, line))
        for one in view.submissions:
            words = f" your candidate waits to be judged ({fmt.task_word(one_line(one.task, 20))}): "
            lines.append((None, Text.styled(words + one_line(one.description, 200), theme.LABEL)))
        for task, text in view.explored.items():
            words = f" {fmt.task_word(one_line(task, 20))}: {one_line(text, 300)}"
            lines.append((None, Text.styled(words, theme.WARN)))
        if not view.engine_alive and view.last_seq:
            lines.append(
                (None, Text.styled(" the engine is not running: space starts it, q leaves", theme.LABEL))
            )
    if not lines:
        notice = model.notices[-1] if model.notices else None
        if notice is not None and notice.level != "info":
            lines.append((notice.experiment, Text.styled(f" {one_line(notice.text, 300)}", theme.WARN)))
        else:
            lines.append((None, Text.styled(" nothing needs you", theme.DIM)))
    if digest:
        lines.insert(0, (None, Text.styled(fit(f" {digest}", width), theme.ACCENT)))
    left_out = len(lines) - most
    if left_out > 0:
        lines = lines[:most]
        experiment, last = lines[-1]
        lines[-1] = (experiment, Text.styled(f" +{left_out} ", theme.ALERT).append_text(last))
    return lines


def question_line(model: LabModel, question: OpenQuestion) -> Text:
    row = model.rows.get(question.experiment)
    task = fmt.task_word(row.task) if row else ""
    line = Text.styled(f" #{question.experiment} ", theme.ALERT)
    line.append(f" {task} {KIND_WORDS.get(question.kind, question.kind)} ", theme.WARN)
    line.append(time.strftime("since %H:%M ", time.localtime(question.since)), theme.DIM)
    line.append(one_line(question.reason, 200), theme.PLAIN)
    return line


def check_lines(detail: Detail | None, width: int) -> list[Text]:
    """Every check of an experiment, failures first within each gate."""
    if detail is None or not detail.checks:
        return [Text.styled("no check has ended yet", theme.DIM)]
    lines: list[Text] = []
    gates: Sequence[str] = sorted(
        {gate for gate, _, _ in detail.checks}, key=lambda g: GATE_ORDER.index(g) if g in GATE_ORDER else 99
    )
    order = {"fail": 0, "unproven": 1, "pass": 2}
    for gate in gates:
        checks = [check for (of, _, _), check in detail.checks.items() if of == gate]
        passed = sum(check.status == "pass" for check in checks)
        lines.append(Text.styled(f"{gate}  {passed} of {len(checks)} passed", theme.HEADING))
        for check in sorted(checks, key=lambda check: order.get(check.status, 3)):
            style = {"pass": theme.GOOD, "fail": theme.BAD}.get(check.status, theme.WARN)
            line = Text.styled(f"{one_line(check.status, 8):<9}", style)
            line.append(f"{one_line(check.case, 40):<26} {one_line(check.probe, 24):<12}")
            if check.error is not None and check.limit:
                line.append(f" error {check.error:.2e} of {check.limit:.2e}", theme.LABEL)
            if check.status != "pass" and check.detail:
                lines.append(line)
                lines += [
                    Text.styled(f"         {part}", theme.WARN)
                    for part in wrapped(check.detail, max(8, width - 9), 40)
                ]
                continue
            lines.append(line)
    return lines
