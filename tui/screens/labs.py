"""Labs: open, start, resume or replay; and in one line what this machine lacks, if anything."""

from __future__ import annotations

import asyncio
from pathlib import Path

from kernel_lab.engine.errors import LabError
from kernel_lab.tui import bindings, theme
from kernel_lab.tui.actions import Situation
from kernel_lab.tui.output import PERSON
from kernel_lab.tui.screens.base import PlaceScreen
from kernel_lab.tui.sources import LabSource, recordings
from kernel_lab.tui.text import wrapped
from kernel_lab.tui.widgets.bars import Bar, KeyBar
from kernel_lab.tui.widgets.lab_list import LabList, LabRow
from kernel_lab.tui.widgets.table import Table
from rich.text import Text
from textual.app import ComposeResult

READY = "Labs run here without a GPU: kernels are really compiled and checked, speeds are estimated."


class LabsScreen(PlaceScreen):
    """The first screen."""

    place = "labs"
    BINDINGS = bindings.for_place("labs")

    def __init__(self) -> None:
        super().__init__()
        self._missing = ""

    def compose(self) -> ComposeResult:
        yield Bar(id="title")
        yield LabList(id="labs")
        yield Bar(id="findings")
        yield KeyBar(id="keys")

    def on_mount(self) -> None:
        title = Text.styled(" kernel-lab", theme.HEADING).append(
            "  faster attention kernels, and only what is proven", theme.LABEL
        )
        self.query_one("#title", Bar).show([title])
        self.query_one(LabList).focus()
        self.refresh_keys()

    def on_screen_resume(self) -> None:
        self.run_worker(self._look(), group="labs", exclusive=True, exit_on_error=False)

    async def _look(self) -> None:
        """Labs and findings are looked for after the first paint, off the event loop."""
        found = await asyncio.to_thread(_labs_and_recordings)
        self.query_one(LabList).set_rows(found)
        self._missing = await asyncio.to_thread(missing_here)
        words, style = (self._missing, theme.WARN) if self._missing else (READY, theme.LABEL)
        width = max(20, self.size.width - 2)
        self.query_one("#findings", Bar).show(
            [Text.styled(f" {line}", style) for line in wrapped(words, width)[:2]]
        )
        self.refresh_keys()

    def situation(self) -> Situation:
        row = self.query_one(LabList).selected
        lab = row.lab if row else None
        return Situation(
            place="labs",
            engine_alive=bool(lab and lab.engine_pid is not None),
            lab_selected=lab is not None and lab.problem is None,
            recording_selected=bool(row and row.recording),
            missing=self._missing,
        )

    def on_table_moved(self, event: Table.Moved) -> None:
        event.stop()
        self.refresh_keys()

    def on_table_chosen(self, event: Table.Chosen) -> None:
        event.stop()
        self.perform("open_lab")

    # ---- actions

    def do_open_lab(self) -> None:
        row = self.query_one(LabList).selected
        if row is None:
            return
        if row.recording is not None:
            self.lab_app.open_source(row.recording)
        elif row.lab is not None:
            self.lab_app.open_source(LabSource(row.lab.path))

    def do_start_lab(self) -> None:
        row = self.query_one(LabList).selected
        if row is not None and row.lab is not None:
            self.lab_app.start_and_open(row.lab.path)

    def do_stop(self) -> None:
        from kernel_lab.tui.screens.dialogs import Choice, ChoiceDialog

        row = self.query_one(LabList).selected
        if row is None or row.lab is None:
            return
        path = row.lab.path

        def chosen(key: str | None) -> None:
            if key in ("a", "n"):
                self.run_worker(self._stop(path, now=key == "n"), group="stop", exit_on_error=False)

        choices = [
            Choice("a", "after its experiment", "nothing is interrupted"),
            Choice("n", "now", "the experiment resumes from its last step next time"),
            Choice("c", "cancel", "the engine goes on"),
        ]
        self.app.push_screen(ChoiceDialog(f"Stop the engine of {row.lab.name}?", choices), chosen)

    async def _stop(self, path: Path, *, now: bool) -> None:
        from kernel_lab.engine import session
        from kernel_lab.engine.commands import Stop

        try:
            number = await asyncio.to_thread(session.send, path, Stop(now=now), PERSON)
            result = await asyncio.to_thread(session.wait_result, path, number, 2.0)
        except LabError as error:
            self.tell(str(error), "error")
            return
        self.tell(result or "sent; the engine has not answered yet")
        await self._look()

    def do_new_lab(self) -> None:
        from kernel_lab.tui.screens.start import StartScreen

        def made(path: Path | None) -> None:
            if path is not None:
                self.lab_app.start_and_open(path)

        self.app.push_screen(StartScreen(), made)

    def do_back(self) -> None:
        self.tell("this is the first screen: q leaves")


def _labs_and_recordings() -> list[LabRow]:
    from kernel_lab.engine.lab import list_labs

    rows = [LabRow(lab=lab) for lab in list_labs()]
    return rows + [LabRow(recording=recording) for recording in recordings()]


def missing_here() -> str:
    """What this machine lacks to run an engine, in one line with the remedy; empty if nothing."""
    from kernel_lab.tui import machine

    try:
        machine.require_compiler()
    except LabError as problem:
        return str(problem)
    return ""
