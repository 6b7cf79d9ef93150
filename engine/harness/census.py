"""What a candidate does beside its kernels: every torch operation of a call, by name.

Torch is for allocation, views, shapes and layout copies. `ALLOWED` lists those by kind; whatever else is
called is the work of a library and not of the candidate's kernels. Fresh memory is filled with NaN, so that
what a kernel does not write cannot look right.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


ALLOCATIONS = _words("empty empty_like empty_strided empty_permuted new_empty new_empty_strided")
_FILLED = _words("""
    zeros zeros_like new_zeros ones ones_like new_ones full full_like new_full zero_ fill_ arange tensor
    scalar_tensor lift_fresh lift_fresh_copy _efficientzerotensor
""")
_VIEWS = _words("""
    view _unsafe_view view_as reshape _reshape_alias transpose t permute expand expand_as slice select narrow
    as_strided unsqueeze squeeze split split_with_sizes chunk unbind unfold diagonal detach alias movedim
    swapaxes unflatten flatten view_dtype _conj is_same_size set_ resize_ transpose_ squeeze_ unsqueeze_
    as_strided_ real imag
""")
_COPIES = _words("""
    clone copy_ contiguous _to_copy to cat stack repeat repeat_interleave constant_pad_nd pad slice_scatter
    select_scatter flip roll
""")
ALLOWED = ALLOCATIONS | _FILLED | _VIEWS | _COPIES
SYNCHRONISING = _words("_local_scalar_dense item equal is_nonzero nonzero")


class Census(TorchDispatchMode):  # type: ignore[misc]
    """Counts operations by name. With `poison`, memory that nobody has filled holds NaN (integers: 0x55…),
    and `kept` learns of all new memory. Without `contents`, memory that does not fit is only made believe,
    and nothing is computed."""

    def __init__(self, *, poison: bool, kept: Kept | None = None, contents: bool = True) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()
        self.poisoned = 0
        self.paused = False
        """While a kernel runs in the interpreter, which is made of torch operations itself."""
        self._poison = poison
        self._contents = contents
        self.kept = Kept() if kept is None else kept

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """False keeps torch from importing its whole compiler (seconds) to keep that compiler out."""
        return False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if self.paused:
            return func(*args, **(kwargs or {}))
        name = func._schema.name.rpartition("::")[2]
        self.counts[name] += 1
        if not self._contents and name not in ALLOWED:
            raise RuntimeError(f"computes aten.{name} on the host's side")
        try:
            result = func(*args, **(kwargs or {}))
        except RuntimeError:
            if self._contents or name not in ALLOCATIONS | _FILLED:
                raise
            result = func(*args, **{**(kwargs or {}), "device": torch.device("meta")})
        if self._poison and isinstance(result, torch.Tensor):
            if name in ALLOCATIONS:
                self.poisoned += 1
                poison(result)
            if name in ALLOCATIONS or name in _FILLED or name in _COPIES:
                self.kept.add(result)
        return result

    def foreign(self) -> list[str]:
        """Operations that are no allocation, view, shape or layout copy."""
        return sorted(name for name in self.counts if name not in ALLOWED and name not in SYNCHRONISING)

    def synchronising(self) -> list[str]:
        """Operations that make the host wait for the device."""
        return sorted(name for name in self.counts if name in SYNCHRONISING)


def poison(tensor: torch.Tensor) -> None:
    """Fill fresh memory with what spoils a result that uses it."""
    if tensor.numel() == 0 or tensor.device.type == "meta":
        return
    if tensor.dtype.is_floating_point or tensor.dtype.is_complex:
        tensor.fill_(float("nan"))
    elif tensor.dtype != torch.bool:
        tensor.fill_(int("55" * min(tensor.dtype.itemsize, 8), 16))


class Kept:
    """Memory that a candidate has allocated and may still hold, without holding it itself."""

    def __init__(self) -> None:
        self._known: dict[int, torch.dtype] = {}

    def add(self, tensor: torch.Tensor) -> None:
        self._known[tensor.untyped_storage()._weak_ref()] = tensor.dtype

    def poison(self, spared: set[int]) -> None:
        """Spoil what is left of it, but what lies at `spared`: an honest kernel does not care."""
        for reference, dtype in list(self._known.items()):
            storage = torch.UntypedStorage._new_with_weak_ptr(reference)
            if storage is None:
                del self._known[reference]
                torch.UntypedStorage._free_weak_ref(reference)
            elif storage.data_ptr() not in spared:
                poison(torch.empty(0, dtype=dtype, device=storage.device).set_(storage))
