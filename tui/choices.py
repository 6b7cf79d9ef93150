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
    measured: bool = False
    """The card is in this machine: candidates are run and timed on it."""

    @property
    def words(self) -> str:
        return f"{self.gpu.title} ({'measured' if self.measured else 'static: estimated, not measured'})"


def choose_device(gpu: str | None, model: str | None) -> Device:
    """Profiles for `--gpu` and `--model` as given, `auto` or None. Raises ProfileError.

    A card of this machine is measured on, whether it was named or found; any other is judged statically.
    """
    cards = machine.gpus()
    here = [name for card in cards if (name := match_gpu_name(card.name)) is not None]
    named = None if gpu in (None, "", "auto") else gpu
    how = None
    if named is None:
        named = here[0] if here else DEFAULT_GPU
        if not here:
            how = f"found {cards[0].name}, which no profile describes" if cards else "no GPU found here"
    profile = load_gpu(named)
    chosen = load_model(model or DEFAULT_MODEL)
    require_covered(chosen)
    measured = profile.name in here
    if measured:
        line = f"{profile.title}, in this machine: values are checked and speeds measured on it"
    else:
        line = f"{profile.title}, judged statically: values are checked, speeds are estimates, none measured"
    return Device(profile, chosen, f"{how}: {line}" if how else line, measured)
