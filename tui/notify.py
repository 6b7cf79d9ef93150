"""Calling a person: the bell, the terminal's title, a desktop notification, when something begins to wait.

What is shown comes from a lab's name and numbers, cleaned; nothing of a model's or a kernel's words leaves
the screen this way.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Callable, Iterable, Mapping

from kernel_lab.tui.settings import Settings
from kernel_lab.tui.text import one_line

SAVE_TITLE, RESTORE_TITLE = "\x1b[22;2t", "\x1b[23;2t"
BELL = "\x07"


class Caller:
    """Says in the title how many things wait, and rings once for each that begins to wait.

    `write` sends a sequence to the terminal. What waited already when a lab was opened does not ring.
    """

    def __init__(
        self,
        settings: Settings,
        write: Callable[[str], None],
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._settings = settings
        self._write = write
        self._environment = os.environ if environment is None else environment
        self._known: frozenset[object] | None = None
        self._title = ""

    def waits(self, lab: str, questions: Iterable[object]) -> None:
        """These questions are open now; each is named by what makes it another one."""
        now = frozenset(questions)
        new = now - self._known if self._known is not None else frozenset()
        self._known = now
        self._show_title(lab, len(now))
        if new:
            if self._settings.bell:
                self._write(BELL)
            self._notify(f"{lab}: {len(now)} {'waits' if len(now) == 1 else 'wait'} for you")

    def leave(self) -> None:
        """Give the terminal its own title back."""
        if self._title:
            self._title = ""
            self._write(RESTORE_TITLE)

    def _show_title(self, lab: str, waiting: int) -> None:
        if not self._settings.title:
            return
        title = one_line(f"({waiting} waiting) {lab} - kernel-lab" if waiting else f"{lab} - kernel-lab", 120)
        if title == self._title:
            return
        if not self._title:
            self._write(SAVE_TITLE)
        self._title = title
        self._write(f"\x1b]2;{title}\x07")

    def _notify(self, words: str) -> None:
        # A semicolon separates the fields of these sequences.
        words = one_line(words, 200).replace(";", ",")
        match self._settings.desktop:
            case "osc9":
                self._through_tmux(f"\x1b]9;{words}\x07")
            case "osc777":
                self._through_tmux(f"\x1b]777;notify;kernel-lab;{words}\x07")
            case "notify-send":
                self._send(words)

    def _through_tmux(self, sequence: str) -> None:
        # Loaded when first needed: the first frame waits for everything above.
        from kernel_lab.tui.clipboard import through_tmux

        self._write(through_tmux(sequence, self._environment))

    def _send(self, words: str) -> None:
        program = shutil.which("notify-send", path=self._environment.get("PATH"))
        if program is None:
            return
        with contextlib.suppress(OSError):
            subprocess.Popen(
                [program, "--app-name=kernel-lab", "--", "kernel-lab", words],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=dict(self._environment),
                start_new_session=True,
            )
