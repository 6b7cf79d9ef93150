"""The contents of a timed race: new ones for every block, at no cost of transfers, equal in all processes.

All processes of a race stage the same inputs once. Before each block each process flips the signs of its own
copies by the same random bits: independent normal values stay just that, and no element of the answer stays
what it was. In inputs with a structure (peaked, growing scores) the signs of q and k are flipped together, by
head dimension, which leaves every score as it is; the values' signs are still drawn one by one.

What is right after a flip is computed for one random slice: the query heads of one KV head of one sequence.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import torch
from carddevice import storages_of

FLIP_AT_ONCE = 1 << 24
SIGN_BITS = 0x8000800080008000 - (1 << 64)


def is_structured(workload: dict[str, Any]) -> bool:
    return str(workload.get("distribution", "normal")) != "normal"


def flip(inputs: dict[str, torch.Tensor], seed: int, structured: bool) -> None:
    """Flip signs in place. The same seed, card and torch give the same signs."""
    generator = torch.Generator(device="cuda").manual_seed(seed)
    floats = {name: inputs[name] for name in sorted(inputs) if inputs[name].dtype.is_floating_point}
    if not structured:
        for storage in storages_of(floats):
            _flip_each(storage, generator)
        return
    columns = None
    for name, x in floats.items():
        if name.startswith("v"):
            for part in x.unbind(0):
                signs = torch.randint(0, 2, part.shape, dtype=torch.int16, device="cuda", generator=generator)
                part.view(torch.int16).bitwise_xor_(signs.mul_(-32768))
            continue
        if columns is None:
            drawn = torch.randint(0, 2, (x.shape[-1],), device="cuda", generator=generator)
            columns = (drawn * 2 - 1).to(x.dtype)
        x.mul_(columns)


def _flip_each(storage: torch.Tensor, generator: torch.Generator) -> None:
    """Flip the sign of each 16-bit number of raw bytes or leave it, four numbers to a random word."""
    words = storage[: storage.numel() // 8 * 8].view(torch.int64)
    for start in range(0, words.numel(), FLIP_AT_ONCE):
        part = words[start : start + FLIP_AT_ONCE]
        bits = torch.empty_like(part).random_(generator=generator)
        # random_ leaves the top bit of a word alone: all are taken from the bit below.
        part.bitwise_xor_(bits.bitwise_left_shift_(1).bitwise_and_(SIGN_BITS))


@dataclass(frozen=True)
class Slice:
    """The query heads of one KV head of one sequence, as a workload of its own."""

    batch: int
    heads: tuple[int, int]
    inputs: dict[str, torch.Tensor]
    workload: dict[str, Any]

    @property
    def where(self) -> list[int]:
        return [self.batch, *self.heads]


def random_slice(inputs: dict[str, torch.Tensor], workload: dict[str, Any], rng: random.Random) -> Slice:
    batch, kv_head = rng.randrange(workload["B"]), rng.randrange(workload["Hkv"])
    group = workload["Hq"] // workload["Hkv"]
    heads = (kv_head * group, (kv_head + 1) * group)
    part = {}
    for name, x in inputs.items():
        if x.dim() < 4:
            part[name] = x[batch : batch + 1]
        elif name == "q":
            part[name] = x[batch : batch + 1, heads[0] : heads[1]]
        else:
            part[name] = x[batch : batch + 1, kv_head : kv_head + 1]
    lengths = workload.get("seq_lens")
    lengths = None if lengths is None else [lengths[batch]]
    return Slice(batch, heads, part, {**workload, "B": 1, "Hq": group, "Hkv": 1, "seq_lens": lengths})


def exact_dtype() -> torch.dtype:
    """float64 where the card computes it at a useful rate, else float32."""
    return torch.float64 if torch.cuda.get_device_capability() in ((8, 0), (9, 0), (10, 0)) else torch.float32
