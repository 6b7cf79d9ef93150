"""What the jobs on a card share, and two of them: `card` (how is it?) and `roofs` (what can it do?).

The host decides which card, which device files and folders a candidate gets, keeps what its kernels compiled
to, and looks after every bad end whether the card is still well.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.metadata
import os
import re
import shutil
import subprocess
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import claims
import keeper
from cardnvml import NoCard, Nvml
from children import Child, Failed
from jobs import Answer, Job, expect
from store import key_of

SECONDS = {
    "context": 60.0,
    "load": 20.0,
    "compile": 120.0,
    "warm": 30.0,
    "case": 30.0,
    "reference": 120.0,
    "round": 300.0,
}
"""Deadlines where the request does not say."""

HEALTH_SECONDS = 30.0
GONE_SECONDS = 10.0
BAD_ENDS = ("timeout", "crash", "oom", "cheat", "invalid", "error")
KERNEL_FOLDERS = 400
ROOT_FILE = "written-in"
SHAPES_FILE = "shapes"
_COMPILERS = ("/usr/bin", "/usr/sbin", "/usr/libexec", "/usr/include", "/usr/local/bin", "/etc/alternatives")
_SYSTEM = ("/sys/devices", "/sys/bus/pci", "/sys/module/nvidia", "/sys/class/drm", "/usr/share/nvidia")
_DRIVERS = ("/usr/local/nvidia", "/usr/lib/wsl", "/opt/nvidia/lib64", "/usr/local/cuda")


@dataclass(frozen=True)
class Access:
    """One card and what a process needs to use it."""

    nvml: Nvml
    reading: dict[str, Any]
    devices: tuple[str, ...]
    readable: tuple[str, ...]
    environment: dict[str, str]


def access(request: dict[str, Any]) -> Access:
    """The card that a request names, or the first. Raises Failed where there is none."""
    try:
        nvml = Nvml(request.get("card"))
        reading = nvml.read()
    except NoCard as why:
        raise Failed("error", f"no card can be used: {why}") from None
    libraries = _driver_folders()
    environment = {"CUDA_VISIBLE_DEVICES": str(reading["uuid"]), "CUDA_CACHE_DISABLE": "1"}
    if libraries:
        environment["TRITON_LIBCUDA_PATH"] = libraries[0]
    folders = [*libraries, *_COMPILERS, *_SYSTEM, *_DRIVERS]
    folders += [part for part in os.environ.get("LD_LIBRARY_PATH", "").split(":") if part]
    real = sorted({os.path.realpath(path) for path in folders if Path(path).exists()}, key=len)
    kept: list[str] = []
    for path in real:
        covered = (*kept, "/usr/lib", "/usr/lib64", "/usr/local/lib")
        if path != "/" and not any(path == other or path.startswith(other + "/") for other in covered):
            kept.append(path)
    return Access(nvml, reading, _device_files(nvml.minor()), tuple(kept), environment)


def _driver_folders() -> list[str]:
    """Where libcuda.so.1 lies."""
    found = []
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        listed = subprocess.run(
            ["/sbin/ldconfig", "-p"], capture_output=True, text=True, timeout=10, check=False
        ).stdout
        found = [line.split()[-1] for line in listed.splitlines() if line.split()[:1] == ["libcuda.so.1"]]
    folders = [str(Path(path).parent) for path in found]
    folders += os.environ.get("LD_LIBRARY_PATH", "").split(":")
    return [folder for folder in folders if folder and (Path(folder) / "libcuda.so.1").exists()]


def _device_files(minor: int | None) -> tuple[str, ...]:
    """The files of one card, and of the driver."""
    names = []
    for path in sorted(Path("/dev").glob("nvidia*")):
        number = path.name.removeprefix("nvidia")
        if not number.isdigit() or minor is None or int(number) == minor:
            names.append(str(path))
    if Path("/dev/dxg").exists():
        names.append("/dev/dxg")
    return tuple(names)


def seconds(job: Job, phase: str) -> float:
    return float((job.request.get("deadline_s") or {}).get(phase, SECONDS[phase]))


# ---- a candidate's process ------------------------------------------------------------------------


async def said(child: Child) -> dict[str, Any]:
    """The next message of a candidate's process; what it refuses ends the job."""
    message = await child.receive()
    if "refused" not in message:
        return message
    what = message["refused"]
    if isinstance(what, dict) and what.get("outcome") == "error":
        raise Failed("error", str(what.get("detail")))
    raise claims.refusal(what)


class Kernels:
    """What a candidate's kernels compiled to, by its text and the versions: later jobs need no compiler.

    What a candidate's process writes here it writes before it has seen any contents.
    """

    def __init__(self, job: Job, card: Access, source: str) -> None:
        versions = [_version("torch"), _version("triton"), card.reading["name"], card.reading["driver"]]
        folder = job.store.folder
        self._root = folder.with_name(f"{folder.name}-kernels")
        self._folder = self._root / key_of(source, *versions)[:40]
        self._shapes: set[str] = set()
        self.built = False
        """Nearly all is compiled: what a call takes now is not a compiler's."""

    def unknown(self, shapes: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The shapes that no process has compiled for yet."""
        self._shapes |= {key_of(shape) for shape in shapes}
        known = set()
        with contextlib.suppress(OSError):
            known = set((self._folder / SHAPES_FILE).read_text(encoding="utf-8").split())
        self._shapes |= known
        return [shape for shape in shapes if key_of(shape) not in known]

    def give(self, work: Path) -> bool:
        """Copy what is known to a process's own cache; whether there was any."""
        if not self._folder.is_dir():
            return False
        shutil.copytree(self._folder, work / "triton", dirs_exist_ok=True)
        self._move(work / "triton", work)
        with contextlib.suppress(OSError):
            os.utime(self._folder)
        return True

    @staticmethod
    def _move(folder: Path, work: Path) -> None:
        """Triton's index files name other files by their whole path: let them name those that are here."""
        root = folder / ROOT_FILE
        with contextlib.suppress(OSError, UnicodeDecodeError):
            before = root.read_text(encoding="utf-8")
            for index in folder.glob("*/__grp__*"):
                text = index.read_text(encoding="utf-8")
                index.write_text(text.replace(before, f"{work}/triton/"), encoding="utf-8")
            root.unlink()

    def take(self, work: Path) -> None:
        """Keep what a process has compiled."""
        if not (work / "triton").is_dir():
            return
        new = self._folder.with_name(f"{self._folder.name}.{os.getpid()}.new")
        shutil.rmtree(new, ignore_errors=True)
        with contextlib.suppress(OSError, shutil.Error):
            shutil.copytree(work / "triton", new, symlinks=True)
            (new / ROOT_FILE).write_text(f"{work}/triton/", encoding="utf-8")
            (new / SHAPES_FILE).write_text("\n".join(sorted(self._shapes)), encoding="utf-8")
            shutil.rmtree(self._folder, ignore_errors=True)
            new.rename(self._folder)
        shutil.rmtree(new, ignore_errors=True)
        kept = sorted(self._root.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
        for old in kept[KERNEL_FOLDERS:]:
            shutil.rmtree(old, ignore_errors=True)


async def start_candidate(
    job: Job, card: Access, source: str, descriptors: tuple[int, ...], shapes: list[dict[str, Any]]
) -> tuple[Child, Kernels]:
    """A candidate's process that has loaded its file, and compiled for most of the shapes if not all."""
    kernels = Kernels(job, card, source)
    build = {
        "shapes": kernels.unknown(shapes),
        "target": await _target(job, card),
        "helpers": max(1, (os.cpu_count() or 2) - 2),
        "seconds": seconds(job, "compile"),
    }
    child = await job.candidate_on_card(
        source, card.readable, card.devices, descriptors, before=kernels.give,
        entry=job.request["entry"], environment=card.environment, build=build,
    )  # fmt: skip
    child.allow("compile", seconds(job, "context") + seconds(job, "compile"))
    while "ready" not in (message := await said(child)):
        if message.get("phase") == "load":
            child.allow("load", seconds(job, "load"))
    child.idle()
    kernels.built = message.get("built") is True
    return child, kernels


async def warm_and_lock(job: Job, child: Child, kernels: Kernels, shapes: list[dict[str, Any]]) -> float:
    """Let a candidate compile for these calls, then take its compilers away; the seconds that it took."""
    started = time.monotonic()
    for shape in shapes:
        phase = "warm" if kernels.built else "compile"
        child.allow(phase, seconds(job, phase))
        await child.send(warm=shape)
        while "warm" not in (message := await said(child)):
            if "called" in message:  # compiled and launched: what is left is the card's work
                child.allow("case", seconds(job, "case"))
    await child.send(lock="seccomp" in job.nursery.layers)
    await said(child)
    child.idle()
    left = keeper.descendants(child.keeper_pid)
    if len(left) > 2:  # the first of its namespace, and itself
        raise Failed("cheat", f"process_census: {len(left) - 2} processes were left running after loading")
    await asyncio.to_thread(kernels.take, child.work)
    return time.monotonic() - started


# ---- after a bad end ------------------------------------------------------------------------------


async def guarded(job: Job, card: Access, work: Callable[[], Awaitable[Answer]]) -> Answer:
    """Do the work; after a bad end leave nothing behind and look whether the card is well."""
    used = card.reading["memory_used_bytes"]
    try:
        answer = await work()
    except Failed as failed:
        answer = Answer(failed.outcome, failed.detail, failed.facts, job.output())
    if answer.outcome not in BAD_ENDS:
        return answer
    if answer.outcome == "error":
        answer.output = job.all_output()
    await job.bury_all()
    answer.facts["card"] = await health(job, card, used)
    return answer


async def health(job: Job, card: Access, used_bytes: int | None) -> dict[str, Any]:
    """Whether the card is as before: memory given back, and a new process can compute on it."""
    started = time.monotonic()
    why = ""
    slack = 64 << 20
    while used_bytes is not None and time.monotonic() - started < GONE_SECONDS:
        now = card.nvml.read()["memory_used_bytes"] or 0
        if now <= used_bytes + slack:
            break
        await asyncio.sleep(0.1)
    else:
        if used_bytes is not None:
            why = f"{now - used_bytes:,} B of its memory were not given back"
    try:
        child = await job.trusted_on_card("cardclean", do="health", environment=card.environment)
        child.allow("health", HEALTH_SECONDS)
        message = await child.receive()
        if not message.get("healthy"):
            raise Failed("error", str(message.get("failed")))
        _TARGETS[str(card.reading["uuid"])] = dict(message["target"])
        await job.bury(child)
    except Failed as failed:
        why = f"a new process cannot use it: {failed.detail}"
    return {"healthy": not why, "why": why, "seconds": round(time.monotonic() - started, 3)}


_TARGETS: dict[str, dict[str, Any]] = {}
"""What a clean process has read of each card, by UUID, while this host lives."""


async def _target(job: Job, card: Access) -> dict[str, Any]:
    uuid = str(card.reading["uuid"])
    if uuid not in _TARGETS:
        state = await health(job, card, None)
        if not state["healthy"]:
            raise Failed("error", f"the card is not well: {state['why']}")
    return _TARGETS[uuid]


# ---- the jobs -------------------------------------------------------------------------------------


def _version(package: str) -> str | None:
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        return importlib.metadata.version(package)
    return None


def card_layers(active: tuple[str, ...]) -> dict[str, str]:
    """The layers around a candidate on the card, of those that are active here."""
    found = dict.fromkeys(active, "active")
    if "limits" in found:
        found["limits"] = "active, but for the address space, of which CUDA maps more than it uses"
    if "pid_namespace" in found and "mount_namespace" not in found:
        found["pid_namespace"] = "off: CUDA needs a /proc of that namespace, which needs mount_namespace"
    if "seccomp" in found:
        found["seccomp"] = "active; programs and Unix sockets are refused from before the first contents"
    return found


async def card(job: Job) -> Answer:
    """What the card is and how it is now, as NVML says, and whether a clean process can compute on it."""
    found = access(job.request)
    others = found.nvml.processes()
    facts = {key: value for key, value in found.reading.items() if key != "processes"}
    facts |= {
        "other_processes": others,
        "torch": _version("torch"),
        "triton": _version("triton"),
        "cuda_visible": found.environment["CUDA_VISIBLE_DEVICES"],
        "devices": list(found.devices),
        "layers": card_layers(job.nursery.layers),
    }
    if job.request.get("probe", True):
        state = await health(job, found, found.reading["memory_used_bytes"])
        facts |= {"healthy": state["healthy"], "why": state["why"], "health_seconds": state["seconds"]}
    return Answer("ok", "", facts)


async def roofs(job: Job) -> Answer:
    """What the card reaches in a clean process: reading, copying, matrix products, exponentials."""
    found = access(job.request)
    child = await job.trusted_on_card(
        "cardclean", do="roofs", seconds=float(job.request.get("seconds", 2.0)),
        environment=found.environment,
    )  # fmt: skip
    child.allow("roofs", seconds(job, "context") + 60.0)
    measured = await expect(child, "roofs")
    return Answer("ok", "", {**measured, **found.nvml.now()})


def own_kernel(name: str, source: str) -> bool:
    """Whether a candidate's file defines a function of this name."""
    return re.search(rf"^\s*def {re.escape(name)}\b", source, re.MULTILINE) is not None
