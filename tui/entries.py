"""Which task a candidate file is for: told by `--task`, or by the entry function that the file has."""

from __future__ import annotations

from collections.abc import Iterable

from kernel_lab.engine.candidate import parse_tree
from kernel_lab.engine.errors import CandidateInvalid, UsageError
from kernel_lab.engine.proposers.people import entries_of
from kernel_lab.engine.tasks import TaskSpec, load_task, shipped_tasks


def task_of(source: str, task: str | None, tasks: Iterable[str] | None = None) -> TaskSpec:
    """The task that a candidate is for, among `tasks` (default: those that ship).

    Raises CandidateInvalid if the text is no candidate for it, and UsageError where it could be for several.
    """
    specs = [load_task(name) for name in (shipped_tasks() if tasks is None else tasks)]
    found = entries_of(source)
    fitting = [spec for spec in specs if spec.entry in found]
    if task is not None:
        wanted = next((spec for spec in specs if spec.name == task), None)
        if wanted is None and tasks is not None:
            raise UsageError(f"this lab has no task {task!r}: use one of {', '.join(s.name for s in specs)}")
        wanted = wanted or load_task(task)
        others = [spec for spec in fitting if spec.entry != wanted.entry]
        if others and wanted.entry not in found:
            name, entry = others[0].name, others[0].entry
            raise CandidateInvalid(
                f"no entry function {wanted.entry}, which {wanted.name} needs; the file has `{entry}`, "
                f"so say `--task {name}`"
            )
        return wanted
    if len(fitting) > 1:
        raise UsageError(
            f"the file has the entry functions of {' and '.join(spec.name for spec in fitting)}: "
            "say which with --task"
        )
    if fitting or len(specs) == 1:
        return (fitting or specs)[0]
    parse_tree(source)  # a text that is no Python is told as that
    known = " or ".join(f"`{spec.entry}` ({spec.name})" for spec in specs)
    raise CandidateInvalid(f"there is no entry function; define {known} at module level")
