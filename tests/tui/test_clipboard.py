"""Copying works over SSH and tmux, and never fails loudly."""

from __future__ import annotations

import base64
import os
import stat
from pathlib import Path

from kernel_lab.tui.clipboard import OSC52_LIMIT, copy, osc52

REMOTE = {"SSH_CONNECTION": "1 2 3 4", "PATH": ""}


def test_the_terminal_is_asked_by_osc52() -> None:
    text = "naïve 漢字\nsecond"
    sequence = osc52(text, {})
    assert sequence.startswith("\x1b]52;c;") and sequence.endswith("\x07")
    assert base64.b64decode(sequence[7:-1]).decode() == text


def test_tmux_lets_the_sequence_through() -> None:
    sequence = osc52("x", {"TMUX": "/tmp/tmux"})
    assert sequence == "\x1bPtmux;\x1b\x1b]52;c;eA==\x07\x1b\\"


def test_over_ssh_the_terminal_is_asked_and_a_file_is_written(tmp_path: Path) -> None:
    written: list[str] = []
    copied = copy("hello\nthere", written.append, environment=REMOTE, folder=tmp_path)
    assert written == [osc52("hello\nthere", REMOTE)]
    assert (tmp_path / "copied.txt").read_text() == "hello\nthere"
    assert "2 lines" in copied.how and str(tmp_path) in copied.how


def test_what_is_too_long_for_the_terminal_goes_to_a_file(tmp_path: Path) -> None:
    written: list[str] = []
    copy("x" * (OSC52_LIMIT + 1), written.append, environment=REMOTE, folder=tmp_path)
    assert written == []
    assert len((tmp_path / "copied.txt").read_text()) == OSC52_LIMIT + 1


def test_a_terminal_that_is_gone_and_a_full_disk_only_make_a_line(tmp_path: Path) -> None:
    def broken(_: str) -> None:
        raise OSError("gone")

    file = tmp_path / "file"
    file.write_text("")
    copied = copy("x", broken, environment=REMOTE, folder=file / "below")
    assert "could not copy" in copied.how


def test_a_desktop_tool_comes_first(tmp_path: Path) -> None:
    tool = tmp_path / "wl-copy"
    tool.write_text(f"#!/bin/sh\nexec cat > {tmp_path / 'got'}\n")
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    environment = {"WAYLAND_DISPLAY": "w", "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    assert copy("abc", None, environment=environment, folder=tmp_path).how == "copied 1 line"
    assert (tmp_path / "got").read_text() == "abc"
