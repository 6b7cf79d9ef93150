"""A lab without a screen: the events of its ledger as lines for people or as JSON, until the engine stops.

Loads no Textual. Ctrl+C asks the engine to stop after the running experiment, a second time to stop now, a
third time leaves it running; SIGTERM asks it to stop now. Losing the terminal leaves the engine running.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path
from types import FrameType

from kernel_lab.engine import session
from kernel_lab.engine.commands import Stop
from kernel_lab.engine.errors import DiskFull, LabError, UsageError
from kernel_lab.engine.events import EngineStopped
from kernel_lab.engine.ledger.records import Record, loads
from kernel_lab.tui import output
from kernel_lab.tui.narrator import Narrator

POLL_S = 0.1
LEAVING_S = 10.0
"""How long an engine that said goodbye may take to let go of the lab."""


def follow(path: Path, after: int, *, as_json: bool) -> int:
    """Print every event behind position `after` until the engine stops.

    Returns 0 if it ended on purpose. Raises LabError with one line if it ended with an error or without a
    word.
    """
    reader = session.Reader(path, after=after)
    narrator = None if as_json else Narrator()
    signals = _Signals(path)
    with signals:
        while True:
            alive = session.engine_pid(path) is not None
            records = reader.poll()
            for record in records:
                if narrator is None:
                    print_event(record)
                else:
                    for line in narrator.lines(record):
                        print(line, flush=True)
                if isinstance(record.event, EngineStopped):
                    return _stopped(path, record.event)
            if not alive and not records:
                raise LabError(_last_words(path))
            signals.ask()
            time.sleep(POLL_S)


def watch(path: Path) -> int:
    """Print every event of a lab as JSON: those so far, and those that come while its engine runs."""
    reader = session.Reader(path)
    while True:
        alive = session.engine_pid(path) is not None
        records = reader.poll()
        for record in records:
            print_event(record)
        if not alive and not records:
            return 0
        if not records:
            time.sleep(POLL_S)


def print_event(record: Record) -> None:
    """One event as one line of JSON: `seq`, `time` (seconds since the epoch), `type`, and its fields."""
    output.print_json_line(
        {"seq": record.seq, "time": record.time, "type": record.type, **loads(record.body)}
    )


def _stopped(path: Path, event: EngineStopped) -> int:
    deadline = time.monotonic() + LEAVING_S
    while session.engine_pid(path) is not None and time.monotonic() < deadline:
        time.sleep(POLL_S)
    if event.reason == "error":
        raise LabError(f"{event.text} (nothing is lost: `kernel-lab run --lab {path}` goes on)")
    return 0


def _last_words(path: Path) -> str:
    log = path / "engine.log"
    return f"the engine of {path} ended without a word: see {log}; `kernel-lab run --lab {path}` goes on"


class _Signals:
    """Turns Ctrl+C and SIGTERM into requests to the engine while lines are printed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.pressed = 0
        self.terminated = False
        self.asked = 0

    def __enter__(self) -> None:
        wanted = (signal.SIGINT, signal.SIGTERM)
        self.before = {number: signal.signal(number, self._pressed) for number in wanted}

    def __exit__(self, *error: object) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)

    def _pressed(self, number: int, frame: FrameType | None) -> None:
        self.pressed += 1
        self.terminated = self.terminated or number == signal.SIGTERM
        if self.pressed > 2 and number == signal.SIGINT:
            raise KeyboardInterrupt

    def ask(self) -> None:
        """Hand on what was pressed since the last call."""
        if self.asked == self.pressed:
            return
        self.asked = self.pressed
        now = self.pressed > 1 or self.terminated
        with contextlib.suppress(UsageError):  # it has just ended
            try:
                session.send(self.path, Stop(now=now), output.PERSON)
            except DiskFull:  # the request cannot be written: ask the process itself, which stops now
                engine = session.engine_pid(self.path)
                if engine is not None:
                    os.kill(engine, signal.SIGTERM)
                now = True
        when = (
            "now" if now else "after the running experiment (Ctrl+C again: now; once more: leave it running)"
        )
        output.note(f"stopping {when}")
