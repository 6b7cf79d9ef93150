"""Run a grid's CTAs on the card's SMs in launch order.

Each SM holds up to `slots` CTAs that share its pipes: with k resident, each advances at `pace[k-1]` times
the time it needs alone. Large grids are looked at as every g-th CTA on every g-th SM.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

MAX_CTAS = 1_024


def makespan(
    works: Sequence[float], total: int, sms: int, slots: int, pace: Sequence[float]
) -> tuple[float, float]:
    """Time until all CTAs are done and the mean share of it that SMs were busy.

    `works`: time that each sampled CTA needs alone, evenly drawn from the `total` in launch order;
    `pace[k-1]`: factor on it while k CTAs share an SM (`pace[0]` is 1).
    """
    if not works or total <= 0:
        return 0.0, 0.0
    machines = max(1, round(sms * len(works) / total)) if len(works) < total else sms
    stretch = (total / sms) / (len(works) / machines) if len(works) < total else 1.0
    slots = max(1, min(slots, len(pace)))
    left: list[list[float]] = [[] for _ in range(min(machines, len(works)))]
    queue = iter(works)
    count = 0
    for _ in range(slots):  # the first wave goes breadth first
        for resident in left:
            work = next(queue, None)
            if work is None:
                break
            resident.append(work)
            count += 1
    seen = [0.0] * len(left)
    heap: list[tuple[float, int]] = []
    for i, resident in enumerate(left):
        if resident:
            heapq.heappush(heap, (min(resident) * pace[len(resident) - 1], i))
    end = 0.0
    busy = 0.0
    while heap:
        now, i = heapq.heappop(heap)
        resident = left[i]
        done = (now - seen[i]) / pace[len(resident) - 1]
        busy += now - seen[i]
        seen[i] = now
        end = now if now > end else end
        floor = done + 1e-9 * (1.0 + done)
        remaining = [w - done for w in resident if w > floor]
        for _ in range(len(resident) - len(remaining)):
            work = next(queue, None)
            if work is not None:
                remaining.append(work)
        left[i] = remaining
        if remaining:
            heapq.heappush(heap, (now + min(remaining) * pace[len(remaining) - 1], i))
    return end * stretch, busy / (end * machines) if end > 0 else 0.0


def pick(total: int, limit: int = MAX_CTAS) -> list[int]:
    """Launch-order numbers of the CTAs to look at: all, or one of each of as many equal stretches."""
    if total <= limit:
        return list(range(total))
    # One from each of `limit` equal stretches, at a place that no power of two divides: grids are periodic.
    return [int((i + (i * 0.6180339887 + 0.5) % 1.0) * total / limit) for i in range(limit)]
