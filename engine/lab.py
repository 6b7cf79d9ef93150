"""A lab's folder: what may become one, its settings in lab.toml, and finding labs again.

    lab.toml      settings, for people to read and change while no engine runs
    lab.db        the ledger
    repo/         git view of the candidates, made from the ledger
    runs/N/       logs and compiled artefacts of experiment N
    engine.lock   who runs the lab;  engine.log  what the engine wrote on its terminal

A folder that holds anything else is foreign and never touched.
"""

from __future__ import annotations

import difflib
import json
import os
import re
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from kernel_lab.engine import paths
from kernel_lab.engine.errors import LabError, LabFolderError, LabReadOnly, UsageError
from kernel_lab.engine.events import Event
from kernel_lab.engine.lab_config import (
    SETTINGS,
    LabConfig,
    is_ours,
    read_config,
    replace_file,
    sync_folder,
    write_config,
)
from kernel_lab.engine.ledger import schema
from kernel_lab.engine.ledger.lock import LOCK, EngineLock, engine_pid
from kernel_lab.engine.ledger.store import DATABASE, Ledger

__all__ = [
    "EngineLock",
    "Lab",
    "LabConfig",
    "LabSummary",
    "check_free",
    "create_lab",
    "engine_pid",
    "is_lab",
    "last_lab",
    "list_labs",
    "new_lab_dir",
    "open_lab",
    "read_config",
    "remember_lab",
    "resolve_lab",
    "settings_of",
    "write_config",
]

LOG = "engine.log"
REPO = "repo"
RUNS = "runs"

_BIRTH = f"{DATABASE}.new"
_OWN_REMAINS = {
    SETTINGS,
    f"{SETTINGS}.new",
    LOCK,
    *(f"{_BIRTH}{suffix}" for suffix in ("", "-wal", "-shm", "-journal")),
}
"""What a creation that was killed may have left."""


@dataclass(frozen=True, slots=True)
class Lab:
    """An open lab."""

    path: Path
    config: LabConfig
    ledger: Ledger
    restored: bool = False
    """lab.toml was missing and was written again from the ledger."""

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def repo_dir(self) -> Path:
        return self.path / REPO

    def run_dir(self, experiment: int) -> Path:
        """Folder for logs and artefacts of one experiment; the caller creates it."""
        return self.path / RUNS / str(experiment)

    def close(self) -> None:
        self.ledger.close()


# ---- creating and opening --------------------------------------------------------------------------


def is_lab(folder: Path) -> bool:
    """Whether a folder holds a lab: its ledger, with lab.toml beside it or one that can be restored."""
    try:
        if (folder / SETTINGS).is_file():
            return (folder / DATABASE).is_file()
        with (folder / DATABASE).open("rb") as file:
            header = file.read(72)
    except OSError:  # not there, too long to be a path, or not to be entered
        return False
    return header.startswith(b"SQLite format 3\0") and header[68:] == schema.APPLICATION_ID.to_bytes(4, "big")


def check_free(folder: Path) -> None:
    """Raise LabFolderError unless a lab may be created in `folder`: missing, empty, or our own remains."""
    if is_lab(folder):
        raise LabFolderError(f"{folder} is a lab already: open it with `kernel-lab open {folder}`")
    if not os.path.lexists(folder):  # Path.exists raises for a name that is too long
        return
    if not folder.is_dir():
        raise LabFolderError(f"{folder} is a file: name an empty or a new folder")
    foreign = {entry.name for entry in folder.iterdir()} - _OWN_REMAINS
    settings = folder / SETTINGS
    if foreign or (settings.exists() and not is_ours(settings)):
        first = min(foreign, default=SETTINGS)
        raise LabFolderError(
            f"{folder} holds other files ({first!r}) and was left as it is: name an empty or a new folder"
        )


def create_lab(
    folder: Path, config: LabConfig, events: Sequence[Event] = (), *, blobs: Sequence[bytes] = ()
) -> Lab:
    """A new lab, whose ledger begins with `events`. Raises LabFolderError and leaves foreign folders alone.

    The ledger gets its name last: a creation that was killed is no lab, and is begun again.
    """
    folder = folder.absolute()
    check_free(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with EngineLock(folder):
            check_free(folder)
            for name in _OWN_REMAINS - {LOCK}:
                (folder / name).unlink(missing_ok=True)
            write_config(folder, config)
            Ledger.create(folder / _BIRTH, events, blobs=blobs).close()
            (folder / _BIRTH).rename(folder / DATABASE)
            sync_folder(folder)
    except OSError as problem:
        raise _unwritable(folder, problem) from problem
    return open_lab(folder)


def open_lab(folder: Path, readonly: bool = False) -> Lab:
    """An existing lab. Raises LabFolderError, LabReadOnly, LabNewer or UsageError (a wrong lab.toml)."""
    folder = folder.absolute()
    if not is_lab(folder):
        what = "is not a lab" if folder.exists() else "does not exist"
        raise LabFolderError(f"{folder} {what}: list labs with `kernel-lab labs`")
    if not readonly and not os.access(folder, os.W_OK):
        raise LabReadOnly(
            f"lab {folder} cannot be written: make its folder writable, or copy the lab elsewhere"
        )
    config, restored = settings_of(folder)
    return Lab(folder, config, Ledger.open(folder / DATABASE, readonly=readonly), restored)


RESTORED = "lab.toml was missing: it is written again, with the settings that the lab began with"


def settings_of(folder: Path) -> tuple[LabConfig, bool]:
    """The settings in lab.toml, and whether they had to be restored from the ledger because it is missing."""
    if os.path.lexists(folder / SETTINGS):
        return read_config(folder), False
    with closing(Ledger.recording(folder / DATABASE)) as ledger:
        values = ledger.view().config
    if not values:
        raise LabFolderError(
            f"{folder / SETTINGS} is missing, and the ledger holds no settings before the first start: "
            'write one (`gpu = "rtx3060"` is enough), or start another lab'
        )
    config = LabConfig.from_dict(values)
    with suppress(OSError):  # a reader of a read-only lab does without the file
        write_config(folder, config)
    return config, True


def new_lab_dir(gpu: str, model: str) -> Path:
    """An empty folder for a lab without a name: `<gpu>-<model>`, then with -2, -3, …"""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", f"{gpu}-{model}").strip("-.") or "lab"
    home = paths.labs_dir()
    number = 1
    while True:
        folder = home / (name if number == 1 else f"{name}-{number}")
        try:
            home.mkdir(parents=True, exist_ok=True)
            folder.mkdir()
        except FileExistsError:
            number += 1
        except OSError as problem:
            raise _unwritable(home, problem) from problem
        else:
            return folder


def _unwritable(folder: Path, problem: OSError) -> LabReadOnly:
    why = problem.strerror or problem
    return LabReadOnly(f"{folder} cannot be written ({why}): name another folder with --lab")


LOG_LIMIT_BYTES = 1 << 20
LOG_KEPT_BYTES = 1 << 18


def bound_log(log: Path) -> None:
    """Cut a log over 1 MB down to its last quarter, in place: who appends to it goes on appending."""
    with suppress(OSError):
        if log.stat().st_size <= LOG_LIMIT_BYTES:
            return
        with log.open("r+b") as file:
            file.seek(-LOG_KEPT_BYTES, os.SEEK_END)
            tail = file.read().split(b"\n", 1)[-1]
            file.seek(0)
            file.write(tail)
            file.truncate()


# ---- finding labs ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LabSummary:
    """One line of the list of labs. `problem`: why the lab cannot be opened, in one line."""

    name: str
    path: Path
    gpu: str = ""
    model: str = ""
    device_kind: str = ""
    tasks: tuple[str, ...] = ()
    experiments: int = 0
    kept: int = 0
    waiting: int = 0
    """Questions that wait for a person."""
    champions: dict[str, int] | None = None
    last_time: float = 0.0
    """When something last happened, seconds since the epoch."""
    engine_pid: int | None = None
    problem: str | None = None


def list_labs() -> list[LabSummary]:
    """Labs in the usual place and those remembered from elsewhere, the last used first."""
    home = paths.labs_dir()
    found = [folder for folder in sorted(home.iterdir()) if is_lab(folder)] if home.is_dir() else []
    remembered = [folder for folder in _remembered() if folder not in found and is_lab(folder)]
    return sorted(map(summary, [*found, *remembered]), key=lambda lab: (-lab.last_time, lab.name))


def summary(folder: Path) -> LabSummary:
    """What can be told about a lab from a few indexed rows."""
    try:
        with closing(Ledger.recording(folder / DATABASE)) as ledger:
            view = ledger.view()
            last = ledger.records(after=max(0, view.last_seq - 1), limit=1)
            return LabSummary(
                name=folder.name,
                path=folder,
                gpu=view.gpu,
                model=view.model,
                device_kind=view.device_kind,
                tasks=view.tasks,
                experiments=sum(view.counts.values()) - view.counts.get("seed", 0),
                kept=view.counts.get("keep", 0),
                waiting=len(ledger.open_questions()),
                champions=view.champions,
                last_time=last[0].time if last else 0.0,
                engine_pid=engine_pid(folder),
            )
    except LabError as problem:
        return LabSummary(name=folder.name, path=folder, problem=str(problem))


def remember_lab(folder: Path) -> None:
    """Note a lab as the last used one. A state folder that cannot be written is no reason to stop."""
    folder = folder.absolute()
    known = [folder, *(other for other in _remembered() if other != folder and is_lab(other))]
    path = paths.state_dir() / "labs.json"
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, json.dumps({"labs": [str(lab) for lab in known]}, indent=2))


def last_lab() -> Path | None:
    """The last used lab that still exists."""
    return next((folder for folder in _remembered() if is_lab(folder)), None)


def resolve_lab(name: str | None) -> Path:
    """Folder of the lab that a person means: a path, a name, or None for the last used one."""
    if name is None:
        folder = last_lab()
        if folder is None:
            raise UsageError("no lab was used yet: start one with `kernel-lab run`, or name one with --lab")
        return folder
    candidates = [Path(name).expanduser().absolute()]
    if Path(name).name == name:
        candidates += [paths.labs_dir() / name, *(lab for lab in _remembered() if lab.name == name)]
    for folder in candidates:
        if is_lab(folder):
            return folder
    known = {lab.name for lab in [*_remembered(), *_homes()] if is_lab(lab)}
    near = difflib.get_close_matches(Path(name).name, sorted(known), n=1)
    hint = f"did you mean {near[0]}? " if near else ""
    raise UsageError(f"there is no lab {name!r}: {hint}list labs with `kernel-lab labs`")


def _homes() -> list[Path]:
    home = paths.labs_dir()
    return sorted(home.iterdir()) if home.is_dir() else []


def _remembered() -> list[Path]:
    """Labs in the order of their last use."""
    try:
        state = json.loads((paths.state_dir() / "labs.json").read_text(encoding="utf-8"))
        return [Path(item) for item in state["labs"] if isinstance(item, str)]
    except (OSError, ValueError, KeyError, TypeError):
        return []
