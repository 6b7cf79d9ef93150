"""Labs: open, start, resume or replay; and in one line what this machine lacks, if anything."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernel_lab.engine.errors import LabError
from kernel_lab.tui import bindings, fmt, theme
from kernel_lab.tui.actions import Situation
from kernel_lab.tui.output import PERSON
from kernel_lab.tui.screens.base import PlaceScreen
from kernel_lab.tui.sources import LabSource, recordings
from kernel_lab.tui.text import one_line, wrapped
from kernel_lab.tui.widgets.bars import Bar, KeyBar
from kernel_lab.tui.widgets.lab_list import LabList, LabRow
from kernel_lab.tui.widgets.table import Table
from rich.text import Text
from textual import events
from textual.app import ComposeResult

if TYPE_CHECKING:
    from kernel_lab.tui.doctor import Finding

READY = "Labs run here without a GPU: kernels are really compiled and checked, speeds are estimated."
LOOK_EVERY_S = 5.0


class LabsScreen(PlaceScreen):
    """The first screen."""

    place = "labs"
    BINDINGS = bindings.for_place("labs")

    def __init__(self) -> None:
        super().__init__()
        self._missing = ""
        self._looked = False

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
        self.set_interval(LOOK_EVERY_S, self._look_again)

    def on_screen_resume(self) -> None:
        self.run_worker(self._look(), group="labs", exclusive=True, exit_on_error=False)

    def _look_again(self) -> None:
        """Labs change while the list is in sight: other terminals and engines write them."""
        if self._looked and self.is_current:
            self.run_worker(self._list(), group="labs", exclusive=True, exit_on_error=False)

    async def _list(self) -> None:
        self.query_one(LabList).set_rows(await asyncio.to_thread(_labs_and_recordings))
        self.refresh_keys()

    async def _look(self) -> None:
        """Labs and findings are looked for after the first paint, off the event loop."""
        await self._list()
        self._missing = await asyncio.to_thread(missing_here)
        self._looked = True
        self._draw_findings()
        self.refresh_keys()

    def on_resize(self, _: events.Resize) -> None:
        self._draw_findings()

    def _draw_findings(self) -> None:
        if not self._looked:
            return
        words, style = (self._missing, theme.WARN) if self._missing else (READY, theme.LABEL)
        width = max(20, self.size.width - 2)
        self.query_one("#findings", Bar).show(
            [Text.styled(f" {line}", style) for line in wrapped(words, width)[:2]]
        )

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

    def do_doctor(self) -> None:
        from kernel_lab.tui.screens.dialogs import TextDialog

        async def looking() -> None:
            self.tell("looking at this machine ...")
            found = await asyncio.to_thread(_findings)
            self.app.push_screen(TextDialog("Doctor", lambda width: finding_lines(found, width)))

        self.run_worker(looking(), group="doctor", exclusive=True, exit_on_error=False)

    def do_rename_lab(self) -> None:
        from kernel_lab.tui.screens.dialogs import LineDialog

        path = self._lab_path()
        if path is None:
            return

        def chosen(name: str | None) -> None:
            if name is not None:
                self._manage(lambda manage: f"it is {manage.rename_lab(path, name).name} now")

        dialog = LineDialog(f"Rename {path.name} to", "a new name", typed=self.lab_app.guard.typed)
        self.app.push_screen(dialog, chosen)

    def do_prune_lab(self) -> None:
        from kernel_lab.tui.screens.dialogs import Choice, ChoiceDialog

        path = self._lab_path()
        if path is None:
            return

        def pruned(manage: Any) -> str:
            count, freed = manage.prune_lab(path)
            return f"{count} experiments pruned, {fmt.scale_size(freed)} freed"

        def chosen(key: str | None) -> None:
            if key == "p":
                self._manage(pruned)

        choices = [
            Choice("p", "prune", "logs and compiled files of what was not kept; numbers and texts stay"),
            Choice("c", "cancel"),
        ]
        self.app.push_screen(ChoiceDialog(f"Prune the artefacts of {path.name}?", choices), chosen)

    def do_delete_lab(self) -> None:
        from kernel_lab.tui.screens.dialogs import LineDialog

        path = self._lab_path()
        if path is None:
            return

        def chosen(name: str | None) -> None:
            if name is None:
                return
            if name != path.name:
                self.tell(f"{name!r} is not its name: nothing was deleted", "warning")
                return

            def deleted(manage: Any) -> str:
                manage.delete_lab(path)
                return f"{path.name} is deleted"

            self._manage(deleted)

        title = f"Delete {path.name} for ever? Type its name"
        self.app.push_screen(LineDialog(title, path.name, typed=self.lab_app.guard.typed), chosen)

    def _lab_path(self) -> Path | None:
        row = self.query_one(LabList).selected
        return row.lab.path if row is not None and row.lab is not None else None

    def _manage(self, work: Callable[[Any], str]) -> None:
        """Do something to a whole lab off the event loop, say what came of it, and look again."""

        async def managing() -> None:
            from kernel_lab.engine import lab_manage

            try:
                said = await asyncio.to_thread(work, lab_manage)
            except LabError as error:
                self.tell(str(error), "error")
                return
            self.tell(said)
            await self._look()

        self.run_worker(managing(), group="manage", exclusive=True, exit_on_error=False)

    def do_back(self) -> None:
        self.tell("this is the first screen: q leaves")


def _labs_and_recordings() -> list[LabRow]:
    from kernel_lab.engine.lab import list_labs

    rows = [LabRow(lab=lab) for lab in list_labs()]
    return rows + [LabRow(recording=recording) for recording in recordings()]


def _findings() -> list[Finding]:
    from kernel_lab.tui import doctor

    return list(doctor.findings(ask_host=False))


def finding_lines(found: Sequence[Finding], width: int) -> list[Text]:
    """What the doctor found, each with its remedy below it."""
    styles = {"ok": theme.GOOD, "note": theme.LABEL, "warning": theme.WARN, "missing": theme.BAD}
    lines: list[Text] = []
    for finding in found:
        parts = wrapped(one_line(finding.detail), max(16, width - 23)) or [""]
        line = Text.styled(f"{finding.state:<8} ", styles[finding.state])
        lines.append(line.append(f"{finding.name:<13} ", theme.BOLD).append(parts[0], theme.PLAIN))
        lines += [Text(" " * 23 + part) for part in parts[1:]]
        for part in wrapped(finding.remedy, max(16, width - 25)) if finding.remedy else ():
            lines.append(Text.styled(" " * 23 + part, theme.WARN))
    ready = all(finding.state != "missing" for finding in found)
    words = "labs run here" if ready else "mend what is missing; recordings can be watched without it"
    return [*lines, Text(), Text.styled(words, theme.GOOD if ready else theme.BAD)]


def missing_here() -> str:
    """What this machine lacks to run an engine, in one line with the remedy; empty if nothing."""
    from kernel_lab.tui import machine

    try:
        machine.require_compiler()
    except LabError as problem:
        return str(problem)
    return ""
