"""Copying that works over SSH and never fails loudly.

A local desktop's own tool comes first. Else OSC 52 asks the terminal itself (wrapped for tmux, which would
swallow it), and a file is written as well, because no terminal answers whether it obeyed.
"""

from __future__ import annotations

import base64
import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

OSC52_LIMIT = 74_000
"""Bytes of text that common terminals accept in one OSC 52 sequence after base64."""

_TOOLS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("WAYLAND_DISPLAY", "wl-copy", ()),
    ("DISPLAY", "xclip", ("-selection", "clipboard")),
    ("DISPLAY", "xsel", ("--clipboard", "--input")),
    ("", "pbcopy", ()),
    ("WSL_DISTRO_NAME", "clip.exe", ()),
)


@dataclass(frozen=True, slots=True)
class Copied:
    """Where the text went, as a line for a toast."""

    how: str


def osc52(text: str, environment: Mapping[str, str]) -> str:
    """The escape sequence that puts `text` on the terminal's clipboard, wrapped if tmux is between."""
    payload = base64.b64encode(text.encode("utf-8", "replace")).decode()
    sequence = f"\x1b]52;c;{payload}\x07"
    return through_tmux(sequence, environment)


def through_tmux(sequence: str, environment: Mapping[str, str]) -> str:
    """`sequence` wrapped for tmux or screen, which would keep it to themselves otherwise."""
    if environment.get("TMUX"):
        escaped = sequence.replace("\x1b", "\x1b\x1b")
        return f"\x1bPtmux;{escaped}\x1b\\"
    if environment.get("TERM", "").startswith("screen"):
        return f"\x1bP{sequence}\x1b\\"
    return sequence


def copy(
    text: str,
    write: Callable[[str], None] | None,
    *,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> Copied:
    """Copy `text`. `write` sends a sequence to the terminal; None if there is none. Never raises."""
    environment = os.environ if environment is None else environment
    lines = text.count("\n") + 1
    what = f"{lines} line{'s' if lines != 1 else ''}"
    if _by_tool(text, environment):
        return Copied(f"copied {what}")
    sent = False
    if write is not None and len(text.encode("utf-8", "replace")) <= OSC52_LIMIT:
        with contextlib.suppress(OSError, ValueError):
            write(osc52(text, environment))
            sent = True
    path = _to_file(text, folder)
    if sent and path:
        return Copied(f"copied {what} by the terminal, and to {path}")
    if path:
        return Copied(f"saved {what} to {path}")
    return Copied(
        f"copied {what} by the terminal" if sent else "could not copy: no clipboard and no room for a file"
    )


def _by_tool(text: str, environment: Mapping[str, str]) -> bool:
    if environment.get("SSH_CONNECTION"):
        return False
    for needs, tool, arguments in _TOOLS:
        if needs and not environment.get(needs):
            continue
        path = shutil.which(tool, path=environment.get("PATH"))
        if path is None:
            continue
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            done = subprocess.run(
                [path, *arguments],
                input=text.encode("utf-8", "replace"),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=1.0,
                check=False,
            )
            if done.returncode == 0:
                return True
    return False


def _to_file(text: str, folder: Path | None) -> Path | None:
    try:
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            path = folder / "copied.txt"
        else:
            path = Path(tempfile.mkdtemp(prefix="kernel-lab-")) / "copied.txt"
        path.write_text(text, encoding="utf-8", errors="replace")
    except OSError:
        return None
    return path
