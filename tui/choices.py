"""What `auto` and left-out options mean on this machine: the device and the model that a lab is for."""

from __future__ import annotations

from dataclasses import dataclass

from kernel_lab.engine.profiles import (
    GpuProfile,
    ModelProfile,
    load_gpu,
    load_model,
    match_gpu_name,
    require_covered,
)
from kernel_lab.tui import machine

DEFAULT_GPU = "rtx3060"
DEFAULT_MODEL = "llama-3.1-8b"
DEFAULT_TASKS = ("gqa_decode", "gqa_prefill")
DEFAULT_PROPOSER = "search"
HEADLESS_BUDGET = 12


@dataclass(frozen=True, slots=True)
class Device:
    """The chosen profile pair; `line` says in one sentence how it was chosen and what that means."""

    gpu: GpuProfile
    model: ModelProfile
    line: str

    @property
    def words(self) -> str:
        return f"{self.gpu.title} (static: estimated, not measured)"


def choose_device(gpu: str | None, model: str | None) -> Device:
    """Profiles for `--gpu` and `--model` as given, `auto` or None. Raises ProfileError."""
    name, how = (gpu, None) if gpu not in (None, "", "auto") else _found()
    profile = load_gpu(name or DEFAULT_GPU)
    chosen = load_model(model or DEFAULT_MODEL)
    require_covered(chosen)
    line = (
        f"{profile.title}, judged statically: values are checked, speeds are estimates, nothing is measured"
    )
    return Device(profile, chosen, f"{how}: {line}" if how else line)


def _found() -> tuple[str, str]:
    """Profile for the GPU of this machine, and how it came about."""
    cards = machine.gpus()
    if not cards:
        return DEFAULT_GPU, "no GPU found here"
    for card in cards:
        name = match_gpu_name(card.name)
        if name is not None:
            return name, f"found {card.name}, which this version does not measure on yet"
    return DEFAULT_GPU, f"found {cards[0].name}, which no profile describes"
