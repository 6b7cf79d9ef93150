"""`kernel-lab labs`: the list, and what can be done to a whole lab."""

from __future__ import annotations

import argparse
from pathlib import Path

from kernel_lab.engine import lab_manage
from kernel_lab.engine.errors import UsageError
from kernel_lab.engine.lab import resolve_lab
from kernel_lab.tui import cli_read, fmt, output


def labs(options: argparse.Namespace) -> int:
    """List the labs, or rename, prune or delete one."""
    if options.rename is not None:
        folder, name = options.rename
        path = lab_manage.rename_lab(resolve_lab(folder), name)
        return _told(options, {"lab": path}, f"renamed: {path}")
    if options.prune is not None:
        path = resolve_lab(options.prune)
        count, freed = lab_manage.prune_lab(path)
        words = f"{count} experiments pruned, {fmt.scale_size(freed)} freed: {path}"
        return _told(options, {"lab": path, "pruned": count, "bytes": freed}, words)
    if options.delete is not None:
        return _delete(options, resolve_lab(options.delete))
    if options.yes:
        raise UsageError("--yes goes with --delete: name the lab to delete")
    return cli_read.labs(options)


def _delete(options: argparse.Namespace, path: Path) -> int:
    if not options.yes:
        raise UsageError(f"{path} would be deleted with everything in it, for ever: say --yes too")
    lab_manage.delete_lab(path)
    return _told(options, {"deleted": path}, f"deleted: {path}")


def _told(options: argparse.Namespace, answer: dict[str, object], words: str) -> int:
    if options.json:
        output.print_json(answer)
    else:
        print(output.clean(words))
    return 0
