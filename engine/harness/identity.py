"""Are the functions that the harness relies on still the ones that it started with?

A snapshot holds the values of every attribute of the places below, the harness's own modules and classes
among them. Afterwards an attribute that is another object, or a new one, is named. Modules are left out:
torch and triton load theirs when first used.
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
import triton.runtime.interpreter
import triton.runtime.jit
import triton.tools.tensor_descriptor

HARNESS = (
    "candidatefile",
    "capture",
    "census",
    "hazards",
    "identity",
    "launchargs",
    "standins",
    "tensors",
    "trial",
    "wire",
)


def _places() -> dict[str, Any]:
    own = {name: sys.modules[name] for name in HARNESS if name in sys.modules}
    classes = {
        f"{name}.{key}": value
        for name, module in own.items()
        for key, value in vars(module).items()
        if isinstance(value, type) and value.__module__ == name
    }
    return {
        **own,
        **classes,
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
        "torch.cuda.Event": torch.cuda.Event,
        "torch.cuda.Stream": torch.cuda.Stream,
        "torch.nn.functional": torch.nn.functional,
        "triton": triton,
        "triton.runtime.jit": triton.runtime.jit,
        "JITFunction": triton.runtime.jit.JITFunction,
        "InterpretedFunction": triton.runtime.interpreter.InterpretedFunction,
        "InterpreterBuilder": triton.runtime.interpreter.InterpreterBuilder,
        "TensorDescriptor": triton.tools.tensor_descriptor.TensorDescriptor,
    }


_LIVELY = {
    "sys": {"last_exc", "last_type", "last_value", "last_traceback", "_git", "flags"},
    "builtins": {"_", "__build_class__"},
    "torch": {"_GLOBAL_DEVICE_CONTEXT"},
}
"""Attributes that change without anybody's ill will."""
_MAKE_UP = {"__dict__", "__weakref__", "__doc__", "__slotnames__", "__annotations__", "__abstractmethods__"}
"""Attributes of classes that Python itself fills in."""


class Snapshot:
    def __init__(self) -> None:
        self._before = {name: self._attributes(name, place) for name, place in _places().items()}

    @staticmethod
    def _attributes(name: str, place: Any) -> dict[str, Any]:
        lively = _LIVELY.get(name, set()) | _MAKE_UP
        return {
            key: value
            for key, value in list(vars(place).items())
            if key not in lively
            and not isinstance(value, ModuleType)
            and not (key.startswith("__") and isinstance(place, ModuleType))
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
