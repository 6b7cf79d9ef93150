"""Search: one lever at a time on the shipped seeds, no repeats, an end, the same for the same request."""

from __future__ import annotations

from dataclasses import replace

import pytest
from kernel_lab.engine.candidate import parse, values_for
from kernel_lab.engine.ledger.views import TrialRow
from kernel_lab.engine.proposers.base import Exhausted, Proposal, ProposalRequest
from kernel_lab.engine.proposers.levers import KNOWN, is_switch, is_tunable, neighbours
from kernel_lab.engine.proposers.search import Search
from proposer_requests import after, ask, best_per_bucket, past, request, row

TASKS = ("gqa_decode", "gqa_prefill")
PLAIN = """SPACE = {space}
CONFIG = {config}


def decode(q, k_cache, v_cache, seq_lens, *, scale):
    return q
"""


def plain(space: dict[str, list[object]], **config: dict[str, object]) -> str:
    rows = {"*": {name: values[0] for name, values in space.items()}, **config}
    return PLAIN.format(space=repr(space), config=repr(rows))


def proposals(asked: ProposalRequest) -> tuple[list[Proposal], Exhausted, ProposalRequest]:
    """Everything that search proposes while nothing is kept."""
    found: list[Proposal] = []
    for _ in range(200):
        answer = ask(Search(), asked)
        if isinstance(answer, Exhausted):
            return found, answer, asked
        assert isinstance(answer, Proposal)
        found.append(answer)
        asked = after(asked, answer)
    raise AssertionError("search has no end")


@pytest.mark.parametrize("task", TASKS)
def test_a_seed_is_explored_lever_by_lever_without_repeats_until_the_space_ends(task: str) -> None:
    asked = request(task)
    seed = parse(asked.champion_source, asked.task.entry)
    found, end, _ = proposals(asked)
    levers = [one.lever for one in found]
    assert len(set(levers)) == len(levers)
    switches = [
        name.lower() for name, values in seed.space.items() if is_switch(values) and name != "DESCRIPTORS"
    ]
    assert sorted(levers[: len(switches)]) == sorted(switches)
    timed = {
        "gqa_decode": ["many", "few_long", "few_short", "multi"],
        "gqa_prefill": ["long", "short", "chunk", "full"],
    }
    assert sorted(levers[len(switches) :]) == sorted(
        [f"tiles:{bucket}" for bucket in timed[task]] + [f"launch:{bucket}" for bucket in timed[task]]
    )
    assert end.text.startswith(f"space explored: {len(levers)} moves from #1")
    assert "what would help now: an idea, an agent" in end.text


@pytest.mark.parametrize("task", TASKS)
def test_a_proposal_changes_one_lever_and_says_what_and_why(task: str) -> None:
    asked = request(task)
    seed = parse(asked.champion_source, asked.task.entry)
    for proposal in proposals(asked)[0]:
        candidate = parse(proposal.source, asked.task.entry)
        changed = {
            name
            for bucket in proposal.trial_space
            for name in seed.space
            if values_for(candidate, bucket)[name] != values_for(seed, bucket)[name]
        }
        is_tuning = ":" in proposal.lever
        assert changed == (set() if is_tuning else {proposal.lever.upper()})
        assert values_for(candidate, "wide") == values_for(seed, "wide")  # not timed, so left alone
        assert proposal.description.startswith("Try ")
        assert proposal.description.endswith(".")
        assert proposal.description.count(". ") == 0
        assert proposal.hypothesis.endswith(".")
        assert proposal.prediction.gain_percent is not None
        assert 0 < proposal.prediction.gain_percent <= 60
        assert proposal.prediction.bottleneck
        for bucket, space in proposal.trial_space.items():
            for name, values in space.items():
                assert values
                assert all(value in seed.space[name] for value in values)
            if not is_tuning:
                lever = proposal.lever.upper()
                assert values_for(candidate, bucket)[lever] in space[lever]
                assert values_for(seed, bucket)[lever] not in space[lever]


def test_the_heaviest_bucket_comes_first_and_only_timed_buckets_count() -> None:
    found, _, _ = proposals(request("gqa_decode"))
    assert list(found[0].trial_space) == ["many", "few_long", "few_short", "multi"]
    assert next(one.lever for one in found if ":" in one.lever) == "tiles:many"


def test_the_task_s_notes_say_the_order() -> None:
    asked = request("gqa_decode")
    notes = "First SPLIT_WAVES, then PACK_GQA."
    found, _, _ = proposals(replace(asked, task=replace(asked.task, notes=notes)))
    assert [one.lever for one in found[:3]] == ["split_waves", "pack_gqa", "exp2"]


@pytest.mark.parametrize(("gpu", "offered"), [("rtx3060", False), ("h200", True), ("rtx5090", True)])
def test_a_lever_that_the_card_lacks_is_not_turned(gpu: str, offered: bool) -> None:
    levers = [one.lever for one in proposals(request("gqa_prefill", gpu=gpu))[0]]
    assert ("descriptors" in levers) is offered


def test_the_same_request_gives_the_same_proposal() -> None:
    first, second = (proposals(request("gqa_prefill"))[0] for _ in range(2))
    assert first == second


def test_a_kept_switch_is_not_turned_back_and_the_rest_is_tried_again_on_the_new_champion() -> None:
    asked = request("gqa_prefill")
    first = ask(Search(), asked)
    assert isinstance(first, Proposal)
    asked = after(asked, first, keep=True, ratio=1.1)
    second = ask(Search(), asked)
    assert isinstance(second, Proposal)
    asked = after(asked, second, ratio=0.8)
    third = ask(Search(), asked)
    assert isinstance(third, Proposal)
    asked = after(asked, third, keep=True, ratio=1.2)
    later = [one.lever for one in proposals(asked)[0]]
    assert first.lever not in later
    assert third.lever not in later
    assert second.lever in later
    assert later.index(second.lever) > later.index("tiles:full")  # what failed before comes after what is new


def test_levers_that_brought_most_are_tried_again_first() -> None:
    space: dict[str, list[object]] = {"A": [False, True], "B": [False, True], "C": [False, True]}
    asked = request(source=plain(space))
    history = [past(2, 1, "a", ratio=0.7), past(3, 1, "b", ratio=0.99), past(4, 1, "c", ratio=0.5)]
    trial = TrialRow(4, 1, "many", {"C": True}, "ok", 1.3, {}, "")
    history[2] = replace(history[2], trials=(trial,))
    asked = replace(asked, champion=row(9), experiment=10, history=(*asked.history, *history))
    found, _, _ = proposals(asked)
    assert [one.lever for one in found] == ["c", "b", "a"]
    assert "On #1 it reached 1.300 ×; the champion has changed since." in found[0].hypothesis
    assert found[0].prediction.gain_percent == pytest.approx(15.0)


def test_a_lever_is_tried_again_soon_once_a_keep_changed_what_it_is_worth() -> None:
    space: dict[str, list[object]] = {"SPLIT_WAVES": [0, 1], "PACK_GQA": [False, True], "EXP2": [False, True]}
    space["BLOCK_N"] = [32, 64]
    asked = request(source=plain(space))
    split = ask(Search(), asked)
    assert isinstance(split, Proposal)
    pack = ask(Search(), after(asked, split))
    assert isinstance(pack, Proposal)
    kept = after(after(asked, split), pack, keep=True, ratio=1.3)
    levers = [one.lever for one in proposals(kept)[0]]
    assert (split.lever, pack.lever) == ("split_waves", "pack_gqa")
    assert levers[:3] == ["exp2", "split_waves", "tiles:many"]


def test_what_falls_just_short_alone_is_tried_together() -> None:
    space: dict[str, list[object]] = {"A": [False, True], "B": [False, True], "C": ["x", "y", "z"]}
    asked = request(source=plain(space))
    for ratio in (1.004, 0.9, 1.002):
        answer = ask(Search(), asked)
        assert isinstance(answer, Proposal)
        asked = after(asked, answer, ratio=ratio)
    together = ask(Search(), asked)
    assert isinstance(together, Proposal)
    assert together.lever == "together:a+c"
    assert "(A, C) in every bucket." in together.description
    values = values_for(parse(together.source, "decode"), "many")
    assert values == {"A": True, "B": False, "C": "y"}
    assert together.trial_space["many"] == {"A": [True], "C": ["y", "z"]}
    assert isinstance(ask(Search(), after(asked, together)), Exhausted)


def test_a_switch_that_does_not_fit_everywhere_is_tried_bucket_by_bucket_at_last() -> None:
    asked = request(source=plain({"A": [False, True], "B": [False, True]}))
    first = ask(Search(), asked)
    assert isinstance(first, Proposal)
    assert first.lever == "a"
    found, end, _ = proposals(after(asked, first, status="oom"))
    assert [one.lever for one in found] == ["b", "a:many", "a:few_long", "a:few_short", "a:multi"]
    assert list(found[1].trial_space) == ["many"]
    assert found[1].description == "Try A set otherwise (A) in many."
    assert "6 moves" in end.text


def test_choices_and_strengths_offer_every_other_value() -> None:
    asked = request(source=plain({"ORDER": ["rows", "group", "heads"], "SPLIT_WAVES": [0, 1, 2, 4]}))
    order, split = proposals(asked)[0][:2]
    assert order.trial_space["many"] == {"ORDER": ["group", "heads"]}
    assert values_for(parse(order.source, "decode"), "many")["ORDER"] == "group"
    assert split.trial_space["many"] == {"SPLIT_WAVES": [1, 2, 4]}
    assert values_for(parse(split.source, "decode"), "many")["SPLIT_WAVES"] == 1


def test_a_strength_that_is_on_is_tuned_with_the_tiles() -> None:
    space: dict[str, list[object]] = {"BLOCK_N": [32, 64], "SPLIT_WAVES": [0, 1, 2]}
    asked = request(source=plain(space, many={"SPLIT_WAVES": 2}))
    rounds = {one.lever: one.trial_space for one in proposals(asked)[0] if one.lever.startswith("tiles")}
    assert rounds["tiles:many"] == {"many": {"BLOCK_N": [32, 64], "SPLIT_WAVES": [0, 1, 2]}}
    assert rounds["tiles:multi"] == {"multi": {"BLOCK_N": [32, 64]}}


def test_a_candidate_without_tunables_ends_at_once_and_says_what_to_do() -> None:
    for space in ({}, {"BLOCK": [64]}):
        said: list[str] = []
        answer = ask(Search(), request(source=plain(space)), said)
        assert isinstance(answer, Exhausted)
        assert answer.text.startswith("space explored: SPACE lists nothing to turn; what would help now")
        assert said == [answer.text + "\n"]


def test_search_climbs_to_the_best_switches_of_each_bucket() -> None:
    gains = {
        "SKIP": {"long": 1.5},
        "TWO_LOOPS": {"long": 1.1, "short": 0.8},
        "EXP2": {"full": 1.05, "chunk": 1.05},
    }

    def speed(bucket: str, values: dict[str, object]) -> float:
        product = 1.0
        for name, by_bucket in gains.items():
            product *= by_bucket.get(bucket, 0.99) if values[name] else 1.0
        return product * (0.97 if values["PACK_GQA"] else 1.0)

    asked = request("gqa_prefill")
    kept = 0
    for _ in range(60):
        answer = ask(Search(), asked)
        if isinstance(answer, Exhausted):
            break
        assert isinstance(answer, Proposal)
        settled = replace(answer, source=best_per_bucket(asked, answer, speed))
        better = parse(settled.source, "attention").config != parse(asked.champion_source, "attention").config
        kept += better
        asked = after(asked, settled, keep=better, ratio=1.1 if better else 0.9)
    champion = parse(asked.champion_source, "attention")
    assert kept == 3
    for bucket in ("long", "short", "full", "chunk"):
        for name in gains:
            assert values_for(champion, bucket)[name] is (gains[name].get(bucket, 0.99) > 1.0), (bucket, name)


def test_kinds_of_tunables_are_told_apart() -> None:
    assert is_switch([False, True])
    assert is_switch(["a", "b"])
    assert is_switch([0, 1, 2])
    assert not is_switch([1, 2, 4])
    assert not is_switch([True])
    assert is_tunable([1, 2, 4])
    assert not is_tunable([64])
    assert not is_tunable([0, 1])
    assert neighbours([16, 32, 64, 128], 16) == [16, 32]
    assert neighbours([16, 32, 64, 128], 64) == [32, 64, 128]
    assert neighbours([1, True], True) == [1, True]
    for entry in KNOWN.values():
        assert entry.why.endswith(".")
        assert not entry.what.endswith(".")
