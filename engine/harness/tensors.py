"""Inputs as plain data: where tensors lie, and how the task calls an entry function, without the task's code.

The referee (and the analyst) load a task's reference and make its inputs; candidates' processes never do.
What crosses is a layout for each tensor and a call of the form {"args": […], "kwargs": {…}}, whose values
are {"input": name} or {"value": plain}.
"""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

ALIGNMENT = 4096
_COMPARISONS = frozenset(("lt", "le", "gt", "ge", "eq", "ne"))


def load_reference(task_dir: str) -> ModuleType:
    """The task's reference module, loaded by path."""
    path = Path(task_dir) / "reference.py"
    spec = importlib.util.spec_from_file_location(f"reference_of_{Path(task_dir).name}", path)
    if spec is None or spec.loader is None or not path.is_file():
        raise FileNotFoundError(f"{path} is missing")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class _WithoutContents(TorchFunctionMode):  # type: ignore[misc]
    """Random numbers and choices as plain allocations: on the meta device torch loads its compiler for them.

    That takes seconds and changes nothing, as there are no contents.
    """

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        if func in (torch.randn, torch.rand, torch.randint, torch.randperm):
            kwargs.pop("generator", None)
            size = kwargs.pop("size", None) or (args[-1] if func is torch.randint else args)
            integers = func in (torch.randint, torch.randperm)
            kwargs.setdefault("dtype", torch.int64 if integers else torch.float32)
            return torch.empty(*size if isinstance(size[0], list | tuple) else (size,), **kwargs)
        if (func is torch.where and len(args) == 3) or func.__name__.strip("_") in _COMPARISONS:
            known = [value for value in args if isinstance(value, torch.Tensor)]
            rank = max(value.dim() for value in known)
            shapes = [(1,) * (rank - value.dim()) + tuple(value.shape) for value in known]
            shape = [max(sizes) for sizes in zip(*shapes, strict=True)]
            return known[-1].new_empty(shape, dtype=torch.float32 if func is torch.where else torch.bool)
        return func(*args, **kwargs)


@contextlib.contextmanager
def _generators_anywhere() -> Iterator[None]:
    """The meta device has no generators; there, any will do."""
    original = torch.Generator

    class OnCpu:
        def __new__(cls, device: object = None) -> Any:
            return original()

    torch.Generator = OnCpu
    try:
        yield
    finally:
        torch.Generator = original


def meta_inputs(reference: ModuleType, workload: dict[str, Any]) -> dict[str, torch.Tensor]:
    """The task's inputs without contents, as large as they are."""
    with _generators_anywhere(), _WithoutContents():
        inputs: dict[str, torch.Tensor] = reference.make_inputs(workload, seed=0, device="meta")
    return inputs


def layouts(inputs: dict[str, torch.Tensor]) -> dict[str, dict[str, Any]]:
    """Name to shape, strides, offset, dtype and storage; inputs that share a storage name the same one."""
    storages: dict[int, int] = {}
    found = {}
    for name, tensor in inputs.items():
        storage = storages.setdefault(tensor.untyped_storage()._cdata, len(storages))
        found[name] = {
            "shape": list(tensor.shape),
            "strides": list(tensor.stride()),
            "offset": tensor.storage_offset(),
            "dtype": str(tensor.dtype).removeprefix("torch."),
            "storage": storage,
            "storage_bytes": tensor.untyped_storage().nbytes(),
        }
    return found


def call_of(
    reference: ModuleType, inputs: dict[str, torch.Tensor], workload: dict[str, Any]
) -> dict[str, Any]:
    """How the task calls an entry on these inputs. Every tensor must be passed as it is."""
    names = {id(tensor): name for name, tensor in inputs.items()}
    seen: dict[str, Any] = {}

    def plain(value: Any) -> dict[str, Any]:
        if isinstance(value, torch.Tensor):
            return {"input": names[id(value)]}
        return {"value": value}

    def entry(*args: Any, **kwargs: Any) -> torch.Tensor:
        seen["args"] = [plain(value) for value in args]
        seen["kwargs"] = {key: plain(value) for key, value in kwargs.items()}
        return next(iter(inputs.values()))

    reference.call(entry, inputs, workload)
    return seen


def meta_from(layout: dict[str, dict[str, Any]]) -> dict[str, torch.Tensor]:
    """Tensors on the meta device that lie as `layout` says."""
    storages: dict[int, torch.Tensor] = {}
    made = {}
    for name, one in layout.items():
        dtype = getattr(torch, one["dtype"])
        if one["storage"] not in storages:
            count = one["storage_bytes"] // dtype.itemsize
            storages[one["storage"]] = torch.empty(count, dtype=dtype, device="meta")
        made[name] = storages[one["storage"]].as_strided(one["shape"], one["strides"], one["offset"])
    return made


def laid_out(layout: dict[str, dict[str, Any]], storages: list[torch.Tensor]) -> dict[str, torch.Tensor]:
    """Views of these bytes that lie as `layout` says."""
    made = {}
    for name, one in layout.items():
        flat = storages[one["storage"]].view(getattr(torch, one["dtype"]))
        made[name] = flat.as_strided(one["shape"], one["strides"], one["offset"])
    return made


def call(entry: Callable[..., Any], plan: dict[str, Any], inputs: dict[str, torch.Tensor]) -> Any:
    """Call an entry as the plan says."""

    def real(value: dict[str, Any]) -> Any:
        return inputs[value["input"]] if "input" in value else value["value"]

    return entry(
        *(real(value) for value in plan["args"]),
        **{key: real(value) for key, value in plan["kwargs"].items()},
    )
