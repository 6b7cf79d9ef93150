"""One lab under a screen: its state, its feed, what is asked of it, and what is sent to it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kernel_lab.engine.commands import Command
from kernel_lab.engine.errors import LabError
from kernel_lab.engine.ledger.views import ExperimentRow
from kernel_lab.tui import diffs
from kernel_lab.tui.detail import Detail, fold
from kernel_lab.tui.diffs import Diff
from kernel_lab.tui.feed import Feed, Reader
from kernel_lab.tui.model import LabModel, Part, Update
from kernel_lab.tui.output import PERSON
from kernel_lab.tui.sources import LabSource, ReplaySource

Listener = Callable[[frozenset[Part], frozenset[int]], None]
"""Called with the parts that changed and the experiments whose rows changed."""

ANSWER_S = 2.0
BASES = ("parent", "champion", "seed")


class LabSession:
    """State of one lab, kept up to date while `run` runs."""

    def __init__(self, source: LabSource | ReplaySource, on_error: Callable[[str], None]) -> None:
        self.source = source
        self.model = LabModel()
        self.listeners: list[Listener] = []
        self._on_error = on_error
        folder = self.folder = source.lab_dir if isinstance(source, LabSource) else source.path
        self._files = (folder / "lab.db", folder / "lab.db-wal")
        self.feed = Feed(
            self._open_reader,
            self._take,
            lambda error: on_error(str(error)),
            stamp=None if self.replaying else self._stamp,
        )

    @property
    def replaying(self) -> bool:
        return isinstance(self.source, ReplaySource)

    @property
    def lab_dir(self) -> Path | None:
        return self.source.lab_dir if isinstance(self.source, LabSource) else None

    async def run(self) -> None:
        """Follow the lab until cancelled."""
        await self.read_settings()
        await self.feed.run()

    async def read_settings(self) -> None:
        """Read lab.toml, which people may change while no engine runs."""
        from kernel_lab.engine.lab import RESTORED, settings_of

        if self.lab_dir is not None:
            try:
                config, restored = await asyncio.to_thread(settings_of, self.lab_dir)
            except LabError as error:
                self._on_error(str(error))
            else:
                self.model.settings = config.to_dict()
                if restored:
                    self._on_error(RESTORED)

    def _open_reader(self) -> Reader:
        from kernel_lab.engine.session import Reader as LiveReader
        from kernel_lab.engine.session import ReplayReader

        if isinstance(self.source, LabSource):
            return LiveReader(self.source.lab_dir, after=None)
        reader = ReplayReader(self.source.path, speed=self.source.speed)
        reader.play()
        return reader

    def _stamp(self) -> object:
        """Size and time of the ledger's files: another value after every commit."""
        stamp: list[tuple[int, int]] = []
        for path in self._files:
            try:
                status = path.stat()
            except OSError:
                continue
            stamp.append((status.st_mtime_ns, status.st_size))
        return stamp

    def _take(self, update: Update) -> None:
        parts = self.model.apply(update)
        if not parts:
            return
        changed = frozenset(row.experiment for row in self.model.changed_rows)
        for listener in list(self.listeners):
            listener(parts, changed)

    # ---- asking

    async def detail(self, experiment: int) -> tuple[Detail, ExperimentRow | None]:
        """Everything known about one experiment."""
        records, row = await self.feed.call(
            lambda reader: (reader.records(experiment=experiment), reader.experiment(experiment))
        )
        return fold(experiment, ((record.time, record.event) for record in records)), row

    async def text(self, sha: str | None) -> str | None:
        """A candidate's text, None if the ledger has none."""
        if not sha:
            return None
        try:
            blob = await self.feed.call(lambda reader: reader.blob(sha))
        except LabError:
            return None
        return blob.decode("utf-8", "replace")

    async def diff(self, detail: Detail, base: str) -> tuple[Diff | None, str]:
        """The candidate against its parent, the champion or the seed, and a heading that says which."""
        new = await self.text(detail.source_sha)
        if new is None:
            return None, "no candidate to show yet"
        row = self._base_row(detail, base)
        if row is None or row.id == detail.experiment:
            heading = f"#{detail.experiment} as it stands (it is the {base} itself)" if row else "the seed"
            return diffs.whole(new), heading
        old = await self.text(row.source_sha)
        if old is None:
            return diffs.whole(new), f"#{detail.experiment} as it stands: #{row.id} has no text"
        diff = await asyncio.to_thread(diffs.unified, old, new)
        return diff, f"#{detail.experiment} against #{row.id} ({base})"

    def _base_row(self, detail: Detail, base: str) -> ExperimentRow | None:
        if base == "champion":
            return self.model.champion(detail.task)
        if base == "seed":
            return self.model.seed(detail.task)
        return None if detail.parent is None else self.model.rows.get(detail.parent)

    # ---- sending

    async def send(self, command: Command) -> str | None:
        """Send a command and wait a moment for its answer; None if the engine has not answered yet.

        Raises LabError if it could not be sent.
        """
        from kernel_lab.engine import session

        lab_dir = self.lab_dir
        if lab_dir is None:
            raise LabError("this is a recording: nothing can be changed in it")
        number = await asyncio.to_thread(session.send, lab_dir, command, PERSON)
        self.feed.poke()
        result = await asyncio.to_thread(session.wait_result, lab_dir, number, ANSWER_S)
        self.feed.poke()
        return result

    async def start_engine(self) -> None:
        """Start the lab's engine. Raises LabError with its own last line if it does not run."""
        from kernel_lab.engine import session

        if self.lab_dir is not None:
            await asyncio.to_thread(session.start_engine, self.lab_dir)
            await self.read_settings()
            self.feed.poke()

    # ---- a replay's controls

    async def replay(self, change: Callable[[Any], None], *, moved: bool = False) -> None:
        """Change the replaying reader: `moved` if its position jumped."""
        await self.feed.call(change)
        if moved:
            self.feed.begin_anew()
        self.feed.poke()
