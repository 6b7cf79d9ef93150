"""Any program as an agent: what it is given, what is taken back, and that nothing of it outlives its end."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from agent_lab import KEY, agent_config, agent_lab, research, variant
from kernel_lab.engine.errors import ProposerError
from kernel_lab.engine.events import AgentSaid
from kernel_lab.engine.proposers.agent.command import Command
from kernel_lab.engine.proposers.agent.settings import AgentSettings
from kernel_lab.engine.proposers.base import Answer, Proposal, Refusal
from proposer_requests import idea, request

REQUEST = request("gqa_prefill")


def program(folder: Path, text: str) -> str:
    """A command that runs this Python text."""
    path = folder / "agent program.py"
    path.write_text(text)
    return f"{sys.executable} '{path}'"


def run(
    folder: Path,
    text: str,
    *,
    seconds: float = 20.0,
    passed: dict[str, str] | None = None,
    said: list[str] | None = None,
    asked: Any = REQUEST,
) -> Answer:
    command = Command(program(folder, text), AgentSettings(seconds=seconds), folder / "home", passed or {})
    answer = asyncio.run(command.propose(asked, (said if said is not None else []).append))
    assert not any((folder / "home").iterdir())
    return answer


EDIT = """
text = open("candidate.py").read()
open("candidate.py", "w").write(text.replace('"SKIP": False', '"SKIP": True'))
open("proposal.md", "w").write("Stop at the last visible block.\\ngain: 30 %\\nHidden blocks cost as much.")
"""


def test_what_the_program_left_in_candidate_py_is_proposed(tmp_path: Path) -> None:
    text = f"import sys; prompt = sys.stdin.read(); print(len(prompt), 'prefill' in prompt)\n{EDIT}"
    said: list[str] = []
    answer = run(tmp_path, text, said=said, asked=replace(REQUEST, ideas=(idea(4, "skip"),)))
    assert isinstance(answer, Proposal)
    assert answer.source == variant(SKIP=True)
    assert answer.description == "Stop at the last visible block."
    assert answer.hypothesis == "Hidden blocks cost as much."
    assert answer.prediction.gain_percent == 30.0
    assert answer.ideas == (4,)
    assert answer.transcript == "".join(said)
    assert answer.transcript.endswith(" True\n")


def test_only_that_file_is_taken_and_a_program_may_ignore_its_input(tmp_path: Path) -> None:
    outside = tmp_path / "outside.py"
    outside.write_text(variant(EXP2=True))
    link = f"import os; os.unlink('candidate.py'); os.symlink({str(outside)!r}, 'candidate.py')"
    answer = run(tmp_path, link)
    assert isinstance(answer, Refusal)
    assert "symlink out of its folder" in answer.reason.detail
    assert isinstance(run(tmp_path, EDIT), Proposal)


@pytest.mark.parametrize(
    ("text", "probe", "words"),
    [
        ("pass", "no_change", "left candidate.py as it was"),
        ("import sys; sys.exit(3)", "no_change", "it ended with status 3"),
        (f"{EDIT}\nraise SystemExit(2)", "program", "it ended with status 2"),
        ("open('candidate.py', 'w').write('def (')", "candidate", "syntax error: line 1"),
        ("import os; os.unlink('candidate.py')", "candidate", "does not exist"),
        ("open('candidate.py', 'wb').write(b'#' * 2_000_000)", "candidate", "over 1 MB"),
        ("open('candidate.py', 'wb').write(b'\\xff')", "candidate", "not UTF-8"),
    ],
)
def test_a_program_that_leaves_no_candidate_is_refused_with_its_reason(
    tmp_path: Path, text: str, probe: str, words: str
) -> None:
    answer = run(tmp_path, text)
    assert isinstance(answer, Refusal)
    assert answer.reason.probe == probe
    assert words in answer.reason.detail


def test_a_program_that_is_not_there_cannot_propose(tmp_path: Path) -> None:
    command = Command("/no/such/program", AgentSettings(), tmp_path / "home", {})
    with pytest.raises(ProposerError, match=r"cannot be started .*install it or name its path"):
        asyncio.run(command.propose(REQUEST, lambda piece: None))


FAMILY = """
import os, subprocess, sys, time
code = "import time, os; open({pids!r}, 'a').write(str(os.getpid()) + chr(10)); time.sleep(600)"
subprocess.Popen([sys.executable, "-c", code])
subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
if os.fork() == 0:
    os.setsid()
    subprocess.Popen([sys.executable, "-c", code], stdin=0, stdout=1)
    os._exit(0)
while len(open({pids!r}).read().split() if os.path.exists({pids!r}) else ()) < 3:
    time.sleep(0.02)
import signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
time.sleep({more})
"""


@pytest.mark.skipif(sys.platform != "linux", reason="finds processes in /proc")
@pytest.mark.parametrize("more", [600, 0])
def test_nothing_that_it_started_outlives_it(tmp_path: Path, more: int) -> None:
    pids = tmp_path / "pids"
    started = time.monotonic()
    answer = run(tmp_path, FAMILY.format(pids=str(pids), more=more), seconds=12.0 if more else 60.0)
    assert time.monotonic() - started < 50
    assert isinstance(answer, Refusal)
    if more:
        assert "it was ended after 12 s" in answer.reason.detail
    numbers = [int(text) for text in pids.read_text().split()]
    assert len(numbers) == 3
    assert [pid for pid in numbers if alive(pid)] == []


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_its_environment_holds_no_key_that_was_not_named(tmp_path: Path, monkeypatch: Any) -> None:
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "HF_TOKEN", "MY_HABIT"):
        monkeypatch.setenv(name, KEY)
    text = f"import os; print(sorted(os.environ), {KEY!r} in os.environ.values())"
    said: list[str] = []
    run(tmp_path, text, said=said)
    names = "".join(said)
    assert names.endswith("False\n")
    assert not any(name in names for name in ("API_KEY", "TOKEN", "HABIT"))
    said.clear()
    run(tmp_path, "import os; print(os.environ['HF_TOKEN'])", said=said, passed={"HF_TOKEN": KEY})
    assert "".join(said) == "[key]\n"


def test_endless_output_is_read_and_thrown_away(tmp_path: Path) -> None:
    text = f"import sys\nfor _ in range(4000): sys.stdout.write('\\x1b[31m word' * 200)\n{EDIT}"
    answer = run(tmp_path, text)
    assert isinstance(answer, Proposal)
    assert len(answer.transcript) <= 1_000_000


async def test_a_whole_lab_runs_with_a_scripted_program(tmp_path: Path, monkeypatch: Any) -> None:
    text = f"""
import json, pathlib, sys
prompt = sys.stdin.read()
at = pathlib.Path({str(tmp_path / "at")!r})
number = int(at.read_text()) if at.exists() else 0
at.write_text(str(number + 1))
text = open("candidate.py").read()
for _ in range(1):
    old, new = [('"SKIP": False', '"SKIP": True'), ("", ""), ('"EXP2": False', '"EXP2": True')][number]
    open("candidate.py", "w").write(text.replace(old, new) if old else text)
print("step", number)
"""
    command = f"command:{program(tmp_path, text)}"
    config = agent_config(command, "http://localhost:1", agent_key=None, tokens=None, budget=3)
    lab, agent = agent_lab(tmp_path / "lab", config, monkeypatch)
    ended = await research(lab, agent)
    assert ended.reason == "budget"
    rows = lab.ledger.experiments()
    assert [(row.status, row.proposer) for row in rows[1:]] == [
        ("keep", "command"),
        ("invalid", "command"),
        ("keep", "command"),
    ]
    said = [r.event.text for r in lab.ledger.records() if isinstance(r.event, AgentSaid)]
    assert said == ["step 0\n", "step 1\n", "step 2\n"]
    assert lab.ledger.spending().requests == 0
    assert "KERNEL_LAB_AGENT" not in os.environ
