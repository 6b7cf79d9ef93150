"""What the screens show of a lab: rows, questions, the experiment at work, kept up to date by updates.

The feed hands in one `Update` after another; `apply` says which parts changed, so that a pane is drawn only
when it has something new to show. Lives on the UI's thread alone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from kernel_lab.engine import events as e
from kernel_lab.engine.ledger.records import Record
from kernel_lab.engine.ledger.views import ExperimentRow, IdeaRow, LabView, OpenQuestion
from kernel_lab.tui.detail import Detail, fold
from kernel_lab.tui.history import HistoryRow, history_row
from kernel_lab.tui.series import Scored

Part = Literal["reset", "view", "rows", "scores", "now", "queue", "ideas", "detail", "notice", "position"]
ALL_PARTS: frozenset[Part] = frozenset(
    ("reset", "view", "rows", "scores", "now", "queue", "ideas", "detail", "notice", "position")
)
NOTICES_KEPT = 50


@dataclass(frozen=True, slots=True)
class Position:
    """Where a replay stands: `seq` of `total` events, at `speed` times real time, playing or halted."""

    seq: int = 0
    total: int = 0
    speed: float = 1.0
    playing: bool = False


@dataclass(frozen=True, slots=True)
class Update:
    """What one look at the ledger found; None or empty is unchanged. `reset`: begin anew."""

    reset: bool = False
    view: LabView | None = None
    rows: tuple[ExperimentRow, ...] = ()
    now: Mapping[str, Any] | None = None
    questions: tuple[OpenQuestion, ...] | None = None
    ideas: tuple[IdeaRow, ...] | None = None
    records: tuple[Record, ...] = ()
    current: tuple[Record, ...] = ()
    """Every event of the newest experiment, with `reset`."""
    position: Position | None = None

    @property
    def empty(self) -> bool:
        return self == Update()


@dataclass(slots=True)
class LabModel:
    """State of one lab as the front end knows it."""

    view: LabView | None = None
    rows: dict[int, ExperimentRow] = field(default_factory=dict)
    history: dict[int, HistoryRow] = field(default_factory=dict)
    now: Mapping[str, Any] = field(default_factory=dict)
    questions: tuple[OpenQuestion, ...] = ()
    ideas: tuple[IdeaRow, ...] = ()
    detail: Detail | None = None
    """The newest experiment."""
    notices: deque[e.Notice] = field(default_factory=lambda: deque(maxlen=NOTICES_KEPT))
    position: Position = field(default_factory=Position)
    settings: Mapping[str, Any] | None = None
    """lab.toml as it is now; None for a recording, where only the settings at its creation are known."""
    card: Mapping[str, Any] = field(default_factory=dict)
    """The card as the last round of a race or the engine's start saw it: `clock_mhz`, `power_w`, …"""
    changed_rows: list[HistoryRow] = field(default_factory=list)
    """Rows that the last update changed."""

    def apply(self, update: Update) -> frozenset[Part]:
        """Take an update in; the parts that changed."""
        parts: set[Part] = set()
        self.changed_rows = []
        if update.reset:
            self._reset()
            parts |= ALL_PARTS
        if update.view is not None and update.view != self.view:
            champions = {} if self.view is None else self.view.champions
            self.view = update.view
            parts.add("view")
            if not self.card:
                found = update.view.environment.get("card")
                self.card = found if isinstance(found, Mapping) else {}
            if update.view.champions != champions:
                self._redo_rows({*champions.values(), *update.view.champions.values()})
                parts |= {"rows", "scores"}
        if update.rows:
            parts |= self._take_rows(update.rows)
        if update.now is not None and update.now != self.now:
            self.now = update.now
            parts.add("now")
        if update.questions is not None and update.questions != self.questions:
            self.questions = update.questions
            parts.add("queue")
        if update.ideas is not None and update.ideas != self.ideas:
            self.ideas = update.ideas
            parts.add("ideas")
        if update.current:
            number = max(self.rows, default=0)
            self.detail = fold(number, ((record.time, record.event) for record in update.current))
            self._see_card(update.current)
            parts.add("detail")
        parts |= self._take_records(update.records)
        if update.position is not None and update.position != self.position:
            self.position = update.position
            parts.add("position")
        return frozenset(parts)

    def _reset(self) -> None:
        self.rows.clear()
        self.history.clear()
        self.notices.clear()
        self.view, self.detail, self.card = None, None, {}
        self.now, self.questions, self.ideas = {}, (), ()

    def _take_rows(self, rows: Iterable[ExperimentRow]) -> set[Part]:
        parts: set[Part] = {"rows"}
        for row in rows:
            before = self.rows.get(row.id)
            self.rows[row.id] = row
            if before is None or (before.score, before.status) != (row.score, row.status):
                parts.add("scores")
        self._redo_rows(row.id for row in rows)
        return parts

    def _redo_rows(self, numbers: Iterable[int]) -> None:
        champions = {} if self.view is None else self.view.champions
        for number in numbers:
            if number in self.rows:
                self.history[number] = history_row(self.rows[number], champions)
                self.changed_rows.append(self.history[number])

    def _see_card(self, records: Iterable[Record]) -> bool:
        """Note what the rounds of a race say of the card; whether it is another than before."""
        before = self.card
        for record in records:
            event = record.event
            rounds = event.facts.get("rounds") if isinstance(event, e.GateFinished) else None
            if isinstance(rounds, list) and rounds and isinstance(rounds[-1], Mapping):
                self.card = rounds[-1]
        return self.card is not before

    def _take_records(self, records: Iterable[Record]) -> set[Part]:
        parts: set[Part] = set()
        if self._see_card(records):
            parts.add("view")
        for record in records:
            event = record.event
            if isinstance(event, e.Notice):
                self.notices.append(event)
                parts.add("notice")
            number = getattr(event, "experiment", None)
            if not isinstance(number, int):
                continue
            if isinstance(event, e.ExperimentStarted):
                self.detail = Detail(number)
            if self.detail is not None and self.detail.experiment == number:
                self.detail.apply(record.time, event)
                parts.add("detail")
        return parts

    # ---- questions that screens ask

    @property
    def newest(self) -> int | None:
        """The experiment at work, or the last one."""
        return self.detail.experiment if self.detail else max(self.rows, default=None)

    @property
    def proposing(self) -> int | None:
        """The experiment that is being proposed; nothing of it is recorded yet."""
        number = self.now.get("experiment")
        if self.now.get("phase") != "propose" or not isinstance(number, int) or number in self.rows:
            return None
        return number

    def question_about(self, experiment: int | None) -> OpenQuestion | None:
        return next((q for q in self.questions if q.experiment == experiment), None)

    def champion(self, task: str) -> ExperimentRow | None:
        number = None if self.view is None else self.view.champions.get(task)
        return None if number is None else self.rows.get(number)

    def seed(self, task: str) -> ExperimentRow | None:
        return next((row for row in self.rows.values() if row.task == task and row.parent is None), None)

    def scored(self, baseline: str) -> list[Scored]:
        """Rows for the chart, in the order of the experiments."""
        return [
            Scored(
                n,
                row.task,
                row.status,
                row.score.get(baseline),
                row.score_kind != "measured",
                row.ci.get(baseline),
            )
            for n, row in sorted(self.rows.items())
            if baseline in row.score
        ]

    @property
    def estimated(self) -> bool:
        return self.view is None or self.view.device_kind != "measured"

    def setting(self, name: str) -> Any:
        """A setting of the lab, None if it is not given."""
        if self.settings is not None:
            return self.settings.get(name)
        return None if self.view is None else self.view.config.get(name)

    @property
    def proposer(self) -> str:
        return str(self.setting("proposer") or "")

    @property
    def done(self) -> int:
        """Experiments with a verdict, seeds not counted: what a budget counts."""
        if self.view is None:
            return 0
        return sum(n for status, n in self.view.counts.items() if status not in ("running", "seed"))
