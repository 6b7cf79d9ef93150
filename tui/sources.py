"""Where a Live screen gets its lab from: a lab's folder, or a recording. Small enough to import anywhere."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

RECORDINGS = Path(__file__).parent / "recordings"
"""Recordings of real labs that ship with the program."""


@dataclass(frozen=True, slots=True)
class LabSource:
    """A lab that an engine runs, or could run."""

    lab_dir: Path

    @property
    def name(self) -> str:
        return self.lab_dir.name


@dataclass(frozen=True, slots=True)
class ReplaySource:
    """A recording: a ledger file or a lab's folder, played at `speed` times real time."""

    path: Path
    speed: float = 8.0

    @property
    def name(self) -> str:
        return self.path.stem if self.path.suffix == ".db" else self.path.name


def recordings() -> list[ReplaySource]:
    """Shipped recordings by name; empty if none came along."""
    return [ReplaySource(path) for path in sorted(RECORDINGS.glob("*.db"))] if RECORDINGS.is_dir() else []


def recording_named(name: str) -> Path | None:
    """The file of a shipped recording."""
    return next((source.path for source in recordings() if source.name == name), None)
