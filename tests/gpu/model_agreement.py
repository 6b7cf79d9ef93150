"""How well do the estimates of the static device agree with what an H200 measured? No GPU is needed.

    python tests/gpu/model_agreement.py                      # both tasks and the naive table
    python tests/gpu/model_agreement.py --only naive

It screens the measured configurations for the profile `h200` as a lab would, and compares the estimates with
the times in tests/data/model. What is compiled is kept by content under --cache: the first run takes many
minutes, a stopped one goes on where it was, a repeat takes seconds.

Configurations at even places of a file are the half that constants of the model may be fitted to; figures
are given for the others, which are held out. Which ones the present constants saw was not recorded.
"""

import argparse
import asyncio
import json
import math
import platform
import sys
import tempfile
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / ".pkg"))

sys.path.insert(0, str(Path(__file__).resolve().parent))

from kernel_lab.engine import candidate, paths, profiles, tasks  # noqa: E402 (the path comes first)
from kernel_lab.engine.hostlink import HostLink  # noqa: E402
from kernel_lab.engine.judge.static import StaticDevice  # noqa: E402
from measure_space import HEADS, WORKLOADS  # noqa: E402

DATA = ROOT / "tests" / "data" / "model"
GPU = "h200"
PARTS = ("naive", "gqa_prefill", "gqa_decode")
AT_ONCE = 2


@dataclass(frozen=True)
class NaiveRow:
    """The best of the plain tilings on one workload: by the clock, and by the model."""

    workload: str
    measured_us: float
    estimated_us: float
    chosen_us: float
    """What the clock says of the tiling that the model holds for the best."""

    @property
    def ratio(self):
        return self.estimated_us / self.measured_us


@dataclass(frozen=True)
class SpaceRow:
    """Agreement on one workload over the held-out configurations."""

    workload: str
    configs: int
    spearman: float
    top_quartile: float
    """Spearman among the quarter that the clock finds fastest."""
    regret: float
    """How much slower the model's choice is than the best, by the clock: 0.1 is 10 %."""
    ratio: float
    """Median of estimate / measured."""


def ranks(values):
    """Places in ascending order from 0, equal values share the mean of theirs."""
    order = sorted(range(len(values)), key=values.__getitem__)
    found = [0.0] * len(values)
    at = 0
    while at < len(order):
        end = at
        while end + 1 < len(order) and values[order[end + 1]] == values[order[at]]:
            end += 1
        for place in order[at : end + 1]:
            found[place] = (at + end) / 2
        at = end + 1
    return found


def spearman(a, b):
    """Rank correlation; NaN for fewer than three pairs or a constant side."""
    if len(a) < 3:
        return math.nan
    x, y = ranks(a), ranks(b)
    middle = (len(a) - 1) / 2
    both = sum((p - middle) * (q - middle) for p, q in zip(x, y, strict=True))
    spread = math.sqrt(sum((p - middle) ** 2 for p in x) * sum((q - middle) ** 2 for q in y))
    return both / spread if spread else math.nan


def median(values):
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def space_row(workload, measured, estimated):
    """`measured` and `estimated`: times of the same configurations."""
    quarter = sorted(range(len(measured)), key=measured.__getitem__)[: max(3, len(measured) // 4)]
    chosen = min(range(len(estimated)), key=estimated.__getitem__)
    return SpaceRow(
        workload=workload,
        configs=len(measured),
        spearman=spearman(measured, estimated),
        top_quartile=spearman([measured[i] for i in quarter], [estimated[i] for i in quarter]),
        regret=measured[chosen] / min(measured) - 1,
        ratio=median([e / m for e, m in zip(estimated, measured, strict=True)]),
    )


def naive_row(workload, measured, estimated):
    chosen = min(range(len(estimated)), key=estimated.__getitem__)
    return NaiveRow(workload, min(measured), estimated[chosen], measured[chosen])


def load(part):
    return json.loads((DATA / f"h200-{part}.json").read_text(encoding="utf-8"))


def label(config):
    return json.dumps(config, sort_keys=True)


class Estimator:
    """Screens configurations of the seeds through one host."""

    def __init__(self, host):
        self.device = StaticDevice(host, profiles.load_gpu(GPU))
        self.free = asyncio.Semaphore(AT_ONCE)

    async def times(self, task_name, config, workloads):
        """Estimated time by workload; empty where the configuration does not fit the card."""
        task = tasks.load_task(task_name)
        seed = candidate.parse(task.seed_source, task.entry)
        source = candidate.with_config(seed, {"*": config})
        async with self.free:
            screening = await self.device.screen(task, source, workloads)
        if screening.outcome not in ("ok", "oom"):
            raise SystemExit(f"{label(config)}: {screening.outcome}: {screening.detail}")
        return screening.time_us

    async def all(self, task_name, configs, workloads):
        """Times by label of the configuration, with a line on the error stream as they come."""
        done = 0

        async def one(config):
            nonlocal done
            found = await self.times(task_name, config, workloads)
            done += 1
            if not done % 20:
                print(f"{task_name}: {done} of {len(configs)}", file=sys.stderr)
            return label(config), found

        return dict(await asyncio.gather(*(one(config) for config in configs)))


def complete(task, workload):
    """A workload of the measurements as the host takes it."""
    full = {**HEADS, "task": task, "causal": True, "seq_lens": None, "bucket": "*", "weight": 1.0, **workload}
    if task == "gqa_decode" and full["seq_lens"] is None:
        full["seq_lens"] = [full["Sk"]] * full["B"]
    return full


async def naive(estimator, chosen=lambda config: True):
    """Agreement on the naive table: for each workload, the best of the `chosen` tilings on each side."""
    rows = load("naive")["rows"]
    for row in rows:
        row["naive"] = [n for n in row["naive"] if "time_us" in n and chosen(n["config"])]
    workloads = [complete("gqa_prefill", row["workload"]) for row in rows]
    configs = {label(n["config"]): n["config"] for row in rows for n in row["naive"]}
    found = await estimator.all("gqa_prefill", list(configs.values()), workloads)
    out = []
    for row in rows:
        name = row["workload"]["id"]
        measured = {label(n["config"]): n["time_us"] for n in row["naive"]}
        both = [key for key in measured if name in found[key]]
        out.append(naive_row(name, [measured[k] for k in both], [found[k][name] for k in both]))
    return out


async def space(estimator, task, half=1):
    """Agreement on the configurations of one half: 1 the held-out one, 0 the one for fitting."""
    workloads = [complete(task, w) for w in WORKLOADS[task]]
    rows = [row for row in load(task)["rows"][half::2] if "median_us" in row and not row["wrong"]]
    found = await estimator.all(task, [row["config"] for row in rows], workloads)
    out = []
    for workload in workloads:
        name = workload["id"]
        pairs = [
            (row["median_us"][name], found[label(row["config"])][name])
            for row in rows
            if name in found[label(row["config"])]
        ]
        out.append(space_row(name, [m for m, _ in pairs], [e for _, e in pairs]))
    return out


def print_naive(rows):
    print("\nnaive table: best of five plain tilings with and without EXP2, 32 query and 8 KV heads")
    print(f"{'workload':24} {'measured us':>12} {'estimated us':>13} {'ratio':>6} {'regret':>7}")
    for row in rows:
        regret = row.chosen_us / row.measured_us - 1
        times = f"{row.measured_us:12.1f} {row.estimated_us:13.1f}"
        print(f"{row.workload:24} {times} {row.ratio:6.2f} {regret:7.1%}")
    off = max(abs(row.ratio - 1) for row in rows)
    print(f"furthest off: {off:.1%}")


def print_space(task, rows):
    print(f"\n{task}: held-out configurations")
    print(f"{'workload':24} {'configs':>8} {'spearman':>9} {'top 25 %':>9} {'regret':>7} {'ratio':>6}")
    for row in rows:
        print(
            f"{row.workload:24} {row.configs:8} {row.spearman:9.3f} {row.top_quartile:9.3f} "
            f"{row.regret:7.1%} {row.ratio:6.2f}"
        )


async def agreement(only, cache):
    with tempfile.TemporaryDirectory(prefix="kernel-lab-") as scratch:
        host = HostLink(sys.executable, cache, Path(scratch))
        try:
            estimator = Estimator(host)
            for part in only:
                if part == "naive":
                    print_naive(await naive(estimator))
                else:
                    print_space(part, await space(estimator, part))
        finally:
            await host.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=PARTS, action="append", help="one part (may be given again)")
    parser.add_argument("--cache", type=Path, default=paths.cache_dir() / "host", help="results by content")
    arguments = parser.parse_args()
    measured = load("naive")["environment"]
    print(f"measured with triton {measured['triton']}, torch {measured['torch']} on one {measured['gpu']};")
    print(
        f"estimated for profile {GPU} with triton {version('triton')}, torch {version('torch')}, "
        f"{platform.machine()}"
    )
    asyncio.run(agreement(arguments.only or PARTS, arguments.cache))


if __name__ == "__main__":
    main()
