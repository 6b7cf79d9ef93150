"""What people do with whole labs: give one another name, delete one, free the room of its artefacts.

None of it while an engine runs the lab, and none of it to anything that is not a lab.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import TypeVar

from kernel_lab.engine.errors import LabBusy, LabFolderError, UsageError
from kernel_lab.engine.lab import RUNS, is_lab, last_lab, remember_lab
from kernel_lab.engine.ledger.lock import EngineLock, engine_pid
from kernel_lab.engine.ledger.store import DATABASE, Ledger

NAME_LIMIT = 80
KEPT_ARTEFACTS = ("keep", "seed", "held", "running")
"""Experiments whose logs and compiled files stay: what is or may become part of a champion line."""

T = TypeVar("T")


def rename_lab(folder: Path, name: str) -> Path:
    """Give a lab's folder another name beside where it lies; the new folder.

    Raises UsageError (a name that is none), LabFolderError (taken, or no lab) or LabBusy.
    """
    name = name.strip()
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name) or len(name) > NAME_LIMIT:
        raise UsageError(f"{name!r} is no name for a lab: use letters, digits, dots, dashes and underscores")
    folder = folder.absolute()
    target = folder.with_name(name)
    if target == folder:
        return folder
    if os.path.lexists(target):
        raise LabFolderError(f"{target} is there already: give another name")
    was_last = last_lab() == folder
    _alone(folder, lambda: _move(folder, target))
    if was_last:
        remember_lab(target)
    return target


def delete_lab(folder: Path) -> None:
    """Delete a lab with everything in its folder. It cannot be brought back.

    Raises LabFolderError (no lab, or a link to one) or LabBusy.
    """
    folder = folder.absolute()
    if folder.is_symlink():
        raise LabFolderError(f"{folder} is a link and was left as it is: delete the lab where it really lies")
    # Moved away first, so that a deletion that is cut short leaves no half of a lab behind in its place.
    doomed = folder.with_name(f".{folder.name}.deleted-{os.getpid()}")
    _alone(folder, lambda: _move(folder, doomed))
    try:
        shutil.rmtree(doomed)
    except OSError as problem:
        why = problem.strerror or problem
        raise LabFolderError(f"{doomed} could not be deleted whole ({why}): remove it by hand") from None


def prune_lab(folder: Path) -> tuple[int, int]:
    """Delete logs and compiled files of experiments that were not kept; how many, and the bytes freed.

    The ledger keeps every text, check and number, so that only what can be compiled again is lost.
    """
    folder = folder.absolute()
    if not is_lab(folder):
        raise LabFolderError(f"{folder} is not a lab: list labs with `kernel-lab labs`")
    with closing(Ledger.open(folder / DATABASE, readonly=True)) as ledger:
        champions = set(ledger.view().champions.values())
        spare = {row.id for row in ledger.experiments() if row.status not in KEPT_ARTEFACTS} - champions

    def pruned() -> tuple[int, int]:
        count = freed = 0
        for number in sorted(spare):
            run = folder / RUNS / str(number)
            if run.is_symlink() or not run.is_dir():
                continue
            freed += _size(run)
            shutil.rmtree(run, ignore_errors=True)
            count += not run.exists()
        return count, freed

    return _alone(folder, pruned)


def _alone(folder: Path, work: Callable[[], T]) -> T:
    """Do something to a lab that no engine runs and none can start meanwhile."""
    if not is_lab(folder):
        raise LabFolderError(f"{folder} is not a lab: list labs with `kernel-lab labs`")
    owner = engine_pid(folder)
    if owner is not None:
        raise LabBusy(f"lab {folder.name} is run by process {owner}: stop its engine first")
    with EngineLock(folder):
        return work()


def _move(folder: Path, target: Path) -> None:
    try:
        folder.rename(target)
    except OSError as problem:
        why = problem.strerror or problem
        raise LabFolderError(f"{folder} cannot be moved ({why}): make its parent folder writable") from None


def _size(folder: Path) -> int:
    total = 0
    for root, _, files in os.walk(folder):
        for name in files:
            with suppress(OSError):
                total += (Path(root) / name).lstat().st_size
    return total
