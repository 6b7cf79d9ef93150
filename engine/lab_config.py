"""The settings of a lab, and lab.toml, where a person reads and changes them."""

from __future__ import annotations

import json
import os
import re
import tomllib
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from kernel_lab.engine.errors import LabFolderError, UsageError
from kernel_lab.engine.facts import MODES

SETTINGS = "lab.toml"
_HEADER = "# A lab of kernel-lab. Change settings while no engine runs.\n"
DEFAULT_TASKS = ("gqa_decode", "gqa_prefill")


DEVICES = ("static", "measured")


@dataclass(frozen=True, slots=True)
class LabConfig:
    """Settings of a lab. None means no limit, or not given. Raises UsageError naming the wrong one."""

    gpu: str
    device: str = "static"
    """`measured`: on the card of this machine; `static`: without it."""
    model: str = "llama-3.1-8b"
    tasks: tuple[str, ...] = DEFAULT_TASKS
    proposer: str = "search"
    mode: str = "wins"
    seed: int = 0
    budget: int | None = None
    """Experiments."""
    trials: int = 12
    """Settings tried in one experiment, at most."""
    plateau: int = 12
    """Experiments of a task without a keep after which the loop widens its search and asks a person."""
    hours: float | None = None
    usd: float | None = None
    tokens: int | None = None
    agent_model: str | None = None
    """Model that an agent asks; None: the newest suitable one of its service."""
    agent_url: str | None = None
    """Another service that speaks the same protocol."""
    agent_key: str | None = None
    """Name of the variable that holds the key for `agent_url`. A key itself stands nowhere."""
    agent_effort: str | None = None
    agent_turns: int | None = None
    """Replies within one proposal, at most."""
    agent_seconds: float | None = None
    agent_tokens: int | None = None
    """Cap on the tokens of one proposal."""
    agent_usd: float | None = None
    agent_context: int | None = None
    """Tokens of the context that a proposal starts from."""
    agent_ask_seconds: float | None = None
    """How long an agent's question waits for a person."""
    agent_env: str | None = None
    """Variables, with commas between them, that an agent program gets."""
    agent_uncapped: bool | None = None
    """A person agreed to spend a key without a cap."""
    from_file: str | None = None
    """The user's own kernel that the lab starts from."""
    python: str | None = None
    """Interpreter that has torch and triton, if not the one that runs kernel-lab."""

    def __post_init__(self) -> None:
        for name, wanted in _KINDS.items():
            value = getattr(self, name)
            if value is None and name in _OPTIONAL:
                continue
            if not isinstance(value, wanted) or (isinstance(value, bool) and wanted is not bool):
                raise UsageError(f"{name} is {value!r}: give {_WORDS[wanted]}")
            if isinstance(value, str) and (not value or not value.isprintable()):
                raise UsageError(f"{name} is {value!r}: give a name without control characters")
            if wanted is bool:
                continue
            if isinstance(value, (int, float)) and not (value >= 0 if name == "seed" else value > 0):
                least = "0 or more" if name == "seed" else "more than 0"
                raise UsageError(f"{name} is {value}: give {least}")
        if self.device not in DEVICES:
            raise UsageError(f"device is {self.device!r}: choose one of {', '.join(DEVICES)}")
        if self.mode not in MODES:
            raise UsageError(f"mode is {self.mode!r}: choose one of {', '.join(MODES)}")
        if not self.tasks or not all(isinstance(task, str) and task.isprintable() for task in self.tasks):
            raise UsageError(f"tasks is {list(self.tasks)!r}: name one task or more")
        if len(set(self.tasks)) < len(self.tasks):
            raise UsageError(f"tasks names a task twice ({', '.join(self.tasks)}): name each once")

    def to_dict(self) -> dict[str, Any]:
        """Settings that are given, as plain values."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {
            key: list(value) if isinstance(value, tuple) else value
            for key, value in values.items()
            if value is not None
        }

    def to_toml(self) -> str:
        """Content of lab.toml."""
        return _HEADER + "".join(f"{key} = {_toml(value)}\n" for key, value in self.to_dict().items())

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> LabConfig:
        unknown = values.keys() - {field.name for field in fields(cls)}
        if unknown:
            raise UsageError(f"{min(unknown)} is no setting of a lab: remove it")
        if "gpu" not in values:
            raise UsageError("gpu is missing: name a GPU profile (`kernel-lab profiles`)")
        tasks = values.get("tasks", DEFAULT_TASKS)
        if not isinstance(tasks, (list, tuple)):
            raise UsageError(f"tasks is {tasks!r}: give a list of names")
        return cls(**{**values, "tasks": tuple(tasks)})


_KINDS: dict[str, type | tuple[type, ...]] = {
    "gpu": str,
    "device": str,
    "model": str,
    "proposer": str,
    "mode": str,
    "seed": int,
    "budget": int,
    "trials": int,
    "plateau": int,
    "hours": (int, float),
    "usd": (int, float),
    "tokens": int,
    "agent_model": str,
    "agent_url": str,
    "agent_key": str,
    "agent_effort": str,
    "agent_turns": int,
    "agent_seconds": (int, float),
    "agent_tokens": int,
    "agent_usd": (int, float),
    "agent_context": int,
    "agent_ask_seconds": (int, float),
    "agent_env": str,
    "agent_uncapped": bool,
    "from_file": str,
    "python": str,
}
_OPTIONAL = {
    *("budget", "hours", "usd", "tokens", "from_file", "python"),
    *(name for name in _KINDS if name.startswith("agent_")),
}
_WORDS: dict[type | tuple[type, ...], str] = {
    str: "a name",
    int: "a whole number",
    (int, float): "a number",
    bool: "true or false",
}


def read_config(folder: Path) -> LabConfig:
    """Settings from lab.toml; UsageError names file and line."""
    path = folder / SETTINGS
    try:
        text = path.read_text(encoding="utf-8")
        return LabConfig.from_dict(tomllib.loads(text))
    except OSError as problem:
        raise LabFolderError(
            f"{path} cannot be read ({problem.strerror}): restore it from a copy"
        ) from problem
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise UsageError(f"{path} is not TOML ({problem}): mend that line") from problem
    except UsageError as problem:
        line = _line_of(text, str(problem).partition(" ")[0])
        raise UsageError(f"{path}{line}: {problem}") from problem


def write_config(folder: Path, config: LabConfig) -> None:
    """Replace lab.toml as a whole."""
    replace_file(folder / SETTINGS, config.to_toml())


def is_ours(settings: Path) -> bool:
    """Whether kernel-lab wrote this file."""
    return settings.is_file() and settings.read_bytes().startswith(_HEADER.encode())


def _line_of(text: str, key: str) -> str:
    for number, line in enumerate(text.splitlines(), 1):
        if re.match(rf"\s*\[*\s*[\"']?{re.escape(key)}\b", line):
            return f":{number}"
    return ""


def _toml(value: object) -> str:
    if isinstance(value, list):
        return f"[{', '.join(_toml(item) for item in value)}]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value)


def replace_file(path: Path, text: str) -> None:
    """Write a file so that a reader or a crash sees the old or the new one, never half of it."""
    fresh = path.with_name(f"{path.name}.new")
    with fresh.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make a rename outlive a power cut."""
    entry = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(entry)
    finally:
        os.close(entry)
