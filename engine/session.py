"""What a front end needs of a lab: start its engine, follow its events, send commands, replay.

A front end never writes events. It polls a `Reader` (live, attached or headless) or a `ReplayReader`
(recorded), which answer the same questions, and sends commands; closing it changes nothing for the engine.
"""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

from kernel_lab.engine.commands import Command, Kill, Stop
from kernel_lab.engine.environment import without_secrets
from kernel_lab.engine.errors import LabBusy, LabError, UsageError
from kernel_lab.engine.lab import LOG, Lab, LabConfig, open_lab
from kernel_lab.engine.ledger import connect
from kernel_lab.engine.ledger.lock import engine_pid
from kernel_lab.engine.ledger.records import Record
from kernel_lab.engine.ledger.replay import ReplayReader
from kernel_lab.engine.ledger.store import DATABASE, EventReader, Ledger

__all__ = ["Reader", "ReplayReader", "engine_pid", "send", "start_engine", "wait_result"]

ENGINE_COMMAND = (sys.executable, "-P", "-m", "kernel_lab.engine")
"""-P: a file in the working folder must not be taken for a module."""

_SETTLED_S = 3.0
"""An engine that owns its lab this long has started, even if it has nothing to say yet."""

_children: list[subprocess.Popen[bytes]] = []
"""Engines that this process started: kept so that their end can be collected."""


def start_engine(lab_dir: Path, *, timeout_s: float = 30.0) -> int:
    """Start the engine of a lab as a process of its own, which outlives this one; its process id.

    Returns when the engine owns the lab. Raises LabBusy if one does already, and the engine's own last line
    if it ends before that.
    """
    lab_dir = lab_dir.absolute()
    owner = engine_pid(lab_dir)
    if owner is not None:
        raise LabBusy(
            f"lab {lab_dir.name} is already run by process {owner}: "
            f"open it with `kernel-lab open {lab_dir.name}`"
        )
    with closing(open_lab(lab_dir)) as lab:
        environment = engine_environment(lab.config)
        last_seq = lab.ledger.last_seq()
    _children[:] = [child for child in _children if child.poll() is None]
    log = lab_dir / LOG
    with log.open("ab") as output:
        begin = output.tell()
        child = subprocess.Popen(
            [*ENGINE_COMMAND, str(lab_dir)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=lab_dir,
            env=environment,
            start_new_session=True,
        )
    _children.append(child)
    _wait_until_alive(child, lab_dir, last_seq, begin, timeout_s)
    return child.pid


def engine_environment(config: LabConfig) -> dict[str, str]:
    """What the engine of a lab gets: secrets only as its proposer needs them, by their exact names."""
    from kernel_lab.engine.proposers.agent.make import needed_variables

    return without_secrets(needed_variables(config))


def _wait_until_alive(
    child: subprocess.Popen[bytes], lab_dir: Path, last_seq: int, log_begin: int, timeout_s: float
) -> None:
    begin, owned_since = time.monotonic(), None
    with closing(Reader(lab_dir, after=last_seq)) as reader:
        while True:
            if child.poll() is not None:
                if child.returncode == 0:
                    return  # it had nothing left to do, and its last event says why
                raise LabError(_last_line(lab_dir / LOG, log_begin, child.returncode))
            now = time.monotonic()
            if owned_since is None and engine_pid(lab_dir) == child.pid:
                owned_since = now
            if owned_since is not None and (reader.poll() or now - owned_since > _SETTLED_S):
                return
            if now - begin > timeout_s:
                child.kill()
                child.wait()
                raise LabError(
                    f"the engine of {lab_dir.name} did not start in {timeout_s:.0f} s: read {lab_dir / LOG}"
                )
            time.sleep(0.02)


def _last_line(log: Path, begin: int, status: int) -> str:
    with log.open("rb") as file:
        file.seek(begin)
        lines = file.read()[-8192:].decode("utf-8", "replace").split("\n")
    said = [line.strip() for line in lines if line.strip()]
    return (
        said[-1].removeprefix("kernel-lab: ")
        if said
        else f"the engine ended at once with status {status}: read {log}"
    )


class Reader(EventReader):
    """Follows a lab from a process that does not own it. Cheap to poll ten times a second."""

    def __init__(self, lab_dir: Path, after: int | None = 0) -> None:
        """`after`: sequence number behind which `poll` begins; None for what happens from now on."""
        self.lab_dir = lab_dir.absolute()
        self.path = self.lab_dir / DATABASE
        ledger = Ledger.open(self.path, readonly=True)
        self.connection = ledger.connection
        self.position = ledger.last_seq() if after is None else after
        self._version = -1

    def poll(self, limit: int = 2000) -> list[Record]:
        """Events since the last call, at most `limit` of them; the rest come with the next call."""
        if not self.changed():
            return []
        records = self.records(after=self.position, limit=limit)
        if records:
            self.position = records[-1].seq
        if len(records) == limit:
            self._version = -1
        return records

    def changed(self) -> bool:
        """Whether anything was committed since the last `poll` that saw everything."""
        with connect.errors(self.path):
            version = int(self.connection.execute("PRAGMA data_version").fetchone()[0])
        changed = version != self._version
        self._version = version
        return changed

    def engine_alive(self) -> bool:
        _children[:] = [child for child in _children if child.poll() is None]
        return engine_pid(self.lab_dir) is not None


def send(lab_dir: Path, command: Command, by: str) -> int:
    """Ask a lab's engine for something; the command's number. It waits if no engine runs.

    Raises UsageError for what an engine would refuse as the lab stands, if none runs that could say so.
    """
    with closing(open_lab(lab_dir)) as lab:
        if engine_pid(lab_dir) is None:
            _check(lab, command)
        return lab.ledger.send(command, by)


def _check(lab: Lab, command: Command) -> None:
    from kernel_lab.engine.control import check_command  # only here: a screen that starts can do without
    from kernel_lab.engine.tasks import load_task

    if isinstance(command, Stop | Kill):  # left in the lab it would hit the next engine
        raise UsageError(f"no engine runs in {lab.path}, so there is nothing to end: see `kernel-lab labs`")

    def entry_of(task: str) -> str:
        word = next((word for word in lab.config.tasks if Path(word).name == task), None)
        if word is None:
            raise KeyError(task)
        return load_task(word).entry

    check_command(lab.ledger, entry_of, command)


def wait_result(lab_dir: Path, command: int, timeout_s: float) -> str | None:
    """What came of a command; None if the engine has not answered in time."""
    deadline = time.monotonic() + timeout_s
    with closing(Ledger.open(lab_dir / DATABASE, readonly=True)) as ledger:
        while True:
            result = ledger.command_result(command)
            if result is not None or time.monotonic() >= deadline:
                return result
            time.sleep(0.05)
