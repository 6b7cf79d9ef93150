"""Follows one lab for the screens: looks ten times a second, in one thread, and reports only what changed.

Every question to the ledger goes through `call`, so that the connection stays in its thread and no pane
ever waits for a disk.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol, TypeVar

from kernel_lab.engine.errors import LabError
from kernel_lab.engine.ledger.records import Record
from kernel_lab.engine.ledger.replay import ReplayReader
from kernel_lab.engine.ledger.views import ExperimentRow, IdeaRow, LabView, OpenQuestion
from kernel_lab.tui.model import Position, Update

T = TypeVar("T")

POLL_S = 0.1
STREAM_S = 0.2
"""Least time between two updates that hold nothing but streamed text: 5 a second is smooth enough."""

MEASURING_S = 0.5
"""Least time between two updates while this machine measures speed."""

ALIVE_S = 2.0
"""How often to ask whether the engine is still there when nothing else happens."""

MANY = 200
"""Changed experiments from which on all later rows are read at once."""

FIRST_PAGE = 300
"""Rows that the first look reads; the rest follows when they are on the screen."""


class Reader(Protocol):
    """What the feed needs of a session's reader, live or replaying."""

    position: int

    def poll(self) -> list[Record]: ...
    def now(self) -> dict[str, Any]: ...
    def view(self) -> LabView: ...
    def experiments(
        self,
        task: str | None = None,
        limit: int | None = None,
        after: int | None = None,
        before: int | None = None,
    ) -> list[ExperimentRow]: ...
    def experiment(self, n: int) -> ExperimentRow | None: ...
    def records(
        self, after: int = 0, limit: int | None = None, experiment: int | None = None
    ) -> list[Record]: ...
    def blob(self, sha: str) -> bytes: ...
    def ideas(self) -> list[IdeaRow]: ...
    def open_questions(self) -> list[OpenQuestion]: ...
    def close(self) -> None: ...


class Feed:
    """One lab's updates. `on_update` is called on the event loop, one update at a time.

    `stamp` answers without delay something that changes whenever the ledger's files do; without it every
    look goes to the ledger.
    """

    def __init__(
        self,
        open_reader: Callable[[], Reader],
        on_update: Callable[[Update], None],
        on_error: Callable[[LabError], None],
        *,
        stamp: Callable[[], object] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._open_reader = open_reader
        self._on_update = on_update
        self._on_error = on_error
        self._stamp = stamp
        self._stamped: object = None
        self._looked_at = 0.0
        self._clock = clock
        self._thread = ThreadPoolExecutor(1, "ledger")
        self._reader: Reader | None = None
        self._now: Mapping[str, Any] = {}
        self._sent_at = 0.0
        self._asked_alive_at = 0.0
        self._older_than: int | None = None
        self._engine_alive: bool | None = None
        self._position: Position | None = None
        self._anew = False
        self._poked = False
        self._held_back = False

    async def call(self, ask: Callable[[Reader], T]) -> T:
        """Ask the reader something in its thread."""

        def asked() -> T:
            return ask(self._opened())

        return await asyncio.get_running_loop().run_in_executor(self._thread, asked)

    def poke(self) -> None:
        """Look at once: something was asked of the lab just now."""
        self._poked = True

    def begin_anew(self) -> None:
        """Read everything again: the reader's position was moved."""
        self._anew = True

    async def run(self) -> None:
        """Follow until cancelled. An error of the ledger is reported once and ends it."""
        try:
            await self._look(self._first)
            while True:
                if self._older_than is not None:
                    await self._look(self._older)
                    continue
                await asyncio.sleep(POLL_S)
                if self._worth_a_look():
                    await self._look(self._next)
        except LabError as error:
            self._on_error(error)
        finally:
            self.close()

    def close(self) -> None:
        """Close the reader in its own thread and wait for nothing."""
        self._thread.submit(self._close_reader)
        self._thread.shutdown(wait=False)

    def _worth_a_look(self) -> bool:
        """Whether the ledger's files changed, or anything else asks for a look. Costs microseconds."""
        moment = self._clock()
        stamp = None if self._stamp is None else self._stamp()
        quiet = stamp is not None and stamp == self._stamped and not self._held_back
        if quiet and not self._poked and not self._anew and moment - self._looked_at < ALIVE_S:
            return False
        self._stamped, self._poked, self._looked_at = stamp, False, moment
        return True

    async def _look(self, look: Callable[[Reader], Update | None]) -> None:
        update = await self.call(look)
        if update is not None and not update.empty:
            self._on_update(update)

    # ---- in the reader's thread

    def _opened(self) -> Reader:
        if self._reader is None:
            self._reader = self._open_reader()
        return self._reader

    def _close_reader(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def _first(self, reader: Reader) -> Update:
        """The whole of the lab: the newest rows now, older ones by `_older`."""
        self._anew = False
        rows = reader.experiments(limit=FIRST_PAGE)
        self._older_than = rows[0].id if len(rows) == FIRST_PAGE else None
        self._now = reader.now()
        view = reader.view()
        self._engine_alive = view.engine_alive
        return Update(
            reset=True,
            view=view,
            rows=tuple(rows),
            now=self._now,
            questions=tuple(reader.open_questions()),
            ideas=tuple(reader.ideas()),
            current=self._events_of(reader, rows[-1].id) if rows else (),
            position=position_of(reader),
        )

    def _events_of(self, reader: Reader, experiment: int) -> tuple[Record, ...]:
        """Events up to the reader's position: what comes after it will be polled."""
        return tuple(r for r in reader.records(experiment=experiment) if r.seq <= reader.position)

    def _older(self, reader: Reader) -> Update:
        rows = reader.experiments(limit=2_000, before=self._older_than)
        self._older_than = rows[0].id if len(rows) == 2_000 else None
        return Update(rows=tuple(rows))

    def _next(self, reader: Reader) -> Update | None:
        if self._anew:
            return self._first(reader)
        moment = self._clock()
        now = reader.now()
        if now.get("timed") or (
            now.get("phase") == "speed" and now.get("measuring") and moment - self._sent_at < MEASURING_S
        ):
            self._held_back = True
            return None
        self._held_back = False
        records = reader.poll()
        position = position_of(reader)
        if not records:
            return self._quiet(reader, now, moment, position)
        self._sent_at, self._now = moment, now
        numbers = sorted(
            {n for record in records if isinstance(n := getattr(record.event, "experiment", None), int)}
        )
        if len(numbers) > MANY:
            rows = reader.experiments(after=numbers[0] - 1)
        else:
            rows = [row for n in numbers if (row := reader.experiment(n)) is not None]
        view = reader.view()
        self._engine_alive, self._asked_alive_at = view.engine_alive, moment
        return Update(
            view=view,
            rows=tuple(rows),
            now=now,
            questions=tuple(reader.open_questions()),
            ideas=tuple(reader.ideas()) if any(r.type.startswith("idea_") for r in records) else None,
            records=tuple(records),
            position=position,
        )

    def _quiet(
        self, reader: Reader, now: Mapping[str, Any], moment: float, position: Position | None
    ) -> Update | None:
        """Nothing was recorded: at most streamed text, a replay's position, or an engine that went."""
        view = None
        if moment - self._asked_alive_at >= ALIVE_S / 2:
            self._asked_alive_at = moment
            seen = reader.view()
            if seen.engine_alive != self._engine_alive:
                self._engine_alive, view = seen.engine_alive, seen
        changed = now != self._now
        if changed and moment - self._sent_at < STREAM_S:
            self._held_back, changed = True, False
        if changed:
            self._now, self._sent_at = now, moment
        if position == self._position:
            position = None
        else:
            self._position = position
        if view is None and not changed and position is None:
            return None
        return Update(view=view, now=now if changed else None, position=position)


def position_of(reader: Reader) -> Position | None:
    """Where a replaying reader stands; None for a live one."""
    if not isinstance(reader, ReplayReader):
        return None
    return Position(reader.position, reader.length, reader.pace, reader.playing)
