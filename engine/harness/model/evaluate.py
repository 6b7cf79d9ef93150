"""Run a kernel's control or address program for one program id.

Values are Python numbers; None is unknown; a pointer is `("p", argument, bytes)`; a descriptor is
`("d", pointer, shape, strides)`. Integer tensors are followed at one element: the first (`lane` 0) or the
last (`lane` 1), which for the affine tiles that kernels use gives where a tile begins and ends.

What cannot be known is bounded from above and named in `assumed`: a loop whose bound depends on data runs
for as long as the workload's keys could make it run, an `if` on data takes both arms.
"""

from __future__ import annotations

import math
from typing import Any

from .values import BINARY, COMPARE, GROWING, ROUND, SAME, extrapolate

MAX_STEPS = 4096
"""Iterations that a loop is followed for; beyond, the mean of those seen stands for the rest."""
SAMPLED = 24
"""Iterations looked at in a loop whose carried values do not matter."""
MAX_TRIPS = 1e7

Value = Any


class Run:
    """One evaluation of a program. `counts[block]` says how often each block ran."""

    def __init__(
        self,
        program: dict[str, Any],
        blocks: list[dict[str, Any]],
        args: dict[str, Value],
        tables: dict[str, tuple[list[int], int]],
        limits: dict[str, Any],
    ) -> None:
        """`args`: values by argument name; `tables`: known integer tensors (values, item bytes) by argument;
        `limits`: `keys` (longest loop over keys that the workload allows) and `grid`."""
        self.program = program
        self.blocks = blocks
        self.tables = tables
        self.keys = max(1, int(limits["keys"]))
        self.grid = limits["grid"]
        self.args = args
        self.assumed: set[str] = set()
        self.names = [source for _, source in program["params"]]
        self.env: list[Value] = []
        self.pid = (0, 0, 0)
        self.lane = 0
        self.counts: list[float] = []
        self.sites: list[list[Any]] | None = None
        self.still, self.nodes = _split(program["nodes"], {slot for slot, _ in program["params"]})
        self.bases: dict[int, list[Value]] = {}
        self.extent: dict[int, float] = {}
        self.live: dict[int, float] = {}

    def count(self, pid: tuple[int, int, int]) -> list[float]:
        """How often each block runs in the program `pid`."""
        self._start(pid, 0, None)
        return self.counts

    def reach(self, pid: tuple[int, int, int]) -> list[tuple[int, str | None, float, float, float]]:
        """What `pid` reads at each memory site it comes to: (site, argument, first byte, last byte, share of
        its visits that are not masked off). The argument is None where the address is not known."""
        self.live = {}
        first = self._start(pid, 0, [])
        if any(site not in self.extent for site, _ in first):
            last = self._start(pid, 1, [])
            for (site, low), (_, high) in zip(first, last, strict=False):
                if low and high and low[1] == high[1]:
                    self.extent.setdefault(site, max(0.0, high[2] - low[2]))
        out: dict[int, list[Any]] = {}
        for site, pointer in first:
            known = out.setdefault(site, [None, 0.0, 0.0])
            if not pointer:
                continue
            _, argument, at = pointer
            if known[0] != argument:
                out[site] = [argument, at, at]
            else:
                known[1], known[2] = min(known[1], at), max(known[2], at)
        masked = {site for site, pointer in first if pointer is False}
        return [
            (site, a, lo, hi + self.extent.get(site, 0.0), self.live.get(site, float(site not in masked)))
            for site, (a, lo, hi) in out.items()
        ]

    def _start(self, pid: tuple[int, int, int], lane: int, sites: list[list[Any]] | None) -> list[list[Any]]:
        self.pid, self.lane, self.sites = pid, lane, sites
        if lane not in self.bases:
            self.env = [None] * self.program["slots"]
            for slot, source in self.program["params"]:
                self.env[slot] = self.args.get(source)
            self._run(self.still, 1.0)
            self.bases[lane] = self.env
        self.env = list(self.bases[lane])
        self.counts = [0.0] * len(self.blocks)
        if self.counts:
            self.counts[0] = 1.0
        self._run(self.nodes, 1.0)
        return sites or []

    def _run(self, nodes: list[Any], times: float) -> None:
        env = self.env
        for node in nodes:
            code = node[0]
            binary = BINARY.get(code)
            if binary is not None:
                a, b = env[node[2][0]], env[node[2][1]]
                if a.__class__ is int and b.__class__ is int and code not in GROWING:
                    env[node[1]] = binary(a, b)
                else:
                    env[node[1]] = self._value(code, node[2], node[3])
            elif code in SAME:
                env[node[1]] = env[node[2][0]]
            elif code == "for":
                self._for(node, times)
            elif code == "if":
                self._if(node, times)
            elif code == "while":
                self._while(node, times)
            elif code == "site":
                if self.sites is not None:
                    self._site(node)
            else:
                env[node[1]] = self._value(code, node[2], node[3])

    def _value(self, code: str, ins: list[int], attr: Any) -> Value:
        env = self.env
        binary = BINARY.get(code)
        if binary is not None:
            a, b = env[ins[0]], env[ins[1]]
            if a is None or b is None or isinstance(a, tuple) or isinstance(b, tuple):
                return self._half_known(code, a, b)
            value = binary(a, b)
            return value if value is None or abs(value) < 2**60 else None
        if code in SAME:
            return env[ins[0]]
        if code == "arith.constant":
            return attr
        if code in ("arith.cmpi", "arith.cmpf"):
            a, b = env[ins[0]], env[ins[1]]
            test = COMPARE.get(str(attr).lstrip("suo") or "eq")
            if a is None or b is None or test is None or isinstance(a, tuple) or isinstance(b, tuple):
                return None
            return int(test(a, b))
        return self._other(code, ins, attr)

    @staticmethod
    def _half_known(code: str, a: Value, b: Value) -> Value:
        """`x and 0`, `x or 1` and `x * 0` are known although x is not."""
        for known in (a, b):
            if isinstance(known, int):
                if known == 0 and code in ("arith.andi", "arith.muli"):
                    return 0
                if known == 1 and code == "arith.ori":
                    return 1
        return None

    def _other(self, code: str, ins: list[int], attr: Any) -> Value:
        env = self.env
        if code == "arith.select":
            condition = env[ins[0]]
            return None if condition is None else env[ins[1] if condition else ins[2]]
        if code == "tt.addptr":
            pointer, offset = env[ins[0]], env[ins[1]]
            if not isinstance(pointer, tuple) or pointer[0] != "p" or not isinstance(offset, (int, float)):
                return None
            return ("p", pointer[1], pointer[2] + offset * attr)
        if code == "tt.get_program_id":
            return self.pid[attr]
        if code == "tt.get_num_programs":
            return self.grid[attr]
        if code == "tt.make_range":
            return (attr[0] if not self.lane else attr[1] - 1) if attr and len(attr) == 2 else None
        if code == "tt.load":
            return self._load(env[ins[0]])
        if code == "tt.make_tensor_descriptor":
            half = (len(ins) - 1) // 2
            return ("d", env[ins[0]], tuple(env[i] for i in ins[1 + half :]), attr)
        if code in ("arith.fptosi", "arith.fptoui", "math.ceil", "math.floor", "math.absi"):
            value = env[ins[0]]
            if not isinstance(value, (int, float)) or not math.isfinite(value):
                return None
            return ROUND.get(code, int)(value)
        return None

    def _load(self, pointer: Value) -> Value:
        if not isinstance(pointer, tuple) or pointer[0] != "p":
            return None
        table = self.tables.get(pointer[1])
        if table is None:
            return None
        values, size = table
        at = int(pointer[2] // max(size, 1))
        return values[at] if 0 <= at < len(values) else 0

    def _site(self, node: list[Any]) -> None:
        env, ins = self.env, node[2]
        pointer = env[ins[0]]
        code_is_pointer = not (isinstance(pointer, tuple) and pointer[0] == "d")
        if not code_is_pointer:
            coordinates = [env[i] for i in ins[1:]]
            base, strides, size = pointer[1], pointer[2], pointer[3]
            known = all(isinstance(v, (int, float)) for v in (*coordinates, *strides))
            if isinstance(base, tuple) and known:
                offset = sum(c * s for c, s in zip(coordinates, strides, strict=False))
                pointer = ("p", base[1], base[2] + offset * size)
            else:
                pointer = None
        known = isinstance(pointer, tuple) and pointer[0] == "p"
        masked = code_is_pointer and len(ins) > 1 and env[ins[1]] == 0
        if self.sites is not None:
            self.sites.append([node[1], False if masked else pointer if known else None])

    def _for(self, node: list[Any], times: float) -> None:
        _, block, bounds, iv, init, step, out, body, varies = node
        env = self.env
        lower, upper, stride = (env[s] for s in bounds)
        known = all(isinstance(v, (int, float)) for v in (lower, upper, stride)) and stride > 0
        if known:
            trips = float(max(0, math.ceil((upper - lower) / stride)))
        else:
            trips = self._worst(block)
            lower, stride = lower if isinstance(lower, int) else 0, stride if isinstance(stride, int) else 1
        trips = min(trips, MAX_TRIPS)
        self.counts[block] += trips * times
        for target, source in init:
            env[target] = env[source]
        if trips > 0 and (body or step):
            if not varies or self.sites is not None:
                self._closed(body, step, iv, lower, stride, trips, times)
            else:
                self._followed(body, step, iv, lower, stride, trips, times)
        for target, source in out:
            env[target] = env[source]

    def _closed(
        self, body: list[Any], step: list[Any], iv: int, lower: int, stride: int, trips: float, times: float
    ) -> None:
        """One pass stands for all; carried numbers and pointers are taken to move evenly."""
        env = self.env
        env[iv] = lower
        before = [env[target] for target, _ in step]
        self._run(body, times * trips)
        after = [env[source] for _, source in step]
        ends = [extrapolate(a, b, trips) for a, b in zip(before, after, strict=True)]
        if self.sites is not None and trips > 1:
            place = (body, step, iv, lower, stride, before, after)
            ended = {site for site, pointer in self._at(trips - 1, *place) if pointer is False}
            if ended:
                self._find_mask_end(ended, trips, place)
        for (target, _), end in zip(step, ends, strict=True):
            env[target] = end

    def _at(
        self,
        turn: float,
        body: list[Any],
        step: list[Any],
        iv: int,
        lower: int,
        stride: int,
        before: list[Value],
        after: list[Value],
    ) -> list[list[Any]]:
        """Run the loop's body as in iteration `turn`; returns what it read."""
        assert self.sites is not None  # noqa: S101 (only reached while sites are recorded)
        seen = len(self.sites)
        self.env[iv] = lower + int(turn) * stride
        for (target, _), a, b in zip(step, before, after, strict=True):
            self.env[target] = extrapolate(a, b, turn)
        self._run(body, 0.0)
        return self.sites[seen:]

    def _find_mask_end(self, ended: set[int], trips: float, place: tuple[Any, ...]) -> None:
        """A loop runs on behind its data with its loads masked off: find how far they are not."""
        sites = self.sites or []
        low, high = 0.0, trips - 1
        for _ in range(6):
            if high - low <= 1:
                break
            middle = (low + high) // 2
            if any(pointer is False for _, pointer in self._at(middle, *place)):
                high = middle
            else:
                low = middle
        for site in ended:
            first = next((pointer for s, pointer in sites if s == site), None)
            self.live[site] = 0.0 if first is False else (low + 1) / trips

    def _followed(
        self, body: list[Any], step: list[Any], iv: int, lower: int, stride: int, trips: float, times: float
    ) -> None:
        """Control inside depends on where the loop stands: look at the iterations one by one."""
        env = self.env
        count = int(trips)
        limit = MAX_STEPS if step else SAMPLED
        if count <= limit:
            chosen, each = list(range(count)), 1.0
        elif step:
            chosen, each = list(range(limit)), trips / limit
            self.assumed.add("a very long loop counts as its first iterations do")
        else:
            head = SAMPLED // 3
            chosen = [*range(head), *(count - 1 - i for i in range(head))]
            inner = count - 2 * head
            for i in chosen:
                env[iv] = lower + i * stride
                self._run(body, times)
            chosen = [head + (2 * i + 1) * inner // (2 * head) for i in range(head)]
            each = inner / head
        for i in chosen:
            env[iv] = lower + i * stride
            self._run(body, times * each)
            moved = [env[source] for _, source in step]
            for (target, _), value in zip(step, moved, strict=True):
                env[target] = value

    def _if(self, node: list[Any], times: float) -> None:
        _, block, condition, then, other, yes, no = node
        env = self.env
        value = env[condition[0]] if condition else None
        if isinstance(value, (int, float)):
            arm, target, pairs = (then, block, yes) if value else (other, block + 1, no)
            self.counts[target] += times
            self._run(arm, times)
            for result, source in pairs:
                env[result] = env[source]
            return
        self.assumed.add("an if on data takes both arms")
        self.counts[block] += times
        self.counts[block + 1] += times
        self._run(then, times)
        for result, source in yes:
            env[result] = env[source]
        first = {result: env[result] for result, _ in yes}
        self._run(other, times)
        for result, source in no:
            env[result] = env[source] if env[source] == first.get(result) else None

    def _while(self, node: list[Any], times: float) -> None:
        _, block, init, test, condition, forward, body, step, out = node
        env = self.env
        for target, source in init:
            env[target] = env[source]
        limit = 2 if self.sites is not None else MAX_STEPS
        done = 0
        while True:
            self._run(test, times)
            value = env[condition[0]] if condition else None
            if not isinstance(value, (int, float)):
                self.counts[block] += max(0.0, self._worst(block) - done) * times
                self._run(body, times)
                break
            if not value:
                break
            done += 1
            self.counts[block] += times
            if done > limit:
                if self.sites is None:
                    self.assumed.add("a while loop that goes on for ever counts as its longest")
                    self.counts[block] += max(0.0, self._worst(block) - done) * times
                break
            for target, source in forward:
                env[target] = env[source]
            self._run(body, times)
            moved = [env[source] for _, source in step]
            for (target, _), value in zip(step, moved, strict=True):
                env[target] = value
        for target, source in out:
            env[target] = env[source]

    def _worst(self, block: int) -> float:
        """Trips of a loop with an unknown end: all keys of the workload, one tile at a time."""
        tile = self.blocks[block]["tile"] or min((min(d[:3]) for d in self.blocks[block]["dots"]), default=1)
        self.assumed.add("a loop with a bound that depends on data runs over all keys")
        return float(max(1, math.ceil(self.keys / max(1, tile))))


def _split(nodes: list[Any], known: set[int]) -> tuple[list[Any], list[Any]]:
    """Operations that are the same for all programs, and the rest."""
    still: list[Any] = []
    rest: list[Any] = []
    for node in nodes:
        plain = node[0] not in ("for", "while", "if", "site", "tt.get_program_id", "?")
        if plain and all(slot in known for slot in node[2]):
            known.add(node[1])
            still.append(node)
        else:
            rest.append(node)
    return still, rest
