"""Finding and opening the lab that a command is about."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator
from pathlib import Path

from kernel_lab.engine.errors import UsageError
from kernel_lab.engine.lab import RESTORED, Lab, open_lab, resolve_lab
from kernel_lab.engine.ledger.views import ExperimentRow


def chosen_lab(options: argparse.Namespace) -> Path:
    """Folder of the lab named by `--lab`, else of the last used one, which is then said with the answer."""
    path = resolve_lab(options.lab)
    if options.lab is None:
        options.lab = str(path)
        options.beside.append(f"lab {path} (the last used one; --lab names another)")
    return path


@contextlib.contextmanager
def reading(options: argparse.Namespace) -> Iterator[Lab]:
    """The lab named by `--lab`, or the last used one, open for reading."""
    lab = open_lab(chosen_lab(options), readonly=True)
    if lab.restored:
        options.beside.append(RESTORED)
    with contextlib.closing(lab):
        yield lab


def experiment_of(lab: Lab, number: int) -> ExperimentRow:
    """Experiment `number`. Raises UsageError."""
    row = lab.ledger.experiment(number)
    if row is None:
        last = lab.ledger.last_experiment()
        known = f"they go from 1 to {last}" if last else "it has none yet"
        raise UsageError(f"there is no experiment {number} in {lab.path}: {known}; see `kernel-lab results`")
    return row
