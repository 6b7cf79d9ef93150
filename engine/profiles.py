"""GPU and model profiles: what is known about a card or a model, with the source of every group of facts.

A profile is `profiles/{gpus,models}/<name>.toml` (facts) and `<name>.md` (notes for whoever writes kernels).
Files of the same shape under `<config>/profiles/{gpus,models}/` are the user's own: a new name adds a
profile, the name of a shipped one takes its place. Everything is checked on load; what is wrong raises
ProfileError with file, line and remedy. Sizes are bytes, times µs, rates GB/s (10^9) and TFLOP/s (10^12).
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from kernel_lab.engine.errors import ProfileError
from kernel_lab.engine.paths import user_profiles_dir
from kernel_lab.engine.profile_read import read_gpu, read_model
from kernel_lab.engine.profile_types import (
    FEATURES,
    Fa2Curve,
    Fa2Decode,
    Fa2Profile,
    GpuProfile,
    ModelProfile,
    Origin,
    ProfileEntry,
)
from kernel_lab.engine.tomlread import TomlFile, near

__all__ = [
    "FEATURES",
    "Fa2Curve",
    "Fa2Decode",
    "Fa2Profile",
    "GpuProfile",
    "ModelProfile",
    "Origin",
    "ProfileEntry",
    "list_gpus",
    "list_models",
    "load_gpu",
    "load_model",
    "match_gpu_name",
    "read_profile",
    "require_covered",
]

Kind = Literal["gpus", "models"]

MAX_NOTES = 200_000
"""Characters of a notes file that are read: an agent reads them too."""


def load_gpu(name: str) -> GpuProfile:
    """The GPU profile of that name. Raises ProfileError."""
    path, origin = _find("gpus", name)
    return read_gpu(path, origin, _notes("gpus", path))


def load_model(name: str) -> ModelProfile:
    """The model profile of that name. Raises ProfileError."""
    path, origin = _find("models", name)
    return read_model(path, origin, _notes("models", path))


def read_profile(path: Path) -> GpuProfile | ModelProfile:
    """The profile in a file anywhere, of the kind that its folder or else its content says."""
    folder = path.parent.name
    if folder == "models" or (folder != "gpus" and TomlFile(path, ProfileError).root().has("attention")):
        return read_model(path, "user", _notes("models", path))
    return read_gpu(path, "user", _notes("gpus", path))


def require_covered(model: ModelProfile) -> None:
    """Raise ProfileError for a model none of whose layers the operators can express."""
    if not model.layers:
        raise ProfileError(
            f"{model.title} cannot drive a lab: {'; '.join(model.not_covered)}; "
            "choose another model (kernel-lab profiles lists them)"
        )


def list_gpus() -> tuple[ProfileEntry, ...]:
    """Every GPU profile, the user's own among them; wrong files are listed with their problem."""
    return tuple(_gpu_entry(path, origin) for path, origin in _all("gpus").values())


def list_models() -> tuple[ProfileEntry, ...]:
    """Every model profile, the user's own among them; wrong files are listed with their problem."""
    return tuple(_model_entry(path, origin) for path, origin in _all("models").values())


def match_gpu_name(name: str) -> str | None:
    """Profile of the card that the driver calls `name`, or None if no profile is about that very card."""
    wanted = _driver_name(name)
    for path, origin in _all("gpus").values():
        try:
            gpu = read_gpu(path, origin, _notes("gpus", path))
        except ProfileError:
            continue  # a wrong file is no reason to fail for another card
        if wanted in {_driver_name(known) for known in gpu.nvml_names}:
            return gpu.name
    return None


def _driver_name(name: str) -> str:
    words = name.casefold().split()
    return " ".join(words[1:] if words[:1] == ["nvidia"] else words)


def _shipped_dir(kind: Kind) -> Path:
    return Path(__file__).parent.parent / "profiles" / kind


def _all(kind: Kind) -> dict[str, tuple[Path, Origin]]:
    found: dict[str, tuple[Path, Origin]] = {}
    places: tuple[tuple[Path, Origin], ...] = (
        (_shipped_dir(kind), "shipped"),
        (user_profiles_dir(kind), "user"),
    )
    for folder, origin in places:
        if folder.is_dir():
            found.update({path.stem: (path, origin) for path in folder.glob("*.toml")})
    return dict(sorted(found.items()))


def _find(kind: Kind, name: str) -> tuple[Path, Origin]:
    known = _all(kind)
    wanted = name.strip().lower()
    if wanted not in known:
        thing = "GPU" if kind == "gpus" else "model"
        raise ProfileError(f'unknown {thing} "{name}"{near(wanted, known)}; choose one of {", ".join(known)}')
    return known[wanted]


def _notes(kind: Kind, path: Path) -> str:
    """Text of the Markdown beside a profile; the shipped notes serve an overriding file without its own."""
    for place in (path.with_suffix(".md"), _shipped_dir(kind) / f"{path.stem}.md"):
        try:
            with place.open(encoding="utf-8", errors="replace") as file:
                return file.read(MAX_NOTES)
        except FileNotFoundError:
            continue
        except OSError as problem:
            raise ProfileError(
                f"{place}: cannot be read ({problem.strerror}); check its permissions"
            ) from None
    return ""


def _gpu_entry(path: Path, origin: Origin) -> ProfileEntry:
    try:
        gpu = read_gpu(path, origin, _notes("gpus", path))
    except ProfileError as problem:
        return ProfileEntry(path.stem, path.stem, origin, path, problem=str(problem))
    detail = f"sm_{gpu.arch}, {gpu.sms} SMs, {gpu.memory_bytes / 2**30:.0f} GiB, {gpu.dram_gbs:.0f} GB/s"
    return ProfileEntry(gpu.name, gpu.title, origin, path, detail)


def _model_entry(path: Path, origin: Origin) -> ProfileEntry:
    try:
        model = read_model(path, origin, _notes("models", path))
    except ProfileError as problem:
        return ProfileEntry(path.stem, path.stem, origin, path, problem=str(problem))
    heads = f"{model.Hq}/{model.Hkv} heads of {model.D}"
    detail = f"{heads}, {model.layers} of {model.layers_total} layers covered"
    return ProfileEntry(model.name, model.title, origin, path, detail)
