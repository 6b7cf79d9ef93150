"""Tasks: the operators that labs make faster, and their shapes for one model on one card.

A task is a folder with `task.toml`, `reference.py`, `candidate.py` (the seed kernel), and optionally
`baselines.py` and `notes.md`. Shipped ones are found by name, others by path. Nothing of a folder is
imported here. What is wrong raises TaskError with file, line and remedy.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kernel_lab.engine.errors import ProfileError, TaskError
from kernel_lab.engine.profiles import GpuProfile, ModelProfile, require_covered
from kernel_lab.engine.task_read import (
    read_baselines,
    read_buckets,
    read_hidden,
    read_static_cases,
    read_templates,
    read_tolerances,
)
from kernel_lab.engine.task_types import DTYPE_BYTES, ENTRIES, Baseline, Bucket, TaskSpec, Template, Workload
from kernel_lab.engine.tomlread import TomlFile, near

__all__ = [
    "Baseline",
    "Bucket",
    "TaskSpec",
    "Template",
    "Workload",
    "bucket_of",
    "load_task",
    "ragged_lengths",
    "shipped_tasks",
    "tensor_bytes",
    "workload_matrix",
]

MEMORY_SHARE = 0.25
"""Largest part of the card's memory for one workload's tensors: speed is measured over at least two sets of
them, with the baseline's copies and the candidate's scratch beside them."""

_MAX_SOURCE_BYTES = 1_000_000


# ---- shapes ------------------------------------------------------------------------------------------


def workload_matrix(task: TaskSpec, model: ModelProfile, gpu: GpuProfile) -> tuple[list[Workload], list[str]]:
    """The timed shapes of `task` with the model's heads on this card, and what was left out with why.

    Weights add up to 1 over what remains. Raises ProfileError if the model has no layer that a task can
    express, or if nothing fits the card.
    """
    require_covered(model)
    budget = int(gpu.memory_bytes * MEMORY_SHARE)
    kept: list[Workload] = []
    left_out = [f"{model.title}: {layers}" for layers in model.not_covered]
    for template in task.workloads:
        workload = _workload(task, template, model)
        needed = tensor_bytes(workload)
        if needed > budget:
            left_out.append(
                f"{template.id}: {needed / 2**30:.1f} GiB of tensors, above the {budget / 2**30:.1f} GiB "
                f"that one shape may take on {gpu.title}"
            )
        elif gpu.memory_bytes < template.min_memory_bytes:
            left_out.append(f"{template.id}: meant for cards of {template.min_memory_bytes / 2**30:.0f} GiB")
        else:
            kept.append(workload)
    if not kept:
        raise ProfileError(
            f"no shape of {task.name} with the heads of {model.title} fits {gpu.title}; "
            "choose a smaller model or a card with more memory"
        )
    total = sum(workload["weight"] for workload in kept)
    for workload in kept:
        workload["weight"] = round(workload["weight"] / total, 9)
    return kept, left_out


def bucket_of(task: TaskSpec, workload: Mapping[str, Any]) -> str:
    """Name of the first bucket whose bounds hold for the workload."""
    for bucket in task.buckets:
        if all(_holds(key, bound, workload) for key, bound in bucket.when.items()):
            return bucket.name
    raise TaskError(f"no bucket of {task.name} holds {workload['id']}; end its buckets with when = {{}}")


def tensor_bytes(workload: Mapping[str, Any]) -> int:
    """Bytes of one set of inputs and its output; the whole cache counts, whatever the lengths."""
    queries = 2 * workload["Hq"] * workload["Sq"]
    keys = 2 * workload["Hkv"] * workload["Sk"]
    rows: int = workload["B"] * (queries + keys)
    return rows * int(workload["D"]) * DTYPE_BYTES[workload["dtype"]]


def ragged_lengths(batch: int, room: int) -> list[int]:
    """`batch` lengths spread evenly from a sixteenth of `room` to all of it, in a mixed but fixed order."""
    golden = 0.6180339887498949
    spread = [(0.5 + index * golden) % 1.0 for index in range(batch)]
    return [max(1, round(room * (1 + 15 * share) / 16)) for share in spread]


def _workload(task: TaskSpec, template: Template, model: ModelProfile) -> Workload:
    workload: Workload = {
        "id": template.id,
        "bucket": "",
        "weight": template.weight,
        "task": task.name,
        "B": template.B,
        "Hq": model.Hq,
        "Hkv": model.Hkv,
        "Sq": template.Sq,
        "Sk": template.Sk,
        "D": model.D,
        "dtype": model.dtype,
        "causal": template.causal,
    }
    if model.scale is not None:
        workload["scale"] = model.scale
    if task.entry == "decode":
        ragged = template.seq_lens == "ragged"
        workload["seq_lens"] = ragged_lengths(template.B, template.Sk) if ragged else None
    workload["bucket"] = bucket_of(task, workload)
    return workload


def _holds(key: str, bound: int | bool, workload: Mapping[str, Any]) -> bool:
    if key == "causal":
        return bool(workload["causal"]) is bound
    if key == "chunk":
        return (workload["Sq"] < workload["Sk"]) is bound
    dim, side = key.rsplit("_", 1)
    value = int(workload[dim])
    return value >= bound if side == "min" else value <= bound


# ---- reading a folder --------------------------------------------------------------------------------


def shipped_tasks() -> tuple[str, ...]:
    """Names of the tasks that come with kernel-lab."""
    return tuple(sorted(path.parent.name for path in _kernels_dir().glob("*/task.toml")))


def load_task(name_or_path: str | Path) -> TaskSpec:
    """The shipped task of that name, or the task in that folder. Raises TaskError."""
    folder = _folder(name_or_path)
    root = TomlFile(folder / "task.toml", TaskError).root()
    entry = root.text("entry", one_of=ENTRIES)
    name = root.text("name")
    if name != folder.name:
        root.fail("name", f'"name" is "{name}" in a folder called {folder.name}', "give both one name")
    task = TaskSpec(
        name=name,
        title=root.text("title"),
        entry=entry,
        summary=root.text("summary"),
        folder=folder,
        buckets=read_buckets(root),
        workloads=read_templates(root, entry),
        tolerances=read_tolerances(root),
        static_cases=read_static_cases(root, entry),
        hidden=read_hidden(root.table("hidden"), nested=False),
        baselines=read_baselines(root),
        seed_source=_text_of(folder, "candidate.py", required=True),
        notes=_text_of(folder, "notes.md", required=False),
    )
    root.done()
    if not (folder / "reference.py").is_file():
        raise TaskError(f"{folder}: reference.py is missing; a task needs one to check candidates against")
    return task


def _kernels_dir() -> Path:
    return Path(__file__).parent.parent / "kernels"


def _folder(name_or_path: str | Path) -> Path:
    text = str(name_or_path)
    shipped = shipped_tasks()
    if text in shipped:
        return _kernels_dir() / text
    path = Path(text).expanduser()
    if isinstance(name_or_path, Path) or "/" in text or path.is_dir():
        if not path.is_dir():
            raise TaskError(
                f"{path}: no such folder; give the folder of a task, or one of {', '.join(shipped)}"
            )
        return path.resolve()
    raise TaskError(
        f'unknown task "{text}"{near(text, shipped)}; choose {" or ".join(shipped)}, or give a folder'
    )


def _text_of(folder: Path, name: str, *, required: bool) -> str:
    path = folder / name
    try:
        if path.stat().st_size > _MAX_SOURCE_BYTES:
            raise TaskError(f"{path}: larger than {_MAX_SOURCE_BYTES:,} B; shorten it")
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        if not required:
            return ""
        raise TaskError(f"{path} is missing; a task needs a seed kernel there") from None
    except UnicodeDecodeError:
        raise TaskError(f"{path}: not UTF-8; save the file as UTF-8") from None
    except OSError as problem:
        raise TaskError(f"{path}: cannot be read ({problem.strerror}); check its permissions") from None
