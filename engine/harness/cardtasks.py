"""A task's baselines as calls on the card. Only trusted processes load them."""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

KERNEL_NAMES = {"fa2": "flash_fwd", "cudnn": "cudnn"}
"""What must stand in the name of the kernel that does a baseline's work."""


def load_baselines(task_dir: str) -> ModuleType | None:
    path = Path(task_dir) / "baselines.py"
    spec = importlib.util.spec_from_file_location(f"baselines_of_{Path(task_dir).name}", path)
    if not path.is_file() or spec is None or spec.loader is None:
        return None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Baseline:
    """One baseline of a task, by name."""

    def __init__(self, task_dir: str, name: str) -> None:
        self.name = name
        self._module = load_baselines(task_dir)
        self.missing: str | None = "the task has no baselines.py"
        if self._module is not None:
            self.missing = self._module.available().get(name, "the task knows no such baseline")

    def make(
        self, inputs: dict[str, torch.Tensor], workload: dict[str, Any]
    ) -> Callable[[], torch.Tensor] | None:
        """The call without arguments on these inputs, or None where the baseline has none."""
        if self.missing is not None or self._module is None:
            return None
        call: Callable[[], torch.Tensor] | None = self._module.make(self.name, workload, inputs)
        return call

    def answer(self, inputs: dict[str, torch.Tensor], workload: dict[str, Any]) -> torch.Tensor | None:
        """What the baseline answers, or None where it has no call or refuses."""
        with contextlib.suppress(RuntimeError):
            call = self.make(inputs, workload)
            if call is not None:
                return call()
        return None

    def is_named(self, kernels: list[str]) -> bool:
        """Whether the kernels that ran are the baseline's."""
        word = KERNEL_NAMES.get(self.name, self.name)
        return any(word in kernel for kernel in kernels)
