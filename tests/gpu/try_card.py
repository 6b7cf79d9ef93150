"""Try the host's jobs on the GPU of this machine and print what came of each; raw answers go to --out.

    python tests/gpu/try_card.py --out results.json [--only card,roofs,check,time,aa,bad] [--rounds 15]

Needs torch and triton alone. Candidates are the seed kernels, the seeds with a better configuration, and a
few that misbehave.
"""

import argparse
import asyncio
import json
import math
import statistics
import sys
import tempfile
import time
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / ".pkg"))

from kernel_lab.engine.hostlink import HostLink  # noqa: E402 (the path comes first)

KERNELS = ROOT / "kernels"
ENTRIES = {"gqa_prefill": "attention", "gqa_decode": "decode"}
HEADS = {"Hq": 32, "Hkv": 8, "D": 128, "dtype": "bf16", "causal": True}
BETTER = {
    "gqa_prefill": {
        "BLOCK_M": 128, "BLOCK_N": 64, "num_warps": 8, "num_stages": 3, "EXP2": True, "SKIP": True,
        "TWO_LOOPS": True, "LONGEST_FIRST": True,
    },
    "gqa_decode": {
        "BLOCK_N": 64, "num_warps": 4, "num_stages": 3, "EXP2": True, "SKIP": True, "TWO_LOOPS": True,
        "PACK_GQA": True, "SPLIT_WAVES": 2,
    },
}  # fmt: skip
RACES = {
    "gqa_prefill": ("prefill-causal-s512", "prefill-causal-s2k"),
    "gqa_decode": ("decode-b1-s8k", "decode-b32-s2k"),
}
DEADLINES = {"load": 20, "compile": 60, "warm": 8, "case": 5, "block": 5}

BAD = {
    "endless loop": ("""
@triton.jit
def spin_kernel(flag_ptr):
    value = tl.load(flag_ptr)
    while value == 0:
        value = tl.load(flag_ptr, volatile=True)

def decode(q, k_cache, v_cache, seq_lens, *, scale):
    flag = torch.zeros(1, dtype=torch.int32, device=q.device)
    spin_kernel[(1,)](flag)
    return honest(q, k_cache, v_cache, seq_lens, scale=scale)
""", "timeout", ""),
    "illegal address": ("""
@triton.jit
def wild_kernel(out_ptr):
    tl.store(out_ptr + tl.cast(tl.program_id(0) + 1, tl.int64) * 281474976710, 1.0)

def decode(q, k_cache, v_cache, seq_lens, *, scale):
    out = torch.empty(16, dtype=torch.float32, device=q.device)
    wild_kernel[(64,)](out)
    return honest(q, k_cache, v_cache, seq_lens, scale=scale)
""", "crash", ""),
    "200 GB": ("""
def decode(q, k_cache, v_cache, seq_lens, *, scale):
    scratch = torch.empty(200 << 30, dtype=torch.uint8, device=q.device)
    return honest(q, k_cache, v_cache, seq_lens, scale=scale)
""", "oom", ""),
    "exit(0)": ("""
import sys

def decode(q, k_cache, v_cache, seq_lens, *, scale):
    sys.exit(0)
""", "crash", ""),
    "segfault": ("""
import ctypes

def decode(q, k_cache, v_cache, seq_lens, *, scale):
    ctypes.string_at(8)
""", "crash", ""),
    "side stream": ("""
SIDE = []

def decode(q, k_cache, v_cache, seq_lens, *, scale):
    if not SIDE:
        SIDE.append(torch.cuda.Stream())
    with torch.cuda.stream(SIDE[0]):
        for _ in range(40):
            out = honest(q, k_cache, v_cache, seq_lens, scale=scale)
    return out
""", "", "streams graph_capture compare"),
    "cached by address": ("""
SEEN = {}

def decode(q, k_cache, v_cache, seq_lens, *, scale):
    key = (q.data_ptr(), k_cache.data_ptr(), q.shape)
    if key not in SEEN:
        SEEN[key] = honest(q, k_cache, v_cache, seq_lens, scale=scale)
    return SEEN[key].clone()
""", "cheat", "new_contents launch_census"),
    "stale in graphs": ("""
LAST = {}

def decode(q, k_cache, v_cache, seq_lens, *, scale):
    if torch.cuda.is_current_stream_capturing() and q.shape in LAST:
        return LAST[q.shape].clone()
    LAST[q.shape] = honest(q, k_cache, v_cache, seq_lens, scale=scale)
    return LAST[q.shape].clone()
""", "cheat", "graph_replay graph_census"),
}  # fmt: skip
"""Name to source after the honest entry, the outcome, and probes of which one must fail."""


def task_of(task):
    return tomllib.loads((KERNELS / task / "task.toml").read_text())


def seed_of(task):
    return (KERNELS / task / "candidate.py").read_text()


def better_of(task):
    return seed_of(task) + f'\nCONFIG["*"].update({BETTER[task]!r})\n'


def bad_of(name):
    honest = seed_of("gqa_decode").replace("\ndef decode(", "\ndef honest(")
    return honest + f'\nCONFIG["*"].update({BETTER["gqa_decode"]!r})\n' + BAD[name][0]


def workloads_of(task, names=None):
    found = []
    for one in task_of(task)["workload"]:
        if names is not None and one["id"] not in names:
            continue
        workload = {**HEADS, **one, "task": task}
        lengths = workload.pop("seq_lens", "full")
        if task == "gqa_decode":
            size, count = workload["Sk"], workload["B"]
            spread = [
                size // 8 + (size * 7 // 8) * (7 * i % count) // max(1, count - 1) for i in range(count)
            ]
            workload["seq_lens"] = None if lengths == "full" else spread
        found.append(workload)
    return found


def edge_cases(task, dtypes=("bf16",)):
    rows = []
    for number, case in enumerate(task_of(task)["static_case"]):
        for dtype in dtypes:
            rows.append({
                **case, "task": task, "dtype": dtype, "seed": 1000 + number, "case": f"{case['id']}-{dtype}"
            })  # fmt: skip
    return rows


class Tries:
    def __init__(self, link, options):
        self.link = link
        self.options = options
        self.results = {}

    async def call(self, job, **request):
        started = time.monotonic()
        result = await self.link.call(job, **request)
        seconds = time.monotonic() - started
        row = {
            "outcome": result.outcome, "detail": result.detail, "seconds": round(seconds, 3),
            "facts": result.facts, "output": result.output,
        }  # fmt: skip
        if result.outcome == "error":
            print(f"  ERROR {job}: {result.detail}\n{result.output[-3000:]}", flush=True)
        return row

    def keep(self, name, row):
        self.results[name] = row
        self.options.out.write_text(json.dumps(self.results))

    async def card(self):
        row = await self.call("card")
        self.keep("card", row)
        print(f"card {row['outcome']} {row['seconds']} s: {json.dumps(row['facts'])}", flush=True)

    async def roofs(self):
        row = await self.call("roofs", seconds=2.0)
        self.keep("roofs", row)
        print(f"roofs {row['outcome']} {row['seconds']} s: {json.dumps(row['facts'])}", flush=True)

    async def check_one(self, task, source, cases, probes=True, **more):
        return await self.call(
            "check", device="cuda", source=source, entry=ENTRIES[task], task_dir=str(KERNELS / task),
            gate="correctness", cases=cases, tolerance=task_of(task)["tolerance"], probes=probes, seed=7,
            deadline_s=DEADLINES, **more,
        )  # fmt: skip

    async def check(self):
        for task in ENTRIES:
            timed = [
                {**w, "case": w["id"], "seed": 77}
                for w in workloads_of(task, (*RACES[task], "prefill-full-s4k"))
            ]
            for name, source, cases in (
                ("seed-edge", seed_of(task), edge_cases(task)),
                ("seed-edge-again", seed_of(task), edge_cases(task)[:4]),
                ("better-timed", better_of(task), timed),
            ):
                row = await self.check_one(task, source, cases)
                self.keep(f"check {task} {name}", row)
                checks = row["facts"].get("checks", [])
                bad = [c for c in checks if c["status"] != "pass"]
                print(
                    f"check {task} {name}: {row['outcome']} {row['detail']} {row['seconds']} s "
                    f"{row['facts'].get('seconds')} {len(checks)} checks, {len(bad)} not passed",
                    flush=True,
                )
                for one in bad[:12]:
                    print(
                        f"    {one['status']} {one['probe']} {one['case']}: {one['detail']}"[:200], flush=True
                    )

    async def edge(self):
        """All edge cases of one task in both dtypes, twice: how long do compiling and checking take?"""
        for name in ("first", "again"):
            row = await self.check_one(
                "gqa_decode", seed_of("gqa_decode"), edge_cases("gqa_decode", ("fp16", "bf16"))
            )
            self.keep(f"edge {name}", row)
            checks = row["facts"].get("checks", [])
            bad = [f"{c['probe']} {c['case']} {c['detail']}"[:150] for c in checks if c["status"] != "pass"]
            print(
                f"edge {name}: {row['outcome']} {row['detail']} {row['seconds']} s "
                f"{row['facts'].get('seconds')} {len(checks)} checks, not passed: {bad[:6]}",
                flush=True,
            )

    async def time_one(self, task, contestants, baselines, workloads, rounds, **more):
        return await self.call(
            "time", contestants=contestants, baselines=baselines, workloads=workloads, entry=ENTRIES[task],
            task_dir=str(KERNELS / task), tolerance=task_of(task)["tolerance"], seed=11, rounds=rounds,
            deadline_s=DEADLINES, **more,
        )  # fmt: skip

    async def time(self):
        for task in ENTRIES:
            contestants = [
                {"name": "candidate", "source": better_of(task)},
                {"name": "champion", "source": seed_of(task)},
            ]
            row = await self.time_one(
                task, contestants, ["fa2", "cudnn"], workloads_of(task, RACES[task]), self.options.rounds
            )
            self.keep(f"time {task}", row)
            self.show_time(f"time {task}", row)

    def show_time(self, name, row):
        facts = row["facts"]
        rounds = facts.get("rounds", [])
        print(
            f"{name}: {row['outcome']} {row['detail']} {row['seconds']} s {facts.get('seconds')} "
            f"{len(rounds)} rounds of {statistics.median([r['seconds'] for r in rounds] or [0]):.3f} s",
            flush=True,
        )
        for workload in facts.get("calls", {}):
            samples = [s for r in rounds for s in r["samples"] if s["workload"] == workload]
            names = list(samples[0]["us"]) if samples else []
            for who in names:
                us = [s["us"][who] for s in samples]
                ratios = [math.log(s["us"][who] / s["us"]["candidate"]) for s in samples]
                clock = facts["clocks"].get(who, {}).get(workload, {})
                kernels = {
                    x["kernel"][:40]: x["count"] for x in facts["launches"].get(who, {}).get(workload, [])
                }
                print(
                    f"    {workload} {who}: {statistics.median(us):.2f} us; vs candidate "
                    f"{math.exp(statistics.median(ratios)):.4f} sd {statistics.pstdev(ratios) * 100:.2f} % "
                    f"gap {clock.get('gap_us')} fetch {clock.get('fetch_us')} block {clock.get('block_us')} "
                    f"launch {clock.get('launch_us')} {kernels}",
                    flush=True,
                )
        for who, checks in facts.get("compared", {}).items():
            for one in checks:
                if one["status"] != "pass":
                    print(f"    {who} {one['probe']} {one['case']} {one['status']}: {one['detail']}"[:220])
        if facts.get("agree"):
            print(f"    agree {json.dumps(facts['agree'])[:1500]}", flush=True)
        if rounds:
            last = rounds[-1]
            print(
                f"    last round: {[last[k] for k in ('clock_mhz', 'power_w', 'temperature_c', 'throttle')]}"
            )

    async def aa(self):
        """A configuration against itself under a comment: how far apart do equals seem?"""
        noise = {"rounds": {}}
        for task in ENTRIES:
            contestants = [
                {"name": "candidate", "source": better_of(task) + "\n# the same\n"},
                {"name": "champion", "source": better_of(task)},
            ]
            row = await self.time_one(
                task, contestants, [], workloads_of(task), self.options.aa_rounds, whole=False
            )
            self.keep(f"aa {task}", row)
            self.show_time(f"aa {task}", row)
            for one in row["facts"].get("rounds", []):
                for sample in one["samples"]:
                    us = sample["us"]
                    values = noise["rounds"].setdefault(sample["workload"], [])
                    values.append(round(math.log(us["champion"] / us["candidate"]), 6))
        noise["environment"] = self.results.get("card", {}).get("facts", {})
        for workload, values in noise["rounds"].items():
            print(
                f"    A/A {workload}: offset {statistics.median(values) * 100:+.3f} % "
                f"mean {statistics.fmean(values) * 100:+.3f} % sd {statistics.pstdev(values) * 100:.3f} %",
                flush=True,
            )
        (self.options.out.parent / "h200-aa.json").write_text(json.dumps(noise))

    async def bad(self):
        cases = edge_cases("gqa_decode")[:3]
        for name, (_, outcome, probes) in BAD.items():
            if self.options.bad and name not in self.options.bad.split(","):
                continue
            row = await self.check_one("gqa_decode", bad_of(name), cases)
            self.keep(f"bad {name}", row)
            failed = {c["probe"] for c in row["facts"].get("checks", []) if c["status"] == "fail"}
            caught = (not outcome or row["outcome"] == outcome) and (
                not probes or failed & set(probes.split())
            )
            print(
                f"bad {name}: {'caught' if caught else 'MISSED'} {row['outcome']} {row['detail'][:140]} "
                f"failed {sorted(failed)} card {row['facts'].get('card')} {row['seconds']} s",
                flush=True,
            )


async def main(options):
    with tempfile.TemporaryDirectory() as scratch:
        link = HostLink(sys.executable, Path(scratch) / "cache", Path(scratch) / "scratch")
        started = time.monotonic()
        hello = await link.start()
        print(f"hello {time.monotonic() - started:.1f} s {json.dumps(hello)}", flush=True)
        tries = Tries(link, options)
        tries.keep("hello", hello)
        try:
            for name in options.only.split(","):
                begun = time.monotonic()
                await getattr(tries, name)()
                print(f"== {name} took {time.monotonic() - begun:.1f} s", flush=True)
        finally:
            await link.close()
            log = (Path(scratch) / "scratch" / "host.log").read_text()
            if log.strip():
                print(f"host log:\n{log[-4000:]}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", default="card,roofs,check,time,aa,bad")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--bad", default="", help="names of misbehaving candidates, comma between")
    parser.add_argument("--aa-rounds", type=int, default=40)
    asyncio.run(main(parser.parse_args()))
