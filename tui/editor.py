"""Editing a copy of a candidate in the person's own editor, and running an agent program on one."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kernel_lab.engine.errors import EnvironmentProblem, LabError, UsageError

SOURCE_LIMIT_BYTES = 1_000_000
FALLBACKS = ("nano", "vim", "vi", "emacs")


@dataclass(frozen=True, slots=True)
class AgentProgram:
    """An agent program that may be on the PATH, and how it takes a prompt and stays interactive."""

    name: str
    arguments: Callable[[str], Sequence[str]]


AGENT_PROGRAMS = (
    AgentProgram("claude", lambda prompt: [prompt]),
    AgentProgram("codex", lambda prompt: [prompt]),
    AgentProgram("gemini", lambda prompt: ["-i", prompt]),
    AgentProgram("opencode", lambda prompt: ["--prompt", prompt]),
    AgentProgram("aider", lambda prompt: ["--message", prompt, "candidate.py"]),
)


def agents_found(path: str | None = None) -> list[AgentProgram]:
    """Agent programs on the PATH."""
    return [agent for agent in AGENT_PROGRAMS if shutil.which(agent.name, path=path)]


def editor_command(environment: Mapping[str, str]) -> list[str]:
    """The person's editor: $VISUAL, $EDITOR, or one that is there. Raises EnvironmentProblem if none is."""
    for name in ("VISUAL", "EDITOR"):
        try:
            words = shlex.split(environment.get(name, ""))
        except ValueError:
            raise UsageError(f"${name} cannot be read as a command: mend its quotes") from None
        if words:
            if shutil.which(words[0], path=environment.get("PATH")) is None:
                raise EnvironmentProblem(
                    f"${name} names {words[0]!r}, which is not there: set it to your editor"
                )
            return words
    for name in FALLBACKS:
        if shutil.which(name, path=environment.get("PATH")):
            return [name]
    raise EnvironmentProblem("there is no editor: set EDITOR, for example `export EDITOR=nano`")


def edited(source: str, name: str, environment: Mapping[str, str] | None = None) -> str | None:
    """What the person made of `source` in their editor; None if it is as before.

    The terminal must be theirs meanwhile. Raises LabError: no editor, a failed one, an unreadable result.
    """
    environment = os.environ if environment is None else environment
    command = editor_command(environment)
    with tempfile.TemporaryDirectory(prefix="kernel-lab-") as folder:
        path = Path(folder) / name
        path.write_text(source, encoding="utf-8")
        _run([*command, str(path)], Path(folder), environment)
        after = _read(path)
    return None if after == source else after


def edit_file(path: Path, environment: Mapping[str, str] | None = None) -> None:
    """Open a file in the person's editor where it lies. Raises LabError: no editor, or a failed one."""
    environment = os.environ if environment is None else environment
    _run([*editor_command(environment), str(path)], path.parent, environment)


def by_agent(
    agent: AgentProgram, idea: str, source: str, notes: str, environment: Mapping[str, str] | None = None
) -> str | None:
    """What an agent program, run in the foreground, made of `source` for an idea; None if nothing."""
    environment = os.environ if environment is None else environment
    prompt = (
        "Read NOTES.md, then change candidate.py in this folder, and no other file, so that it carries out "
        f"this idea and stays correct: {idea}"
    )
    with tempfile.TemporaryDirectory(prefix="kernel-lab-") as folder:
        path = Path(folder) / "candidate.py"
        path.write_text(source, encoding="utf-8")
        (Path(folder) / "NOTES.md").write_text(notes, encoding="utf-8")
        _run([agent.name, *agent.arguments(prompt)], Path(folder), environment)
        after = _read(path)
    return None if after == source else after


def _run(command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> None:
    try:
        done = subprocess.run(command, cwd=folder, env=dict(environment), check=False)
    except OSError as error:
        raise EnvironmentProblem(f"{command[0]} did not start ({error.strerror}): set EDITOR") from None
    if done.returncode:
        raise LabError(f"{command[0]} ended with status {done.returncode}: nothing was sent")


def _read(path: Path) -> str:
    try:
        if path.stat().st_size > SOURCE_LIMIT_BYTES:
            raise LabError("the edited file is over 1 MB: a candidate is one small file; nothing was sent")
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise LabError("the edited file cannot be read as UTF-8: nothing was sent") from None
