"""What a child of a zygote does, by name: each role is a module with `run(wire, descriptors) -> exit status`.

capture    a candidate, without interpreter: which kernels it launches, as intermediate code
trial      a candidate in Triton's interpreter: what it answers
lower      the compiler: intermediate code to machine code and its disassembly
analyst    trusted: limits, occupancy and the time model
referee    trusted: inputs, references, comparison
cardtrial    a candidate on the card: what it answers, and timed
cardreferee  trusted: as referee, on the card
cardclock    trusted: inputs and clock of a timed race, and comparison of its answers
cardclean    trusted: roofs, health and baselines of the card
"""

from __future__ import annotations

import importlib

from wire import Wire

ROLES = {
    "compile": ("capture", "lower", "analyst", "referee"),
    "interpret": ("trial",),
    "card": ("cardtrial", "cardreferee", "cardclock", "cardclean"),
}


def warm(kind: str) -> None:
    """Import in a zygote what its children will use, and let the compiler load its libraries."""
    # The first launch of any kernel would import the last of these.
    for name in ("triton", "triton.language", "triton.experimental.gluon"):
        importlib.import_module(name)

    for role in ROLES[kind]:
        module = importlib.import_module(role)
        if hasattr(module, "warm"):
            module.warm()


def run(role: str, wire: Wire, descriptors: list[int]) -> int:
    """Take the specification from the host and play the role."""
    specification = wire.receive()
    wire.trust(specification.pop("nonce"))
    status: int = importlib.import_module(role).run(wire, specification, descriptors)
    return status
