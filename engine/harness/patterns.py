"""Inputs as large as a timed shape's that take next to no memory: few pages of numbers, seen in many places.

A pattern file holds CHUNKS pieces of random half-precision numbers. An input maps pieces of it one behind the
other in an order of its own, privately, so that only what a program reads is ever touched. The candidate's
process and the referee map the same orders of the same file, which is sealed before a candidate runs.
"""

from __future__ import annotations

import ctypes
import mmap
import random
from typing import Any

import tensors
import torch
from kernelcalls import libc

CHUNK_BYTES = 256 << 10
CHUNKS = 32
STORAGES = 4
ROOM_BYTES = 2 << 30
"""The largest set of inputs. Later ones take the place of earlier ones."""

_MAP_FIXED = 0x10
_MAP_NORESERVE = 0x4000
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [
    ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long
]  # fmt: skip


def fill(descriptor: int, seed: int) -> None:
    """Write the pattern: normal numbers."""
    generator = torch.Generator().manual_seed(seed)
    count = CHUNKS * CHUNK_BYTES // 2
    numbers = torch.randn(count, generator=generator).to(torch.float16)
    with mmap.mmap(descriptor, CHUNKS * CHUNK_BYTES) as place:
        place.write(numbers.view(torch.uint8).numpy().tobytes())


def room_for(layout: dict[str, dict[str, Any]]) -> bool:
    """Whether a set of inputs can be mapped."""
    sizes = {one["storage"]: one["storage_bytes"] for one in layout.values()}
    return sum(_whole(size) for size in sizes.values()) <= ROOM_BYTES


def orders(layout: dict[str, dict[str, Any]], rng: random.Random) -> dict[str, list[int]]:
    """Which pieces lie one behind the other, by storage.

    Neighbouring storages share no piece: a query that is one of the keys would attend to that one alone.
    """
    sizes = {one["storage"]: one["storage_bytes"] for one in layout.values()}
    pieces = {n: range(n % STORAGES, CHUNKS, STORAGES) for n in sizes}
    return {
        str(n): [rng.choice(pieces[n]) for _ in range(_whole(size) // CHUNK_BYTES)]
        for n, size in sizes.items()
    }


def _whole(size: int) -> int:
    return -(-max(size, 1) // CHUNK_BYTES) * CHUNK_BYTES


class Arena:
    """Room in this process's address space for one set of inputs at a time."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._base = 0

    def inputs(
        self,
        layout: dict[str, dict[str, Any]],
        order: dict[str, list[int]],
        integers: dict[str, list[int]],
    ) -> dict[str, torch.Tensor]:
        """The tensors of a layout: integer ones hold `integers`, the others pieces of the pattern."""
        if not self._base:
            flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
            self._base = self._map(None, ROOM_BYTES, 0, flags, -1)
        storages, at = [], self._base
        for number, pieces in sorted(order.items(), key=lambda item: int(item[0])):
            names = [name for name, one in layout.items() if one["storage"] == int(number)]
            if known := [name for name in names if name in integers]:
                dtype = getattr(torch, layout[known[0]]["dtype"])
                storages.append(torch.tensor(integers[known[0]], dtype=dtype).view(torch.uint8))
                continue
            for place, piece in enumerate(pieces):
                flags = mmap.MAP_PRIVATE | _MAP_FIXED
                where = at + place * CHUNK_BYTES
                protection = mmap.PROT_READ | mmap.PROT_WRITE
                self._map(where, CHUNK_BYTES, protection, flags, self._descriptor, piece * CHUNK_BYTES)
            size = next(one["storage_bytes"] for one in layout.values() if one["storage"] == int(number))
            buffer = (ctypes.c_char * size).from_address(at)
            storages.append(torch.frombuffer(buffer, dtype=torch.uint8))
            at += len(pieces) * CHUNK_BYTES
        return tensors.laid_out(layout, storages)

    @staticmethod
    def _map(at: int | None, size: int, protection: int, flags: int, descriptor: int, offset: int = 0) -> int:
        found = libc.mmap(at, size, protection, flags, descriptor, offset)
        if found is None or found == ctypes.c_void_p(-1).value:
            raise MemoryError("no room to map inputs")
        return int(found)
