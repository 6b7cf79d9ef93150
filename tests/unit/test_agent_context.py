"""What an agent sees: complete, verbatim where people speak, stable in front, and within its budget."""

from __future__ import annotations

from dataclasses import replace

from kernel_lab.engine.facts import Reason
from kernel_lab.engine.judge.lint_rules import RULES
from kernel_lab.engine.proposers.agent.context import build_context
from proposer_requests import idea, past, request

LOTS = 200_000


def test_the_context_holds_rules_notes_champion_ideas_and_vetoes() -> None:
    veto = replace(
        past(2, 1, "split_kv", status="vetoed", ratio=1.2),
        reasons=(Reason("speed", "threshold", "faster"), Reason("person", "cheat", 'it "caches" K')),
    )
    asked = replace(request(), history=(*request().history, veto), ideas=(idea(4, "try\n  FP8 * keys"),))
    text = build_context(asked, token_budget=LOTS).text
    for rule in RULES.values():
        assert rule.summary in text
    for part in (asked.gpu.notes, asked.model.notes, asked.task.notes, asked.champion_source):
        assert part.strip() in text
    assert "try\n  FP8 * keys" in text
    assert 'it "caches" K' in text
    assert '#2 (lever "split_kv": "") was vetoed by a person as cheat: it' in text


def test_two_requests_in_a_row_share_every_byte_of_the_prefix() -> None:
    first = request()
    second = replace(
        first,
        experiment=3,
        history=(*first.history, past(2, 1, "tiles:long", ratio=0.9)),
        ideas=(idea(1, "x" * 5_000),),
    )
    for budget in (LOTS, 14_000):
        one, two = (build_context(asked, token_budget=budget) for asked in (first, second))
        assert one.prefix == two.prefix
        assert one.changing != two.changing
        assert one.text.startswith(one.prefix)


def test_a_small_budget_drops_in_the_stated_order_and_never_what_people_said() -> None:
    tried = tuple(past(n, 1, f"lever {n % 3}", ratio=0.9) for n in range(2, 60))
    asked = replace(request(), history=(*request().history, *tried), ideas=(idea(1, "swap the operands"),))
    whole = build_context(asked, token_budget=LOTS)
    assert whole.dropped == ()
    tight = build_context(asked, token_budget=whole.tokens - 200)
    assert tight.dropped == ("Ledger shortened",)
    assert tight.tokens <= whole.tokens - 200
    least = build_context(asked, token_budget=1)
    assert least.dropped[-1] == "Task notes left out"
    assert "swap the operands" in least.text
    assert asked.champion_source.strip() in least.text
    assert least.tokens > least.token_budget
