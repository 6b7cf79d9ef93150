"""Editors and agent programs work on a copy; only what they changed counts."""

from __future__ import annotations

import os
from contextlib import nullcontext
from pathlib import Path

import pytest
from cockpit_driver import Cockpit
from fake_lab import FakeEngine, FakeLab
from kernel_lab.engine.commands import Command, Say, Submit
from kernel_lab.engine.errors import EnvironmentProblem, LabError, UsageError
from kernel_lab.tui import editor


def program(folder: Path, name: str, script: str) -> str:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def path_with(folder: Path) -> str:
    return f"{folder}{os.pathsep}/usr/bin{os.pathsep}/bin"


def test_what_the_editor_changed_comes_back(tmp_path: Path) -> None:
    name = program(tmp_path, "ed it", 'echo "# more" >> "$2"')
    environment = {"EDITOR": f"'{name}' --wait", "PATH": "/usr/bin:/bin"}
    assert editor.edited("a\n", "candidate.py", environment) == "a\n# more\n"


def test_an_unchanged_copy_is_nothing(tmp_path: Path) -> None:
    environment = {"VISUAL": program(tmp_path, "look", "true"), "EDITOR": "no-such", "PATH": "/usr/bin:/bin"}
    assert editor.edited("a\n", "candidate.py", environment) is None


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("exit 3", "status 3"),
        ('printf "\\377\\376" > "$1"', "UTF-8"),
        ('rm "$1"', "cannot be read"),
        ('head -c 1200000 /dev/zero | tr "\\0" a > "$1"', "1 MB"),
    ],
)
def test_an_editor_that_fails_sends_nothing_and_says_why(tmp_path: Path, script: str, words: str) -> None:
    environment = {"EDITOR": program(tmp_path, "bad", script), "PATH": "/usr/bin:/bin"}
    with pytest.raises(LabError, match=words):
        editor.edited("a\n", "candidate.py", environment)


def test_no_editor_at_all_ends_in_the_remedy() -> None:
    with pytest.raises(EnvironmentProblem, match="set EDITOR"):
        editor.editor_command({"PATH": ""})
    with pytest.raises(EnvironmentProblem, match="not there"):
        editor.editor_command({"EDITOR": "no-such-editor", "PATH": ""})
    with pytest.raises(UsageError, match="quotes"):
        editor.editor_command({"EDITOR": "'x", "PATH": ""})


def test_only_agent_programs_on_the_path_are_offered(tmp_path: Path) -> None:
    program(tmp_path, "codex", "true")
    program(tmp_path, "aider", "true")
    assert [agent.name for agent in editor.agents_found(str(tmp_path))] == ["codex", "aider"]


async def test_search_hands_an_idea_to_an_agent_program_and_its_candidate_is_submitted(
    cockpit: Cockpit,
    lab: FakeLab,
    engine: FakeEngine,
    sent: list[Command],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    program(
        tools,
        "claude",
        'test -s NOTES.md && printf "%s" "$1" > ../asked && echo "# by agent" >> candidate.py',
    )
    monkeypatch.setenv("PATH", path_with(tools))
    async with cockpit(lab.folder) as driver:
        driver.app.suspend = nullcontext  # type: ignore[method-assign,assignment]
        await driver.press("i", *"pack", "enter")
        await driver.on("ChoiceDialog")
        await driver.until(lambda: lab.ledger.ideas())
        await driver.pilot.pause(0.3)
        assert "hand to claude" in "\n".join(c.label for c in driver.screen.query_one("#choices").choices)  # type: ignore[attr-defined]
        await driver.press("1")
        await driver.until(lambda: len(sent) == 2)
    champion = lab.ledger.blob(lab.sha(lab.champions["gqa_prefill"])).decode()
    assert sent == [Say("pack"), Submit("gqa_prefill", champion + "# by agent\n", "pack", (1,))], (
        "the task of the experiment shown"
    )


async def test_an_idea_can_be_carried_out_in_the_editor(
    cockpit: Cockpit,
    lab: FakeLab,
    engine: FakeEngine,
    sent: list[Command],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("EDITOR", program(tmp_path, "ed", 'echo "# by hand" >> "$1"'))
    async with cockpit(lab.folder) as driver:
        driver.app.suspend = nullcontext  # type: ignore[method-assign,assignment]
        await driver.press("i", *"pack", "enter")
        await driver.on("ChoiceDialog")
        await driver.press("o")
        await driver.until(lambda: lab.ledger.submissions())
    submit = sent[1]
    assert isinstance(submit, Submit)
    assert submit.source.startswith("# idea: pack\n") and submit.source.endswith("# by hand\n")
    (waiting,) = lab.ledger.submissions()
    assert lab.ledger.view().submissions == (waiting,)
    assert (waiting.task, waiting.description, waiting.ideas) == (submit.task, "pack", (1,))
    assert lab.ledger.blob(waiting.source_sha).decode() == submit.source


async def test_a_candidate_that_is_refused_is_saved_to_be_mended(
    cockpit: Cockpit,
    lab: FakeLab,
    engine: FakeEngine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("EDITOR", program(tmp_path, "ed", 'echo "def (" >> "$1"'))
    async with cockpit(lab.folder) as driver:
        driver.app.suspend = nullcontext  # type: ignore[method-assign,assignment]
        for number in (1, 2):
            await driver.press("i", *"pack", "enter")
            await driver.on("ChoiceDialog")
            await driver.press("o")
            await driver.told(f"refused/candidate_{number}.py")
        assert (lab.folder / "refused" / "candidate_2.py").read_text().endswith("def (\n")
    assert lab.ledger.submissions() == ()


async def test_manual_opens_the_copy_that_the_engine_waits_for(
    cockpit: Cockpit, lab: FakeLab, engine: FakeEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.set_proposer("manual")
    copy = lab.folder / "manual" / f"gqa_decode-{lab.last + 1}.py"
    copy.parent.mkdir()
    copy.write_text("a\n")
    monkeypatch.setenv("EDITOR", program(tmp_path, "ed", 'echo "# by hand" >> "$1"'))
    lab.ledger.set_now(
        {"experiment": lab.last + 1, "task": "gqa_decode", "phase": "propose", "text": "Waiting"}
    )
    async with cockpit(lab.folder) as driver:
        driver.app.suspend = nullcontext  # type: ignore[method-assign,assignment]
        await driver.until(lambda: "Waiting" in driver.text("#proposal"))
        assert "e edit" in driver.text("#keys")
        await driver.press("e")
        await driver.told("as soon as it was changed")
    assert copy.read_text() == "a\n# by hand\n"
