"""`kernel-lab doctor`: what this machine has and lacks for a lab, each with its remedy.

Exit status 0 when a static lab can run here, 1 when something that it needs is missing. Nothing is loaded
that costs time but the host, which is asked for its active layers of protection when triton is there.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from kernel_lab.engine.cardlock import held_cards, holder_text
from kernel_lab.engine.errors import LabError
from kernel_lab.tui import machine, output

State = Literal["ok", "note", "warning", "missing"]

MARKS: dict[State, str] = {"ok": "✓", "note": "·", "warning": "!", "missing": "✗"}
PYTHON_AT_LEAST = (3, 11)
DISK_ENOUGH_BYTES = 2 * 1024**3
DISK_LEAST_BYTES = 200 * 1024**2
AGENT_PROGRAMS = ("claude", "codex", "gemini", "opencode", "aider", "cursor-agent", "goose", "qwen")
KEYS = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENROUTER_API_KEY")
HOST_TIMEOUT_S = 90.0


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at. `missing` means that no static lab can run without it; `remedy` is empty for what
    is well, and otherwise says what to do."""

    name: str
    state: State
    detail: str
    remedy: str = ""


def doctor(options: argparse.Namespace) -> int:
    """Print every finding; 1 if something needed is missing."""
    found: list[Finding] = []
    if not options.json:
        print("kernel-lab doctor")
    for finding in findings():
        found.append(finding)
        if not options.json:
            print(_line(finding), flush=True)
    ready = all(finding.state != "missing" for finding in found)
    if options.json:
        output.print_json({"ready": ready, "findings": found})
    elif ready:
        print("ready: labs run here")
    else:
        print("not ready: mend what is marked ✗; replay and watching labs work without it")
    return 0 if ready else 1


def findings(*, ask_host: bool = True) -> Iterable[Finding]:
    """Everything looked at, in the order of need; `ask_host=False` leaves out what takes seconds."""
    for look in (python, system, torch, triton, compilers, numpy, git, folders, disk, gpu, terminal):
        yield look()
    if ask_host:
        yield from layers()
    yield agents()
    yield keys()


def _line(finding: Finding) -> str:
    text = f"{MARKS[finding.state]} {finding.name:<12} {output.clean(finding.detail)}"
    return f"{text}\n  {'':<12} → {finding.remedy}" if finding.remedy else text


def python() -> Finding:
    """The interpreter that runs this."""
    version = platform.python_version()
    if sys.version_info < PYTHON_AT_LEAST:
        return Finding("python", "missing", version, "install Python 3.11 or newer")
    return Finding("python", "ok", f"{version} ({sys.executable})")


def system() -> Finding:
    """The operating system: labs run on Linux, WSL2 included."""
    name = f"{platform.system()} {platform.release()} {platform.machine()}"
    if sys.platform == "linux":
        return Finding(
            "system", "ok", name + (" (WSL2)" if "microsoft" in platform.release().lower() else "")
        )
    remedy = "run labs on Linux" if sys.platform == "darwin" else "install kernel-lab inside WSL2"
    return Finding("system", "missing", f"{name}: triton does not exist here", f"{remedy}; replay works here")


def torch() -> Finding:
    """torch, from its metadata."""
    return _package("torch", machine.TORCH_AT_LEAST)


def triton() -> Finding:
    """triton, from its metadata."""
    return _package("triton", machine.TRITON_AT_LEAST)


def numpy() -> Finding:
    """numpy, which Triton's interpreter computes with."""
    found = _package("numpy", (1, 26))
    triton, numpy = machine.installed_version("triton"), machine.installed_version("numpy")
    if triton is None or numpy is None or found.state != "ok":
        return found
    if machine.at_least(numpy, (2, 4)) and not machine.at_least(triton, (3, 7)):
        detail = f"{numpy} with triton {triton}, whose interpreter may fail with it (triton-lang/triton#9171)"
        return Finding(
            "numpy", "warning", detail, "if checks crash, pip install 'numpy<2.4' or a newer triton"
        )
    return found


def _package(name: str, least: tuple[int, int]) -> Finding:
    version = machine.installed_version(name)
    remedy = "pip install --upgrade 'kernel-lab[gpu]'"
    if version is None:
        return Finding(name, "missing", "not installed", remedy)
    if not machine.at_least(version, least):
        return Finding(name, "missing", f"{version} is older than {least[0]}.{least[1]}", remedy)
    return Finding(name, "ok", version)


def compilers() -> Finding:
    """ptxas and nvdisasm, which triton's wheel brings along."""
    absent = [tool for tool in ("ptxas", "nvdisasm") if machine.triton_tool(tool) is None]
    if absent:
        remedy = "pip install --force-reinstall triton (its Linux wheel brings them)"
        return Finding("compiler", "missing", f"no {' and no '.join(absent)} in triton", remedy)
    ptxas = machine.triton_tool("ptxas")
    answer = machine.tool_output([str(ptxas), "--version"])
    if answer is None:
        return Finding("compiler", "missing", f"{ptxas} does not run", "reinstall triton for this processor")
    release = next((part.strip() for part in answer.split(",") if "release" in part), "of unknown release")
    return Finding("compiler", "ok", f"ptxas {release.removeprefix('release ')} and nvdisasm, from triton")


def git() -> Finding:
    """git, which holds the lines of champions."""
    answer = machine.tool_output(["git", "--version"])
    if answer is None:
        return Finding("git", "missing", "not found", "install git (Debian, Ubuntu: apt-get install git)")
    return Finding("git", "ok", answer.strip().removeprefix("git version "))


def folders() -> Finding:
    """The folders that labs, settings and caches are kept in."""
    closed = [str(folder) for folder in _folders().values() if not _writable(folder)]
    if closed:
        remedy = "make them writable, or set XDG_DATA_HOME, XDG_STATE_HOME, XDG_CACHE_HOME, XDG_CONFIG_HOME"
        return Finding("folders", "missing", f"not writable: {', '.join(closed)}", remedy)
    return Finding("folders", "ok", "writable (`kernel-lab paths` lists them)")


def disk() -> Finding:
    """Space where labs and compiled kernels are kept."""
    free = {name: shutil.disk_usage(_existing(folder)).free for name, folder in _folders().items()}
    name = min(free, key=lambda key: free[key])
    detail = f"{free[name] / 1024**3:.1f} GiB free for {name}"
    if free[name] < DISK_LEAST_BYTES:
        return Finding("disk", "missing", detail, f"free some space under {_folders()[name]}")
    if free[name] < DISK_ENOUGH_BYTES:
        return Finding(
            "disk", "warning", detail, f"a long lab needs 2 GiB: free some under {_folders()[name]}"
        )
    return Finding("disk", "ok", detail)


def gpu() -> Finding:
    """NVIDIA GPUs; a lab can do without."""
    found = machine.gpus()
    if not found:
        return Finding("gpu", "note", "none found: labs judge statically, speeds are estimates")
    names = ", ".join(f"{card.name} ({card.memory_mib / 1024:.0f} GiB)" for card in found)
    held = "; ".join(f"{card['card']} is measured by {holder_text(card)}" for card in held_cards())
    about = f"{names}, driver {found[0].driver}"
    if held:
        return Finding("gpu", "note", f"{about}; {held}", "another lab waits until its end")
    return Finding("gpu", "ok", f"{about}; no lab measures on it now")


def terminal() -> Finding:
    """Whether the screen can be drawn here."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return Finding(
            "terminal", "note", "none here", "for the screen start from a terminal; --headless works"
        )
    size = shutil.get_terminal_size()
    encoding = (sys.stdout.encoding or "").lower().replace("-", "")
    detail = f"{os.environ.get('TERM', 'unknown')}, {size.columns}×{size.lines}, {encoding}"
    if encoding != "utf8":
        return Finding("terminal", "warning", detail, "set a UTF-8 locale, such as LANG=C.UTF-8")
    if size.columns < 80 or size.lines < 24:
        return Finding("terminal", "warning", detail, "80×24 or more shows everything")
    return Finding("terminal", "ok", detail)


def layers() -> list[Finding]:
    """What protects this machine from candidates, as the host itself reports it."""
    if machine.installed_version("triton") is None or machine.installed_version("torch") is None:
        return [Finding("sandbox", "note", "not asked: the host needs torch and triton")]
    from kernel_lab.engine.hostlink import HostLink

    async def hello(cache: Path, scratch: Path) -> dict[str, object]:
        host = HostLink(sys.executable, cache, scratch)
        try:
            await host.start()
            return dict((await host.call("hello")).facts)
        finally:
            await host.close()

    try:
        with tempfile.TemporaryDirectory(prefix="kernel-lab-doctor-") as folder:
            scratch = Path(folder)
            (scratch / "cache").mkdir()
            (scratch / "scratch").mkdir()
            timed = asyncio.wait_for(hello(scratch / "cache", scratch / "scratch"), HOST_TIMEOUT_S)
            facts = asyncio.run(timed)
    except (LabError, OSError, TimeoutError) as error:
        detail = str(error) or f"no answer within {HOST_TIMEOUT_S:.0f} s"
        return [
            Finding(
                "host", "missing", detail, "reinstall with pip install --force-reinstall 'kernel-lab[gpu]'"
            )
        ]
    found = [
        Finding("host", "ok", f"torch {facts.get('torch')}, triton {facts.get('triton')} loaded and warm")
    ]
    active = facts.get("layers")
    for name, state in active.items() if isinstance(active, dict) else ():
        on = str(state) == "active"
        remedy = "" if on else "candidates run without this layer: run as a user on a kernel that offers it"
        found.append(Finding(f"sandbox: {name}", "ok" if on else "warning", str(state), remedy))
    return found


def agents() -> Finding:
    """Agent programs that could write kernels."""
    found = [name for name in AGENT_PROGRAMS if shutil.which(name)]
    if not found:
        return Finding("agents", "note", "no agent program on the PATH; proposer `search` needs none")
    return Finding("agents", "note", f"on the PATH: {', '.join(found)}")


def keys() -> Finding:
    """Names of the keys in the environment; never a part of one."""
    found = [name for name in KEYS if os.environ.get(name)]
    if not found:
        return Finding("keys", "note", "none set; proposer `search` needs none")
    return Finding("keys", "note", f"set: {', '.join(found)}; never spent unasked")


def _folders() -> dict[str, Path]:
    from kernel_lab.engine import paths

    return {
        "settings": paths.config_dir(),
        "labs": paths.data_dir(),
        "state": paths.state_dir(),
        "cache": paths.cache_dir(),
    }


def _existing(folder: Path) -> Path:
    while not folder.exists() and folder.parent != folder:
        folder = folder.parent
    return folder


def _writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False
