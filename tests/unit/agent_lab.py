"""A lab on the fake device whose proposer is an agent that asks a service on the loopback."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fake_device import FakeDevice
from kernel_lab.engine.candidate import parse, with_config
from kernel_lab.engine.events import EngineStopped
from kernel_lab.engine.lab import Lab, LabConfig, create_lab
from kernel_lab.engine.loop import Loop
from kernel_lab.engine.profiles import load_gpu, load_model
from kernel_lab.engine.proposers.agent.make import make_agent
from kernel_lab.engine.proposers.base import Proposer
from kernel_lab.engine.tasks import load_task

TASK = "gqa_prefill"
KEY = "sk-planted-0123456789abcdefghijklmnopqrstuvwxyz"
"""A key that must turn up nowhere."""

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


def agent_lab(path: Path, config: LabConfig, monkeypatch: Any) -> tuple[Lab, Proposer]:
    """The lab and its proposer, made as the engine makes it, with the key in the environment."""
    monkeypatch.setenv("PLANTED_KEY", KEY)
    lab = create_lab(path, config)
    kind, _, detail = config.proposer.partition(":")
    return lab, make_agent(kind, detail, config, lab.path)


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
