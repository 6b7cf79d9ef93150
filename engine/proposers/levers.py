"""What the field knows about the levers of attention kernels: what each does, why, and what it may bring.

Names are those that candidates use in SPACE. A lever that is not in the table is turned all the same, with
plainer words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kernel_lab.engine.candidate import Value


@dataclass(frozen=True, slots=True)
class Lever:
    """`what` continues "Try …", `why` is a sentence, `gain_percent` what it brings where it helps.

    `needs` names a feature that the card must have. `partners` are tunables whose best value it may move.
    `after` are levers that change what this one is worth: once one of them is kept, it is tried again soon.
    """

    what: str
    why: str
    gain_percent: float
    bottleneck: str
    needs: str | None = None
    partners: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


KNOWN: dict[str, Lever] = {
    "EXP2": Lever(
        "exp2 with the softmax scale and log2(e) folded into one multiply",
        "The hardware computes powers of two, so an exp costs a multiply more for every score.",
        4.0,
        "exponentials and fp32 instructions",
    ),
    "SKIP": Lever(
        "stopping at the last block of keys that a row may see",
        "A block that the mask hides as a whole costs as much as any other, and adds nothing.",
        30.0,
        "masked work",
        partners=("BLOCK_M", "BLOCK_N"),
    ),
    "TWO_LOOPS": Lever(
        "a loop of its own, without masks, for the blocks that every row sees whole",
        "Masks cost compares and selects for every score, and only the blocks at the edge need them.",
        8.0,
        "integer and fp32 instructions",
        partners=("BLOCK_M", "BLOCK_N", "num_warps"),
        after=("SKIP",),
    ),
    "PACK_GQA": Lever(
        "one tile of queries for all heads of a group",
        "The heads of a group share their keys, so a packed tile reads them once and fills its rows.",
        20.0,
        "memory traffic",
        partners=("BLOCK_M", "BLOCK_N", "num_warps", "num_stages"),
    ),
    "SPLIT_WAVES": Lever(
        "splitting the keys over more programs and combining their parts by log-sum-exp",
        "Few sequences leave most of the card idle; splits give every SM a share of the cache.",
        60.0,
        "idle SMs",
        partners=("BLOCK_N", "num_warps", "num_stages"),
        after=("PACK_GQA",),
    ),
    "ORDER": Lever(
        "another order of programs",
        "Programs that run side by side share the L2 cache if they read the same keys.",
        3.0,
        "L2 and DRAM traffic",
        after=("PACK_GQA", "SPLIT_WAVES"),
    ),
    "LONGEST_FIRST": Lever(
        "starting the longest programs first",
        "A long program that starts last leaves the rest of the card waiting for it.",
        5.0,
        "the last wave",
        after=("SKIP",),
    ),
    "DESCRIPTORS": Lever(
        "loading keys and values by tensor descriptors",
        "The copy engine computes addresses and bounds, which frees registers and instructions.",
        10.0,
        "load instructions",
        needs="tma",
        partners=("BLOCK_N", "num_warps", "num_stages"),
    ),
    "WARP_SPECIALIZE": Lever(
        "warps that load and warps that compute",
        "Loads, matrix products and the softmax then overlap instead of taking turns.",
        10.0,
        "exposed latency",
        needs="wgmma",
        partners=("BLOCK_N", "num_warps", "num_stages"),
    ),
}

TUNING = Lever(
    "other tiles, warps and stages",
    "The best tile depends on the shape, on registers and on shared memory, and cannot be guessed.",
    5.0,
    "occupancy and latency",
)
TOGETHER = Lever(
    "together what fell just short of the threshold by itself",
    "Small gains add up where they act on different instructions.",
    1.5,
    "several at once",
)
LAUNCH = Lever(
    "every number of warps and stages",
    "With the tile settled, warps and stages trade latency against registers and shared memory.",
    2.0,
    "occupancy and latency",
)


def known(name: str) -> Lever:
    """The entry for a tunable, or plain words for one that the table does not know."""
    return KNOWN.get(name) or Lever(
        f"{name} set otherwise", f"Nobody has tried {name} on this champion yet.", 2.0, "unknown"
    )


def is_switch(values: Sequence[Value]) -> bool:
    """Structural: booleans, words, and numbers that begin with 0 for off. Other numbers are tunables."""
    if len(values) < 2:
        return False
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
    return not numbers or values[0] == 0


def is_tunable(values: Sequence[Value]) -> bool:
    """Numbers with more than one value, none of them an off switch."""
    return len(values) > 1 and not is_switch(values)


def position(values: Sequence[Value], current: Value) -> int:
    """Where a value stands in its list; True is not 1."""
    return next(i for i, value in enumerate(values) if type(value) is type(current) and value == current)


def neighbours(values: Sequence[Value], current: Value) -> list[Value]:
    """The current value and the ones beside it in the list."""
    index = position(values, current)
    return list(values[max(0, index - 1) : index + 2])
