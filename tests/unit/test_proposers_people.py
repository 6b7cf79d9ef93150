"""Candidates from people: dropped into a folder, edited by hand, or played from a script."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest
from kernel_lab.engine.candidate import parse, text_sha
from kernel_lab.engine.errors import ProposerError, UsageError
from kernel_lab.engine.lab import LabConfig, create_lab
from kernel_lab.engine.proposers import folder as folder_module
from kernel_lab.engine.proposers import manual as manual_module
from kernel_lab.engine.proposers.base import (
    Elsewhere,
    Exhausted,
    Proposal,
    ProposalRequest,
    Proposer,
    Refusal,
    make_proposer,
)
from kernel_lab.engine.proposers.folder import Folder
from kernel_lab.engine.proposers.manual import Manual, split_header
from kernel_lab.engine.proposers.scripted import Scripted
from proposer_requests import after, ask, idea, past, request

ENTRIES = {"gqa_decode": "decode", "gqa_prefill": "attention"}


def variant(number: int, docstring: str = "") -> str:
    """The seed of the decode task, changed."""
    source = request().champion_source
    text = source if not docstring else f'"""{docstring}"""\n' + source.split('"""', 2)[2].lstrip()
    return text.replace("MAX_SPLITS = 128", f"MAX_SPLITS = {number}")


def old(path: Path, text: str | bytes) -> Path:
    """A file that was written a while ago."""
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    os.utime(path, (time.time() - 60, time.time() - 60))
    return path


@pytest.fixture
def inbox(tmp_path: Path) -> Path:
    folder = tmp_path / "inbox"
    folder.mkdir()
    return folder


@pytest.fixture(autouse=True)
def quick_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_module, "POLL_S", 0.01)
    monkeypatch.setattr(manual_module, "POLL_S", 0.01)


def watcher(inbox: Path, entries: dict[str, str] = ENTRIES) -> Folder:
    return Folder(inbox, inbox / ".taken.json", entries, given=False)


def proposed(answer: object) -> Proposal:
    assert isinstance(answer, Proposal)
    return answer


def refused(answer: object) -> str:
    assert isinstance(answer, Refusal)
    assert answer.reason.gate == "scope"
    return answer.reason.detail


def while_waiting(
    proposer: Proposer, asked: ProposalRequest, act: Callable[[], Awaitable[None]]
) -> tuple[object, list[str]]:
    """Ask, do something while the proposer waits, and return the answer with what was said."""
    said: list[str] = []

    async def run() -> object:
        asking = asyncio.create_task(proposer.propose(asked, said.append))
        await asyncio.sleep(0.1)
        assert not asking.done()
        await act()
        return await asyncio.wait_for(asking, 10)

    return asyncio.run(run()), said


# ---- a folder -------------------------------------------------------------------------------------


def test_files_are_taken_once_in_the_order_of_their_names(inbox: Path) -> None:
    for name, number in (("b.py", 2), ("a.py", 1), ("c.py", 3)):
        old(inbox / name, variant(number))
    old(inbox / "notes.txt", "no candidate")
    old(inbox / ".hidden.py", variant(9))
    (inbox / "folder.py").mkdir()
    asked, sources = request(), []
    for _ in range(3):
        answer = proposed(ask(watcher(inbox), asked))  # a fresh one each time, as after a restart
        sources.append(answer.source)
        asked = after(asked, answer)
    assert sources == [variant(1), variant(2), variant(3)]


def test_an_engine_killed_before_it_recorded_the_proposal_takes_the_same_file_again(inbox: Path) -> None:
    old(inbox / "a.py", variant(1))
    old(inbox / "b.py", variant(2))
    first, again = (proposed(ask(watcher(inbox), request())) for _ in range(2))
    assert first == again
    assert proposed(ask(watcher(inbox), after(request(), first))).source == variant(2)


def test_a_changed_file_is_a_new_proposal(inbox: Path) -> None:
    old(inbox / "a.py", variant(1))
    first = proposed(ask(watcher(inbox), request()))
    old(inbox / "a.py", variant(2))
    assert proposed(ask(watcher(inbox), after(request(), first))).source == variant(2)


def test_words_come_from_sidecar_or_docstring(inbox: Path) -> None:
    old(inbox / "a.py", variant(1, "Split more.\n\nEvery SM gets a share\nof the cache."))
    old(inbox / "b.py", variant(2))
    old(inbox / "b.md", "# Wider tiles\n\nFewer passes over \x1b[31mthe keys.")
    old(inbox / "c.py", variant(3))
    old(
        inbox / "c.toml",
        'description = "Pack heads."\nhypothesis = "Reads once."\nlever = "pack"\n'
        "gain_percent = 12\ntrials = false\n",
    )
    asked = request()
    a = proposed(ask(watcher(inbox), asked))
    assert (a.description, a.hypothesis) == ("Split more.", "Every SM gets a share of the cache.")
    assert a.lever == "file:a"
    assert a.prediction.gain_percent is None
    asked = after(asked, a)
    b = proposed(ask(watcher(inbox), asked))
    assert (b.description, b.hypothesis) == ("Wider tiles", "Fewer passes over [31mthe keys.")
    c = proposed(ask(watcher(inbox), after(asked, b)))
    assert (c.description, c.hypothesis, c.lever) == ("Pack heads.", "Reads once.", "pack")
    assert c.prediction.gain_percent == 12
    assert c.trial_space == {}


def test_trials_settle_the_tunables_of_new_code_in_every_timed_bucket(inbox: Path) -> None:
    old(inbox / "a.py", variant(1))
    answer = proposed(ask(watcher(inbox), request()))
    assert set(answer.trial_space) == {"many", "few_long", "few_short", "multi"}
    assert answer.trial_space["many"] == {
        "BLOCK_N": [32, 64, 128],
        "num_warps": [2, 4, 8],
        "num_stages": [1, 2, 3, 4],
    }
    repeated = after(request(), answer)
    old(inbox / "b.py", "# a comment more\n" + variant(1))
    assert proposed(ask(watcher(inbox), repeated)).trial_space == {}  # the loop says that it is a repeat
    assert proposed(ask(watcher(inbox), replace(request(), trials=0))).trial_space == {}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"def decode(:\n", "a.py: syntax error: line 1"),
        (b"\xff\xfe", "not UTF-8"),
        (b"", "the candidate is empty"),
        (b"#" * 1_000_001, "over 1 MB"),
        (b"x = 1\n", "there is no entry function decode"),
    ],
)
def test_a_bad_file_costs_an_experiment_and_the_run_goes_on(inbox: Path, content: bytes, words: str) -> None:
    old(inbox / "a.py", content)
    old(inbox / "b.py", variant(2))
    assert words in refused(ask(watcher(inbox), request()))
    failed = past(2, 1, "", status="invalid")
    following = replace(request(), experiment=3, history=(*request().history, failed))
    assert proposed(ask(watcher(inbox), following)).source == variant(2)


def test_a_symlink_out_of_the_folder_and_a_bad_sidecar_are_refused(inbox: Path, tmp_path: Path) -> None:
    old(tmp_path / "secret.py", variant(1))
    (inbox / "a.py").symlink_to(tmp_path / "secret.py")
    os.utime(inbox / "a.py", (1, 1), follow_symlinks=False)
    assert "symlink out of its folder" in refused(ask(watcher(inbox), request()))
    (inbox / "a.py").unlink()
    old(inbox / "b.py", variant(2))
    for toml, words in (
        ("gain_percent = 'x'", '"gain_percent" is no int or float'),
        ("color = 1", 'unknown key "color"; use description'),
        ("= 1", "mend the file"),
    ):
        old(inbox / "b.toml", toml)
        assert words in refused(ask(watcher(inbox), request()))
    (inbox / "b.toml").unlink()
    old(tmp_path / "words.md", "secret words")
    (inbox / "b.md").symlink_to(tmp_path / "words.md")
    assert "symlink out of its folder" in refused(ask(watcher(inbox), request()))


def test_it_waits_for_a_file_and_says_so_once(inbox: Path) -> None:
    async def drop() -> None:
        old(inbox / "late.py", variant(4))

    answer, said = while_waiting(watcher(inbox), request(), drop)
    assert proposed(answer).source == variant(4)
    assert said == [
        f"Waiting for a file with `decode` or `attention`: put NAME.py into {inbox}\n",
        "Taking late.py.\n",
    ]


def test_a_file_that_is_still_written_to_is_left_alone(inbox: Path) -> None:
    (inbox / "a.py").write_text("half of a cand")

    async def finish() -> None:
        old(inbox / "a.py", variant(1))

    assert proposed(while_waiting(watcher(inbox), request(), finish)[0]).source == variant(1)


def test_files_of_both_tasks_are_taken_in_the_order_of_names_whichever_task_is_asked_for(
    inbox: Path, tmp_path: Path
) -> None:
    prefill = request("gqa_prefill")
    old(inbox / "a.py", prefill.champion_source.replace("LOG2_E = ", "LOG2_E = 1 * "))
    old(inbox / "b.py", variant(2))
    assert ask(watcher(inbox), request()) == Elsewhere("gqa_prefill")
    first = proposed(ask(watcher(inbox), prefill))
    assert first.lever == "file:a"
    assert ask(watcher(inbox), after(prefill, first)) == Elsewhere("gqa_decode")
    assert proposed(ask(watcher(inbox), replace(request(), experiment=3))).source == variant(2)
    alone = Folder(inbox, tmp_path / "taken.json", {"gqa_decode": "decode"}, given=False)
    assert "no entry function decode" in refused(ask(alone, request()))


def test_a_folder_that_vanishes_ends_with_one_line(tmp_path: Path) -> None:
    folder = tmp_path / "drop"
    folder.mkdir()
    watching = Folder(folder, tmp_path / "lab" / ".taken.json", ENTRIES, given=True)
    old(folder / "a.py", variant(1))
    assert proposed(ask(watching, request())).source == variant(1)
    assert not (folder / ".taken.json").exists()  # nothing is written into a person's own folder
    (folder / "a.py").unlink()
    folder.rmdir()
    with pytest.raises(ProposerError, match="cannot be read"):
        ask(watching, request())


# ---- by hand --------------------------------------------------------------------------------------


def test_a_saved_change_of_the_champion_s_copy_is_proposed(tmp_path: Path) -> None:
    asked = replace(request(), ideas=(idea(3, "use\nTMA"), idea(5, "always be kind", "always")))
    path = tmp_path / "manual" / "gqa_decode-2.py"

    async def edit() -> None:
        text = path.read_text()
        assert text.startswith("#: A copy of #1.")
        assert "#: idea: use TMA\n" in text
        assert split_header(text)[1] == asked.champion_source
        path.write_text(text)  # saved without a change
        await asyncio.sleep(0.1)
        path.write_text(text.replace("#: what:", "#: what: more splits"))  # words alone are no change
        await asyncio.sleep(0.1)
        path.write_text(text.replace("MAX_SPLITS = 128", "MAX_SPLITS = (("))
        await asyncio.sleep(0.1)
        text = text.replace("#: what:", "#: what: more splits").replace(
            "#: why:", "#: why:  idle SMs\n#: gain: 20%"
        )
        fresh = path.with_suffix(".tmp")
        fresh.write_text(text.replace("MAX_SPLITS = 128", "MAX_SPLITS = 256"))
        fresh.replace(path)

    answer, said = while_waiting(Manual(tmp_path / "manual"), asked, edit)
    proposal = proposed(answer)
    assert proposal.source == variant(256)
    assert (proposal.description, proposal.hypothesis) == ("more splits", "idle SMs")
    assert proposal.prediction.gain_percent == 20
    assert proposal.ideas == (3, 5)
    assert set(proposal.trial_space) == {"many", "few_long", "few_short", "multi"}
    assert said[0] == f"Waiting for a saved change of {path} (a copy of #1): edit it and save.\n"
    assert len(said) == 2
    assert said[1].startswith("Not a candidate yet: syntax error: line ")


def test_a_copy_that_another_candidate_overtook_is_still_watched(tmp_path: Path) -> None:
    begun = tmp_path / "gqa_decode-2.py"
    begun.write_text(variant(7).replace("MAX_SPLITS = 7", "MAX_SPLITS = (("))
    other = past(2, 1, "handed_in", source=variant(9))
    asked = replace(request(), experiment=3, history=(*request().history, other))

    async def mend() -> None:
        assert not (tmp_path / "gqa_decode-3.py").exists()
        begun.write_text(variant(7))

    answer, said = while_waiting(Manual(tmp_path), asked, mend)
    assert proposed(answer).source == variant(7)
    assert said[0] == f"Waiting for a saved change of {begun}, which is begun: edit it and save.\n"


def test_a_copy_without_a_change_is_written_anew_for_a_new_champion(tmp_path: Path) -> None:
    asked = request()
    (tmp_path / "gqa_decode-2.py").write_text(asked.champion_source)
    old_one = replace(past(1, None, "seed"), source_sha=text_sha(asked.champion_source))
    newer = replace(asked, experiment=3, champion_source=variant(9), history=(old_one,))

    async def edit() -> None:
        assert split_header((tmp_path / "gqa_decode-3.py").read_text())[1] == variant(9)
        (tmp_path / "gqa_decode-3.py").write_text(variant(4))

    assert proposed(while_waiting(Manual(tmp_path), newer, edit)[0]).source == variant(4)


def test_an_unfinished_edit_is_kept_and_a_deleted_copy_written_again(tmp_path: Path) -> None:
    path = tmp_path / "gqa_decode-2.py"
    path.write_text(variant(7))
    assert proposed(ask(Manual(tmp_path), request())).source == variant(7)
    path.unlink()

    async def delete_and_edit() -> None:
        path.unlink()
        await asyncio.sleep(0.3)
        assert path.exists()
        path.write_text(variant(8))

    answer = proposed(while_waiting(Manual(tmp_path), request(), delete_and_edit)[0])
    assert answer.source == variant(8)
    assert answer.description == "Edit #1 by hand."


def test_a_lab_that_cannot_be_written_ends_with_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ProposerError, match=r"cannot be written .*; make room or permit it"):
        ask(Manual(tmp_path / "file"), request())


# ---- a script -------------------------------------------------------------------------------------


def test_a_script_plays_its_steps_for_each_task_and_ends(tmp_path: Path) -> None:
    script = tmp_path / "steps.json"
    steps = [
        {
            "edit": [["MAX_SPLITS = 128", "MAX_SPLITS = 64"]],
            "description": "Fewer splits.",
            "text": ["a", "b"],
        },
        {"config": {"many": {"PACK_GQA": True}}, "lever": "pack", "gain_percent": 9, "ideas": True},
        {"task": "gqa_prefill", "source": "x = 1"},
        {"edit": [["nowhere", ""]]},
        {"refuse": "out of ideas"},
        {"source": variant(3), "trial_space": {"many": {"BLOCK_N": [32, 64]}}},
    ]
    script.write_text(json.dumps(steps))
    asked, said = replace(request(), ideas=(idea(4, "pack"),)), list[str]()

    def play(asked: ProposalRequest) -> object:
        return ask(Scripted.from_file(str(script)), asked, said)

    first = proposed(play(asked))
    assert (first.source, first.description, said) == (variant(64), "Fewer splits.", ["a", "b"])
    asked = after(asked, first)
    second = proposed(play(asked))
    assert parse(second.source, "decode").config["many"] == {"PACK_GQA": True}
    assert (second.lever, second.prediction.gain_percent, second.ideas) == ("pack", 9, (4,))
    asked = after(asked, second)
    assert "stands 0 times" in refused(play(asked))
    asked = after(asked, second)
    assert refused(play(asked)) == "out of ideas"
    asked = after(asked, second)
    assert proposed(play(asked)).trial_space == {"many": {"BLOCK_N": [32, 64]}}
    asked = after(asked, second)
    assert isinstance(play(asked), Exhausted)
    prefill = replace(request("gqa_prefill"), history=asked.history[:3])
    assert proposed(play(prefill)).source == "x = 1"


def test_a_script_can_fail_end_and_take_its_time(tmp_path: Path) -> None:
    script = tmp_path / "steps.py"
    script.write_text(
        '"""A demonstration."""\nSTEPS = [{"fail": "no key", "delay_s": 0.05}, {"end": "that was all"}]\n'
    )
    started = time.monotonic()
    with pytest.raises(ProposerError, match="no key"):
        ask(Scripted.from_file(str(script)), request())
    assert time.monotonic() - started >= 0.05
    following = replace(request(), history=(*request().history, past(2, 1, "")))
    answer = ask(Scripted.from_file(str(script)), following)
    assert answer == Exhausted("that was all")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "holds no list of steps"),
        ("{}", "holds no list of steps"),
        ("[1]", "step 1 of the script does not do one of"),
        ('[{"source": "", "edit": []}]', "step 1 of the script does not do one of"),
        ('[{"source": "", "colour": 1}]', "unknown key 'colour'"),
    ],
)
def test_a_wrong_script_is_named(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "s.json").write_text(text)
    with pytest.raises(UsageError, match=words):
        Scripted.from_file(str(tmp_path / "s.json"))


def test_a_script_is_read_and_not_run(tmp_path: Path) -> None:
    (tmp_path / "s.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nSTEPS = [dict(end='x')]\n")
    with pytest.raises(UsageError, match="holds no list of steps"):
        Scripted.from_file(str(tmp_path / "s.py"))
    assert not (tmp_path / "ran").exists()


# ---- by name --------------------------------------------------------------------------------------


def test_proposers_are_made_by_name(tmp_path: Path) -> None:
    (tmp_path / "drop").mkdir()
    (tmp_path / "s.json").write_text("[]")
    lab = create_lab(tmp_path / "lab", LabConfig(gpu="rtx3060", tasks=("gqa_decode",)))
    try:
        for name in ("search", "manual", "folder", f"folder:{tmp_path}/drop", f"scripted:{tmp_path}/s.json"):
            assert make_proposer(name, lab).name == name.split(":")[0]
        for name, words in (
            ("anthropic:x", "name a model with --agent-model"),
            ("command", "which program?"),
            ("command:'", "quote it as in a shell"),
            ("magic", "there is no proposer 'magic'; use one of search, manual, folder"),
            ("search:x", "takes nothing behind a colon"),
            (f"folder:{tmp_path}/none", "is no folder; create it"),
            ("scripted", "say `--proposer scripted:PATH`"),
            (f"scripted:{tmp_path}/none.json", "does not exist"),
        ):
            with pytest.raises(UsageError, match=words):
                make_proposer(name, lab)
        old(tmp_path / "drop" / "a.py", variant(1))
        dropped = make_proposer(f"folder:{tmp_path}/drop", lab)
        assert proposed(ask(dropped, request())).source == variant(1)
        assert json.loads((lab.path / "inbox" / ".taken.json").read_text()) != {}
    finally:
        lab.close()
