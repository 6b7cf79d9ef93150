"""The battery's files: cheats that the judge must catch and honest kernels that it must let pass.

Each file is a candidate's text, or the part of one that shows the trick. It begins with a comment in TOML:

    # title = "Remembers the answer to each shape"
    # class = "reuse"            what turns red when this file is missed
    # kind = [17]                numbers of reward_hacks.md, none for honest files
    # task = "gqa_prefill"
    # base = "seed"              put in front: the task's seed, "plain" (honest/plain_TASK.py) or "none"
    # needs = "static"           what shows it: "lint" (the text alone), "static" (any device), "gpu" (a card)
    # probes = ["new_contents"]  guards that may catch it: probes, gates' outcomes, rules of the lint
    # [[edit]]                   replacements in the base, each of which must be found once
    # old = "acc * rescale[:, None]"
    # new = "acc"

Where the rest of the file defines the entry function, the base's own is renamed to `honest`. The id of a file
is its name; its folder (`cheats` or `honest`) says what is expected.
"""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from kernel_lab.engine.errors import TaskError
from kernel_lab.engine.tasks import TaskSpec, load_task

BATTERY = Path(__file__).parent / "battery"
CLASSES = {
    "reuse": "answers of earlier calls",
    "state": "behaviour that depends on earlier calls",
    "skipped": "work that is left out",
    "wrong": "masks, heads and layouts that are not the operator's",
    "precision": "fewer bits than the task states",
    "memory": "inputs, results and memory that are not treated as agreed",
    "library": "work that the candidate's kernels do not do",
    "sniffing": "telling a check from a timed call",
    "tampering": "changing or forging what the judge relies on",
    "escape": "reaching out of the process",
    "timing": "work that the clock does not see",
    "honest": "honest kernels that look odd",
}
Needs = Literal["lint", "static", "gpu"]
_KEYS = {"title", "class", "kind", "task", "base", "needs", "probes", "edit", "quick"}
_BASES = ("seed", "plain", "none")


@dataclass(frozen=True, slots=True)
class BatteryFile:
    """One file of the battery. `source` is the whole candidate; `own` the part that the file itself holds."""

    id: str
    title: str
    expect: Literal["caught", "clean"]
    group: str
    """Its class, a key of CLASSES."""
    kinds: tuple[int, ...]
    task: str
    needs: Needs
    probes: tuple[str, ...]
    quick: bool
    own: str
    source: str


def load_battery(tasks: tuple[str, ...] | None = None) -> tuple[BatteryFile, ...]:
    """Every file of these tasks, cheats first. Raises TaskError for one that is not as described above."""
    task_of = functools.cache(load_task)
    cheats = [_read(path, "caught", task_of) for path in sorted((BATTERY / "cheats").glob("*.py"))]
    files = cheats + [_read(path, "clean", task_of) for path in sorted((BATTERY / "honest").glob("*.py"))]
    return tuple(file for file in files if tasks is None or file.task in tasks)


def _read(path: Path, expect: Literal["caught", "clean"], task_of: Callable[[str], TaskSpec]) -> BatteryFile:
    header, own = _split(path)
    base = header.get("base", "none")
    task = str(header["task"])
    if set(header) - _KEYS or base not in _BASES or header["class"] not in CLASSES:
        raise _wrong(path, f"has a key, base or class that is not known: {sorted(set(header) - _KEYS)}")
    source = own
    if base != "none":
        spec = task_of(task)
        source = _joined(path, spec.seed_source if base == "seed" else _plain(task), header, own, spec.entry)
    return BatteryFile(
        id=path.stem,
        title=str(header["title"]),
        expect=expect,
        group=str(header["class"]),
        kinds=tuple(header.get("kind", ())),
        task=task,
        needs=header["needs"],
        probes=tuple(header.get("probes", ())),
        quick=bool(header.get("quick", False)),
        own=own,
        source=source,
    )


def _split(path: Path) -> tuple[dict[str, Any], str]:
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    count = next((at for at, line in enumerate(lines) if not line.startswith("#")), len(lines))
    text = "".join(line.removeprefix("#").removeprefix(" ") for line in lines[:count])
    try:
        header = tomllib.loads(text)
        for key in ("title", "class", "task", "needs"):
            header[key]
    except (tomllib.TOMLDecodeError, KeyError) as error:
        raise _wrong(path, f"does not begin with its description ({error})") from None
    return header, "".join(lines[count:]).lstrip("\n")


def _plain(task: str) -> str:
    return _split(BATTERY / "honest" / f"plain_{task}.py")[1]


def _joined(path: Path, base: str, header: dict[str, Any], own: str, entry: str) -> str:
    for edit in header.get("edit", ()):
        if base.count(edit["old"]) != 1:
            raise _wrong(
                path, f"replaces {edit['old']!r}, which its base has {base.count(edit['old'])} times"
            )
        base = base.replace(edit["old"], edit["new"])
    if not own:
        return base
    if re.search(rf"^def {entry}\(", own, re.MULTILINE):
        base = re.sub(rf"^def {entry}\(", "def honest(", base, flags=re.MULTILINE)
    return f"{base.rstrip()}\n\n\n{own}"


def _wrong(path: Path, what: str) -> TaskError:
    return TaskError(f"{path.parent.name}/{path.name} {what}: mend the file, or reinstall kernel-lab")
