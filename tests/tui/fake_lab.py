"""A lab with a made-up past, and an engine that obeys commands but judges nothing.

What it writes goes through the real ledger and the real control, so that what the screens read is what an
engine would have written.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from kernel_lab.engine import events as e
from kernel_lab.engine.control import Control
from kernel_lab.engine.facts import Check, Launch, Prediction, Reason, Speed, WorkloadTime
from kernel_lab.engine.lab import create_lab
from kernel_lab.engine.lab_config import LabConfig, read_config, write_config
from kernel_lab.engine.ledger.lock import EngineLock
from kernel_lab.engine.ledger.records import sha256
from kernel_lab.engine.ledger.store import DATABASE, Ledger

SEED_SOURCE = '''"""Decode attention, plain."""

import torch
import triton
import triton.language as tl

SPACE = {"BLOCK_N": [32, 64, 128], "NUM_WARPS": [2, 4, 8], "SPLIT_KV": [0, 1]}
CONFIG = {"*": {"BLOCK_N": 64, "NUM_WARPS": 4, "SPLIT_KV": 0}}


@triton.jit
def kernel(q, k, v, out, scale, BLOCK_N: tl.constexpr, SPLIT_KV: tl.constexpr):
    offsets = tl.arange(0, BLOCK_N)
    tl.store(out + offsets, tl.load(q + offsets) * scale)


def decode(q, k_cache, v_cache, seq_lens, *, scale):
    out = torch.empty_like(q)
    values = CONFIG["*"]
    kernel[(q.shape[0],)](q, k_cache, v_cache, out, scale, values["BLOCK_N"], values["SPLIT_KV"])
    return out
'''

LEVERS = (
    (
        "split_kv",
        "Split the keys over 4 CTAs and combine in fp32",
        "One CTA per head leaves 24 of 28 SMs idle.",
    ),
    ("tiles:b1_long", "Settle tiles of b1_long", "A larger BLOCK_N hides more latency."),
    ("exp2", "Use exp2 with the scale folded into q", "It saves one multiplication per score."),
    ("pack_gqa", "Pack the 4 query heads of a group into M", "K and V are read once for a group."),
    ("order", "Walk the heads before the batch", "Neighbours share K and V in L2."),
)
ENDINGS = ("discard", "discard", "discard", "discard", "keep", "incorrect", "oom", "compile_error", "held")
WORKLOADS = ("decode-b1-s8k", "decode-b1-s32k", "decode-b16-s4k", "decode-b64-s2k-ragged")


def source(number: int) -> str:
    """A candidate that differs from the seed in a few lines and is one."""
    text = SEED_SOURCE.replace('"BLOCK_N": 64', f'"BLOCK_N": {(32, 64, 128)[number % 3]}')
    return text.replace("* scale)", f"* scale)  # variant {number}")


def speed(fa2: float, seed: float, champion: float, kind: Any = "estimated") -> Speed:
    rows = tuple(
        WorkloadTime(
            workload=name,
            bucket="b1_long" if "b1" in name else "rest",
            weight=0.25,
            time_us=1000.0 / fa2 * (index + 1),
            rate=0.25 * fa2,
            rate_unit="TB/s",
            roof_percent=60.0 * fa2,
            bound="dram",
            vs={"fa2": fa2, "seed": seed, "champion": champion},
        )
        for index, name in enumerate(WORKLOADS)
    )
    return Speed(kind, {"fa2": fa2, "seed": seed, "champion": champion}, {}, rows)


class FakeLab:
    """A lab folder and the ledger in it, written as an engine writes it."""

    def __init__(
        self,
        folder: Path,
        *,
        mode: str = "ask",
        budget: int | None = 50,
        proposer: str = "search",
        kind: Any = "static",
    ) -> None:
        self.folder = folder
        config = LabConfig(gpu="rtx3060", mode=mode, budget=budget, proposer=proposer)
        create_lab(folder, config).close()
        self.ledger = Ledger.open(folder / DATABASE)
        self.ledger.connection.execute("PRAGMA synchronous = OFF")
        self.time = time.time() - 3_600
        self.ledger.clock = lambda: self.time
        self.champions = {"gqa_decode": 0, "gqa_prefill": 0}
        self.best = {"gqa_decode": 1.0, "gqa_prefill": 1.0}
        self.random = random.Random(7)
        self.last = 0
        self.write(
            e.LabCreated(
                folder.name,
                kind,
                "rtx3060",
                "llama-3.1-8b",
                ("gqa_decode", "gqa_prefill"),
                config.to_dict(),
                {},
            ),
            e.EngineStarted("0.1.0", {"device": "RTX 3060 (static)"}),
            e.ModeChanged(mode, "person"),
        )

    def write(self, *events: e.Event, blobs: Sequence[bytes] = ()) -> None:
        self.time += 0.5
        self.ledger.append(events, blobs=blobs)

    # ---- experiments

    def seeds(self) -> None:
        for task in self.champions:
            number = self.begin(task, "The kernel that everything is compared with.", "", "seed", parent=None)
            self.write(e.SpeedJudged(number, speed(0.62, 1.0, 1.0)))
            self.finish(number, "seed")
            self.champions[task] = number

    def begin(
        self,
        task: str = "gqa_decode",
        description: str = "Split the keys",
        hypothesis: str = "More SMs work.",
        lever: str = "split_kv",
        *,
        parent: int | None = -1,
        text: str | None = None,
    ) -> int:
        """Start an experiment and propose; its number."""
        self.last += 1
        number = self.last
        parent = self.champions[task] if parent == -1 else parent
        body = (source(number) if text is None else text).encode()
        self.write(e.ExperimentStarted(number, task, parent, "search" if parent else "seed"))
        proposed = e.Proposed(
            number,
            sha256(body),
            description,
            hypothesis,
            Prediction(4.0, "dram"),
            lever,
            {"b1_long": {"BLOCK_N": [64]}},
        )
        self.write(proposed, blobs=[body])
        return number

    def sha(self, number: int) -> str:
        row = self.ledger.experiment(number)
        assert row is not None and row.source_sha
        return row.source_sha

    def gates(self, number: int, *names: str, checks: int = 4) -> None:
        sha = self.sha(number)
        for name in names or ("lint", "screen", "quick"):
            if name == "screen":
                launch = Launch(
                    WORKLOADS[0], "kernel", (8, 4, 1), 4, 33_792, 168, 0, "HMMA", 2, 0.33, 91.0, 0.8
                )
                self.write(e.Screened(number, sha, (launch,), {WORKLOADS[0]: 91.0}))
            if name in ("quick", "correctness", "integrity", "confirm"):
                for case in range(checks):
                    check = Check(name, f"case-{case}-b2-h8-d64", "values", "pass", "", 1e-4, 3e-4, 0.2)
                    self.write(e.Checked(number, check, sha))
            self.write(e.GateFinished(number, name, True, None, seconds=1.2, source_sha=sha))

    def trials(self, number: int, count: int = 6) -> None:
        for trial in range(1, count + 1):
            ok = trial % 5 != 0
            event = e.TrialFinished(
                number,
                trial,
                "b1_long",
                {"BLOCK_N": 32 * trial, "NUM_WARPS": 4},
                "ok" if ok else "oom",
                0.9 + 0.03 * trial if ok else None,
                {},
                "" if ok else "needs 131,074 B of shared memory, an RTX 3060 block has 101,376",
            )
            self.write(event)

    def judge(self, number: int, task: str, gain: float) -> None:
        seed = self.best[task] * gain
        self.write(e.SpeedJudged(number, speed(0.62 * seed, seed, gain)))

    def ask(self, number: int, kind: Any = "proposal", reason: str = "mode ask") -> None:
        self.write(e.ApprovalRequested(number, kind, self.sha(number), reason))

    def finish(self, number: int, status: str, reason: Reason | None = None) -> None:
        row = self.ledger.experiment(number)
        assert row is not None
        reasons = (reason,) if reason else ()
        events: list[e.Event] = [e.ExperimentFinished(number, status, reasons, row.source_sha)]
        if status in ("keep", "seed"):
            previous = self.champions[row.task] or None
            events.append(e.ChampionChanged(row.task, number, previous, "estimated"))
            self.champions[row.task] = number
            self.best[row.task] = row.score.get("seed", 1.0)
        if status == "held":
            events.append(
                e.ApprovalRequested(number, "hold", row.source_sha or "", reason.detail if reason else "")
            )
        self.write(*events)

    def past(self, experiments: int, *, trials: int = 6, holds: bool = False) -> None:
        """A plausible history of so many experiments."""
        for index in range(experiments):
            task = ("gqa_decode", "gqa_prefill")[index % 2]
            lever, what, why = LEVERS[index % len(LEVERS)]
            number = self.begin(task, what, why, lever)
            ending = ENDINGS[self.random.randrange(len(ENDINGS))]
            if ending == "held" and not holds:
                ending = "discard"
            self.gates(number, "lint")
            if ending in ("oom", "compile_error"):
                detail = "needs 131,074 B of shared memory, an RTX 3060 block has 101,376"
                self.finish(number, ending, Reason("screen", ending, detail))
                continue
            self.gates(number, "screen", "quick")
            self.trials(number, trials)
            if ending == "incorrect":
                self.finish(
                    number, ending, Reason("correctness", "values", "case-2-b2-h8-d64: row 3 is off by 0.5")
                )
                continue
            gain = (
                1.0 + self.random.uniform(0.015, 0.06)
                if ending in ("keep", "held")
                else self.random.uniform(0.8, 1.0)
            )
            self.judge(number, task, gain)
            if ending == "keep":
                self.gates(number, "correctness", "integrity", "speed", "confirm")
            self.finish(number, ending, Reason("speed", "threshold", f"estimated {gain:.3f} × the champion"))

    def bulk(self, experiments: int) -> None:
        """Very many experiments, few events each, in few transactions."""
        for start in range(0, experiments, 500):
            events: list[e.Event] = []
            for _ in range(min(500, experiments - start)):
                self.last += 1
                number, task = self.last, ("gqa_decode", "gqa_prefill")[self.last % 2]
                gain = self.random.uniform(0.7, 1.0)
                lever, what, why = LEVERS[number % len(LEVERS)]
                events += [
                    e.ExperimentStarted(number, task, self.champions[task], "search"),
                    e.Proposed(number, "0" * 64, what, why, Prediction(None, None), lever),
                    e.SpeedJudged(
                        number,
                        Speed("estimated", {"fa2": gain * 0.8, "seed": gain, "champion": gain}, {}, ()),
                    ),
                    e.ExperimentFinished(number, "discard", (Reason("speed", "threshold", "slower"),), None),
                ]
            self.write(*events)

    def set_proposer(self, proposer: str) -> None:
        """Have lab.toml name this proposer."""
        write_config(self.folder, replace(read_config(self.folder), proposer=proposer))

    def close(self) -> None:
        self.ledger.close()


class FakeEngine:
    """Owns the lab and obeys its commands in a thread, with the engine's own control."""

    def __init__(self, lab: FakeLab) -> None:
        self.lab = lab
        self.lock = EngineLock(lab.folder)
        self.control: Control | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> FakeEngine:
        self.lock.acquire()
        self.lab.ledger.clock = time.time
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(5)
        self.lock.release()

    def _serve(self) -> None:
        with Ledger.open(self.lab.folder / DATABASE) as ledger:
            self.control = Control(ledger, lambda task: "decode", ledger.view().mode)
            while not self._stop.is_set():
                for command in ledger.pending_commands():
                    self.control.running = next((row.id for row in ledger.running()), None)
                    self.control.obey(command.id, command.command, command.by)
                self._stop.wait(0.02)
