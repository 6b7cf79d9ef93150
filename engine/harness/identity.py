"""Are the functions that the harness relies on still the ones that it started with?

A snapshot holds the values of every attribute of the places below. Afterwards an attribute that is another
object, or a new one, is named. Modules are left out: torch and triton load theirs when first used.
"""

from __future__ import annotations

import builtins
import json
import math
import os
import socket
import sys
import time
from types import ModuleType
from typing import Any

import torch
import torch.nn.functional
import triton
import triton.runtime.jit
import triton.tools.tensor_descriptor


def _places() -> dict[str, Any]:
    return {
        "builtins": builtins,
        "math": math,
        "time": time,
        "os": os,
        "json": json,
        "socket.socket": socket.socket,
        "sys": sys,
        "torch": torch,
        "torch.Tensor": torch.Tensor,
        "torch.cuda": torch.cuda,
        "torch.nn.functional": torch.nn.functional,
        "triton": triton,
        "triton.runtime.jit": triton.runtime.jit,
        "JITFunction": triton.runtime.jit.JITFunction,
        "TensorDescriptor": triton.tools.tensor_descriptor.TensorDescriptor,
    }


_LIVELY = {
    "sys": {"last_exc", "last_type", "last_value", "last_traceback", "_git", "flags"},
    "builtins": {"_", "__build_class__"},
    "torch": {"_GLOBAL_DEVICE_CONTEXT"},
}
"""Attributes that change without anybody's ill will."""


class Snapshot:
    def __init__(self) -> None:
        self._before = {name: self._attributes(name, place) for name, place in _places().items()}

    @staticmethod
    def _attributes(name: str, place: Any) -> dict[str, Any]:
        lively = _LIVELY.get(name, set())
        return {
            key: value
            for key, value in list(vars(place).items())
            if key not in lively and not isinstance(value, ModuleType) and not key.startswith("__")
        }

    def changed(self) -> list[str]:
        """Names of attributes that were replaced, added or removed since the snapshot."""
        found = []
        for name, place in _places().items():
            before, now = self._before[name], self._attributes(name, place)
            found += [f"{name}.{key}" for key, value in now.items() if before.get(key, _ABSENT) is not value]
            found += [f"{name}.{key}" for key in before if key not in now]
        return found


_ABSENT = object()
