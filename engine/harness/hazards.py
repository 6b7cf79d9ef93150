"""What numpy does in one way and a card in another, or in none: found while the interpreter runs a kernel.

    out_of_bounds        an unmasked lane whose address lies in no memory of the launch
    undefined_operation  division by zero, shifts beyond the width, numbers that no integer can hold
    false_hint           multiple_of, max_contiguous and max_constancy that the values belie

What only spoils an answer if it is used is not reported but made up: lanes masked off without `other` hold
NaN in one call and the largest numbers in another, and exponentials below the normal numbers are zero in one
and kept in another. An honest kernel gives the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
import triton.language as tl
import triton.runtime.interpreter as interpreter

TOLD = 4
"""Findings of one kind that a call tells of."""
OUT_OF_BOUNDS = "out_of_bounds"
UNDEFINED = "undefined_operation"
FALSE_HINT = "false_hint"
TINY = np.finfo(np.float32).tiny

_Array = Any
_HINTS = {
    "tt.divisibility": "multiple_of",
    "tt.contiguity": "max_contiguous",
    "tt.constancy": "max_constancy",
}


class Hazards:
    """Watches the interpreter's operations while `active`. `varied`: the other of two made-up values."""

    def __init__(self) -> None:
        self.active = False
        self.varied = False
        self.found: dict[str, list[str]] = {}
        self._ranges: list[tuple[int, int, str]] = []
        """First address, address behind the last, and argument of the memory that a launch was given."""

    def begin(self, *, varied: bool) -> None:
        """A call whose launches are watched, up to `end`."""
        self.active, self.varied, self.found = True, varied, {}

    def end(self) -> dict[str, list[str]]:
        """What was found since `begin`, by probe."""
        self.active = False
        return self.found

    def launching(self, names: Sequence[str], args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Learn the memory of a launch."""
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        self._ranges = [
            (storage.data_ptr(), storage.data_ptr() + storage.nbytes(), name)
            for name, value in given.items()
            for storage in _storages(value)
        ]

    def install(self) -> None:
        builder = interpreter.interpreter_builder
        builder.create_masked_load = self._loads(builder.create_masked_load)
        builder.create_masked_store = self._stores(builder.create_masked_store)
        for name in ("create_exp", "create_exp2"):
            setattr(builder, name, self._exponentials(getattr(builder, name)))
        for name in ("create_idiv", "create_srem", "create_urem"):
            setattr(builder, name, self._checked(getattr(builder, name), _bad_division))
        for name in ("create_shl", "create_lshr", "create_ashr"):
            setattr(builder, name, self._checked(getattr(builder, name), _bad_shift))
        for name in ("create_fp_to_si", "create_fp_to_ui"):
            setattr(builder, name, self._checked(getattr(builder, name), _bad_conversion))
        self._watch_hints()

    # ---- memory -----------------------------------------------------------------------------------

    def _loads(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def load(ptrs: Any, mask: Any, other: Any = None, *rest: Any, **named: Any) -> Any:
            if not self.active:
                return original(ptrs, mask, other, *rest, **named)
            mask = self._inside(ptrs, mask, "reads")
            if other is None and not mask.data.all():
                other = self._made_up(ptrs)
            return original(ptrs, mask, other, *rest, **named)

        return load

    def _stores(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def store(ptrs: Any, value: Any, mask: Any, *rest: Any, **named: Any) -> Any:
            if self.active:
                mask = self._inside(ptrs, mask, "writes")
            return original(ptrs, value, mask, *rest, **named)

        return store

    def _inside(self, ptrs: Any, mask: Any, does: str) -> Any:
        """The mask without the lanes whose addresses lie in no memory of the launch; those are noted."""
        data = ptrs.data
        size = max(1, ptrs.get_element_ty().primitive_bitwidth // 8)
        if not data.size or self._one_range(data, size):
            return mask
        asked = np.broadcast_to(mask.data, data.shape)
        chosen = data[asked]
        if not chosen.size or self._one_range(chosen, size):
            return mask
        inside = np.zeros(data.shape, dtype=bool)
        for begin, end, _ in self._ranges:
            inside |= (data >= begin) & (data + np.uint64(size) <= end)
        bad = asked & ~inside
        if not bad.any():
            return mask
        self._note(OUT_OF_BOUNDS, f"{does} {self._place(int(data[bad].flat[0]))}")
        return interpreter.TensorHandle(asked & inside, tl.int1)

    def _one_range(self, addresses: _Array, size: int) -> bool:
        """Whether all lie in the same memory, as nearly always."""
        low, high = int(addresses.min()), int(addresses.max()) + size
        return any(begin <= low and high <= end for begin, end, _ in self._ranges)

    def _place(self, address: int) -> str:
        """`k at byte 512, of which there are 512`: by the memory that lies nearest."""
        if not self._ranges:
            return "memory without being given any"
        begin, end, name = min(self._ranges, key=lambda one: max(one[0] - address, address - one[1] + 1, 0))
        return f"{name} at byte {address - begin}, of which there are {end - begin}"

    def _made_up(self, ptrs: Any) -> Any:
        """Values for lanes that were masked off and given none: whatever the registers held, on a card."""
        dtype = ptrs.get_element_ty()
        kind = interpreter._get_np_dtype(dtype)
        if kind.kind == "f":
            value: Any = np.finfo(kind).max if self.varied else np.nan
        elif dtype.is_floating():  # kept as its bits: NaN, or a large number
            value = (1 << kind.itemsize * 8 - 1) - 1 - (self.varied << max(kind.itemsize * 8 - 2, 0))
        elif kind.kind == "b":
            value = not self.varied
        else:
            value = int(("2a" if self.varied else "55") * kind.itemsize, 16)
        return interpreter.TensorHandle(np.full(ptrs.data.shape, value, dtype=kind), dtype)

    # ---- operations -------------------------------------------------------------------------------

    def _exponentials(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def exponential(arg: Any) -> Any:
            found = original(arg)
            data = found.data
            if self.active and not self.varied and data.dtype == np.float32:
                found.data = data * (data >= TINY)
            return found

        return exponential

    def _checked(self, original: Callable[..., Any], fault: Callable[..., str]) -> Callable[..., Any]:
        def operation(first: Any, second: Any, *rest: Any) -> Any:
            if self.active and (text := fault(first, second)):
                self._note(UNDEFINED, text)
            return original(first, second, *rest)

        return operation

    def _watch_hints(self) -> None:
        original = interpreter.TensorHandle.set_attr

        def set_attr(handle: Any, key: str, values: Any) -> Any:
            if self.active and key in _HINTS and not hint_holds(key, values, handle):
                self._note(FALSE_HINT, f"{_HINTS[key]} {list(values)} is not true of the values"[:120])
            return original(handle, key, values)

        interpreter.TensorHandle.set_attr = set_attr

    def _note(self, probe: str, text: str) -> None:
        texts = self.found.setdefault(probe, [])
        if len(texts) < TOLD and text not in texts:
            texts.append(text)


def _storages(value: Any) -> Iterator[Any]:
    """The memory behind an argument: of a tensor, a descriptor, a reinterpreted tensor, a tuple of them."""
    if isinstance(value, torch.Tensor):
        yield value.untyped_storage()
    elif isinstance(value, tuple | list):
        for one in value:
            yield from _storages(one)
    elif isinstance(base := getattr(value, "base", None), torch.Tensor):
        yield base.untyped_storage()


def _bad_division(first: Any, second: Any) -> str:
    return "divides an integer by zero" if second.data.dtype.kind in "iu" and not second.data.all() else ""


def _bad_shift(first: Any, second: Any) -> str:
    width = first.dtype.scalar.primitive_bitwidth
    beyond = (second.data < 0) | (second.data >= width)
    return f"shifts {width} bits by {int(second.data[beyond].flat[0])}" if beyond.any() else ""


def _bad_conversion(first: Any, second: Any) -> str:
    """`second` is the type that a floating-point number is converted to."""
    kind = interpreter._get_np_dtype(second)
    if first.data.dtype.kind != "f" or kind.kind not in "iu":
        return ""
    limits = np.iinfo(kind)
    data = np.asarray(first.data, dtype=np.float64)
    fits = (data > float(limits.min) - 1) & (data < float(limits.max) + 1)
    if kind.itemsize == 8:  # where one more or less is the same float64
        fits = (data >= float(limits.min)) & (data < float(limits.max))
    return "" if fits.all() else f"converts {data[~fits].flat[0]:g} to {kind.name}"


def hint_holds(key: str, values: Sequence[Any], handle: Any) -> bool:
    """Whether a hint is true of the values, in groups along each axis as the compiler takes them."""
    data = handle.data
    if data.ndim != len(values) or data.dtype.kind not in "iu":
        return data.ndim != len(values) or data.dtype.kind not in "iu"
    step = 1
    if isinstance(handle.dtype.scalar, tl.pointer_type):
        step = max(1, handle.get_element_ty().primitive_bitwidth // 8)
    for axis, value in enumerate(values):
        rows = np.moveaxis(data, axis, -1).reshape(-1, data.shape[axis])
        if key == "tt.divisibility":
            holds = value <= 1 or not (rows[:, :: _contiguous(rows, step)] % value).any()
        else:
            holds = _grouped(rows, min(int(value), rows.shape[1]), step if key == "tt.contiguity" else 0)
        if not holds:
            return False
    return True


def _grouped(rows: _Array, group: int, step: int) -> bool:
    """Whether in groups of so many, counted from the first, each value is the one before it plus `step`."""
    if group <= 1:
        return True
    steps = rows[:, 1:] == rows[:, :-1] + rows.dtype.type(step)
    ends = np.arange(1, rows.shape[1]) % group == 0
    return bool((steps | ends).all())


def _contiguous(rows: _Array, step: int) -> int:
    """The largest power of two in groups of which values follow each other: their first must be multiples."""
    group = 1
    while group * 2 <= rows.shape[1] and _grouped(rows, group * 2, step):
        group *= 2
    return group
