"""Triton's interpreter as checks need it: the same answers in a fraction of the time.

Products of half-precision tiles go to torch's float32 product instead of numpy's loop, the language is
patched once a launch instead of at every call of a device function, and arguments that lie on the host anyway
are not copied back onto themselves. What this Triton does not have is left as it is.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import triton
import triton.runtime.interpreter as interpreter
from triton.runtime.interpreter import GridExecutor, InterpretedFunction, InterpreterError

_patched: set[int] = set()
"""Globals whose language is patched in the launch at work."""


def warm() -> None:
    """Before any fork: change what is slow. No torch operation runs here."""
    _index_one_element()
    _multiply_by_torch()
    if hasattr(GridExecutor, "_restore_args_dev"):
        GridExecutor._restore_args_dev = lambda *arguments: None
    _patch_once_a_launch()


def _index_one_element() -> None:
    """Triton before 3.9 makes an index of a one-element array in a way that numpy 2.4 refuses."""
    patch = interpreter._patch_lang_tensor

    def patch_with_index(tensor: Any, scope: Any) -> None:
        patch(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.item()))

    if tuple(int(part) for part in triton.__version__.split(".")[:2]) < (3, 9):
        interpreter._patch_lang_tensor = patch_with_index


def _multiply_by_torch() -> None:
    builder = interpreter.interpreter_builder
    create_dot = builder.create_dot

    def dot(a: Any, b: Any, d: Any, *rest: Any) -> Any:
        halves = a.data.dtype == b.data.dtype == np.float16 and d.data.dtype == np.float32
        if not halves or a.data.ndim != 2:
            return create_dot(a, b, d, *rest)
        x, y = (torch.from_numpy(np.ascontiguousarray(side.data, dtype=np.float32)) for side in (a, b))
        return interpreter.TensorHandle((x @ y).numpy() + d.data, d.dtype.scalar)

    builder.create_dot = dot


def _patch_once_a_launch() -> None:
    begin = GridExecutor.__call__

    def launched(self: Any, *args: Any, **kwargs: Any) -> Any:
        _patched.clear()
        _patched.add(id(self.fn.__globals__))
        return begin(self, *args, **kwargs)

    def called(self: Any, *args: Any, **kwargs: Any) -> Any:
        """A device function. `_patch_lang` is looked up where the kernel stands."""
        if id(self.fn.__globals__) not in _patched:
            interpreter._patch_lang(self.fn)
            _patched.add(id(self.fn.__globals__))
        function = self.rewrite()
        try:
            return function(*args, **kwargs)
        except Exception as failure:
            raise InterpreterError(repr(failure)) from failure

    GridExecutor.__call__ = launched
    InterpretedFunction.__call__ = called
