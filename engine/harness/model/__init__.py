"""The static time model: from compiled code to an estimated time, with no GPU at hand.

`estimate(launches, target, workload)` is all that a caller needs; `parse` and `estimate_summary` split it
into a slow part that depends on the kernel alone and a fast part. Standard library only. docs/static_model.md
explains what is modelled, what is not, and how well it agrees with measured kernels.
"""

from .arguments import roofs_us
from .predict import estimate, estimate_launch, estimate_summary, join
from .summary import occupancy, parse

__all__ = ["estimate", "estimate_launch", "estimate_summary", "join", "occupancy", "parse", "roofs_us"]
