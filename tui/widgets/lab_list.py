"""Labs and recordings in one list, one line each."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kernel_lab.tui import fmt, theme
from kernel_lab.tui.sources import ReplaySource
from kernel_lab.tui.text import fit, one_line, pad
from kernel_lab.tui.widgets.table import Table
from rich.style import Style
from rich.text import Text

if TYPE_CHECKING:
    from kernel_lab.engine.lab import LabSummary


@dataclass(frozen=True, slots=True)
class LabRow:
    """A lab of the person's, or a recording that came with the program."""

    lab: LabSummary | None = None
    recording: ReplaySource | None = None

    @property
    def name(self) -> str:
        return self.lab.name if self.lab else self.recording.name if self.recording else ""

    @property
    def place(self) -> Path | None:
        """Where it lies: labs in different folders may share a name."""
        return self.lab.path if self.lab else self.recording.path if self.recording else None


class LabList(Table):
    """The labs, last used first, then the recordings."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._rows: Sequence[LabRow] = ()
        self._cursor = 0
        self._loaded = False

    def set_rows(self, rows: Sequence[LabRow]) -> None:
        """Show these; the cursor stays on its lab if that is still there."""
        before = self.selected
        self._rows, self._loaded = list(rows), True
        places = [row.place for row in rows]
        self._cursor = places.index(before.place) if before and before.place in places else 0
        self.rows_changed()

    @property
    def selected(self) -> LabRow | None:
        return self._rows[self._cursor] if self._cursor < len(self._rows) else None

    def row_count(self) -> int:
        return len(self._rows)

    def cursor_row(self) -> int | None:
        return self._cursor if self._rows else None

    def set_cursor_row(self, row: int) -> None:
        self._cursor = row

    def heading(self, width: int) -> str:
        head = f"  {'state':<11}{'lab':<30}{'GPU':<14}{'model':<18}{'tried':>6}{'kept':>6}  last"
        return head if width >= 96 else f"  {'state':<11}{'lab':<30}{'tried':>6}{'kept':>6}  last"

    def empty_text(self) -> str:
        return "  no lab yet: press n to set one up" if self._loaded else "  looking for labs ..."

    def row_text(self, row: int, width: int) -> Text:
        shown = self._rows[row]
        if shown.recording is not None:
            line = Text.styled(f"  {'recording':<11}", theme.ACCENT).append(
                pad(one_line(shown.name, 60), 30), theme.BOLD
            )
            return line.append("a real lab, to replay: needs no GPU, no key, no torch", theme.LABEL)
        lab = shown.lab
        assert lab is not None  # noqa: S101  a row is one or the other
        state, style = _state(lab)
        line = Text.styled(f"  {state:<11}", style)
        line.append(pad(one_line(lab.name, 60), 29) + " ", theme.BOLD)
        if lab.problem is not None:
            return line.append(fit(one_line(lab.problem), max(0, width - line.cell_len)), theme.WARN)
        if width >= 96:
            line.append(
                pad(one_line(lab.gpu, 30), 13) + " " + pad(one_line(lab.model, 30), 17) + " ", theme.LABEL
            )
        line.append(f"{lab.experiments:>6}{lab.kept:>6}  ")
        when = fmt.ago(max(0.0, time.time() - lab.last_time)) if lab.last_time else "never started"
        line.append(f"{when:<14}", theme.DIM)
        return line.append(fit(one_line(_short(lab.path)), max(0, width - line.cell_len)), theme.DIM)

    def plain(self) -> str:
        return "\n".join(self.row_text(row, 200).plain.rstrip() for row in range(len(self._rows)))


def _short(path: Path) -> str:
    """The folder, with `~` for the home: labs in different places may share a name."""
    try:
        return f"~/{path.relative_to(Path.home())}"
    except (ValueError, RuntimeError):
        return str(path)


def _state(lab: LabSummary) -> tuple[str, Style]:
    if lab.problem is not None:
        return "broken", theme.BAD
    if lab.waiting:
        return "needs you", theme.WARN
    return ("running", theme.GOOD) if lab.engine_pid is not None else ("stopped", theme.LABEL)
