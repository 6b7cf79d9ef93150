"""A lab on the fake device whose proposer is an agent that asks a service on the loopback."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from fake_device import FakeDevice
from kernel_lab.engine.candidate import parse, with_config
from kernel_lab.engine.events import EngineStopped
from kernel_lab.engine.lab import Lab, LabConfig, create_lab
from kernel_lab.engine.loop import Loop
from kernel_lab.engine.profiles import load_gpu, load_model
from kernel_lab.engine.proposers.agent.agent import Agent
from kernel_lab.engine.proposers.agent.make import make_agent
from kernel_lab.engine.proposers.base import Proposer
from kernel_lab.engine.tasks import load_task

TASK = "gqa_prefill"
KEY = "sk-planted-0123456789abcdefghijklmnopqrstuvwxyz"
"""A key that must turn up nowhere."""

SMALL = '''"""Attention, as far as a fake device looks at it."""

import torch
import triton
import triton.language as tl

SPACE = {
    "BLOCK_M": [16, 32, 64],
    "BLOCK_N": [16, 32, 64],
    "SKIP": [False, True],
    "EXP2": [False, True],
    "num_warps": [1, 2, 4, 8],
    "num_stages": [1, 2, 3, 4],
}
CONFIG = {
    "*": {"BLOCK_M": 64, "BLOCK_N": 64, "SKIP": False, "EXP2": False, "num_warps": 4, "num_stages": 2},
}


@triton.jit
def kernel(q, out, scale, BLOCK_N: tl.constexpr):
    at = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    tl.store(out + at, tl.load(q + at) * scale)


def attention(q, k, v, *, causal, scale):
    out = torch.empty_like(q)
    kernel[(q.shape[0],)](q, out, scale, BLOCK_N=CONFIG["*"]["BLOCK_N"])
    return out
'''
"""A candidate that is quickly read and passes the lint."""

MODELS = {"anthropic": "claude-opus-5-5", "openai": "gpt-6.2-sol"}


def agent_config(proposer: str, url: str, **settings: Any) -> LabConfig:
    service = proposer.partition("+")[0]
    given: dict[str, Any] = {
        "gpu": "rtx3060",
        "tasks": (TASK,),
        "mode": "auto",
        "trials": 1,
        "proposer": proposer,
        "agent_model": MODELS.get(service),
        "agent_url": url,
        "agent_key": "PLANTED_KEY",
        "tokens": 10**9,
        "budget": 3,
    }
    return LabConfig(**{**given, **settings})


def agent_lab(path: Path, config: LabConfig, monkeypatch: Any, **settings: Any) -> tuple[Lab, Proposer]:
    """The lab and its proposer, made as the engine makes it, with the key in the environment.

    `settings` are those that lab.toml does not have, such as how long a retry waits.
    """
    monkeypatch.setenv("PLANTED_KEY", KEY)
    if config.from_file is not None:
        Path(config.from_file).write_text(SMALL)
    lab = create_lab(path, config)
    kind, _, detail = config.proposer.partition(":")
    agent = make_agent(kind, detail, config, lab.path)
    asking = getattr(agent, "agent", agent)
    if settings and isinstance(asking, Agent):
        asking.settings = replace(asking.settings, **settings)
    return lab, agent


async def research(lab: Lab, proposer: Proposer, device: FakeDevice | None = None) -> EngineStopped:
    """Run the lab's loop to its end."""
    tasks = {name: load_task(name) for name in lab.config.tasks}
    gpu, model = load_gpu("rtx3060"), load_model("llama-3.1-8b")
    return await Loop(lab, device or FakeDevice(), gpu, model, tasks, proposer).run()


def variant(task: str = TASK, base: str | None = None, **values: Any) -> str:
    """The seed kernel, or `base`, with other values in CONFIG for every bucket."""
    spec = load_task(task)
    candidate = parse(base or spec.seed_source, spec.entry)
    config = {name: dict(row) for name, row in candidate.config.items()}
    config["*"].update(values)
    return with_config(candidate, config)


def submission(**changes: Any) -> tuple[str, dict[str, Any]]:
    """A call of `submit` with everything that it must have."""
    arguments = {
        "description": "Stop at the last visible block.",
        "hypothesis": "Hidden blocks cost as much as others.",
        "predicted_gain_percent": 30.0,
        "predicted_bottleneck": "tensor",
        "lever": "skip",
        "tunables": [],
    }
    return "submit", {**arguments, **changes}
