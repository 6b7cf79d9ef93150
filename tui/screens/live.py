"""Live: what is being tried, whether it is right, how fast it is, and what needs a person."""

from __future__ import annotations

from typing import Literal

from kernel_lab.engine.ledger.views import OpenQuestion
from kernel_lab.tui import bindings, live_text
from kernel_lab.tui.detail import Detail
from kernel_lab.tui.diffs import Diff
from kernel_lab.tui.digest import Seen, digest, read_seen, seen_now, write_seen
from kernel_lab.tui.lab_session import LabSession
from kernel_lab.tui.model import ALL_PARTS, Part
from kernel_lab.tui.screens.dialogs import LineDialog
from kernel_lab.tui.screens.experiment import ExperimentScreen
from kernel_lab.tui.screens.steering import SteeringScreen, sight_of
from kernel_lab.tui.text import one_line
from kernel_lab.tui.widgets.bars import Bar, KeyBar, Queue
from kernel_lab.tui.widgets.chart import Chart
from kernel_lab.tui.widgets.diff import DiffView
from kernel_lab.tui.widgets.history import History
from kernel_lab.tui.widgets.idea_box import IdeaBox, TextBox
from kernel_lab.tui.widgets.pane import Lines
from kernel_lab.tui.widgets.table import Table
from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.widget import Widget

Region = Literal["proposal", "diff", "checks", "chart", "history"]
REGIONS: tuple[Region, ...] = ("proposal", "diff", "checks", "chart", "history")
LEFT: tuple[Region, ...] = ("proposal", "diff", "checks")
WIDE_FROM = 100
TWO_STATUS_LINES_FROM = 16
FULL_FROM = 10
"""Rows from which on idea box and key bar have their place; below it the panes need every line."""


class LiveScreen(SteeringScreen):
    """One lab, followed. Wide: all regions; narrow or zoomed: one at a time."""

    place = "live"
    BINDINGS = bindings.for_place("live")

    def __init__(self, session: LabSession) -> None:
        super().__init__(session)
        self.chosen: Region = "proposal"
        self.zoomed = False
        self._baseline = "fa2"
        self._diff_of: object = None
        self._diff: tuple[Diff | None, str] = (None, "")

    # ---- layout

    def compose(self) -> ComposeResult:
        yield Bar(id="status")
        with Vertical(id="main"):
            with Horizontal(id="upper"):
                yield Lines(id="proposal", classes="region", follow=True)
                yield DiffView(id="diff", classes="region")
                yield Lines(id="checks", classes="region")
                with Vertical(id="chart-box", classes="region"):
                    yield Chart(id="chart")
            yield Bar(id="strip")
            with Vertical(id="history-box", classes="region"):
                yield TextBox(id="filter", placeholder="filter: words, status, #number. enter keeps it")
                yield History(id="history")
        yield Queue(id="queue")
        yield IdeaBox(id="idea")
        yield KeyBar(id="keys")

    def on_mount(self) -> None:
        self.query_one("#filter").display = False
        self._arrange()
        self._pane("proposal").focus()
        self.session.listeners += [self._remember, self._changed]
        self._changed(ALL_PARTS, frozenset())
        self.run_worker(self._follow(), group="feed", exit_on_error=False)

    async def _follow(self) -> None:
        try:
            await self.session.run()
        except Exception as error:  # noqa: BLE001  shown to the person; the screen stays usable
            self.tell(f"following the lab ended ({type(error).__name__}: {error}): open it again", "error")

    def on_unmount(self) -> None:
        for listener in (self._changed, self._remember):
            if listener in self.session.listeners:
                self.session.listeners.remove(listener)
        self.lab_app.caller.leave()
        lab_dir = self.session.lab_dir
        if lab_dir is not None and self._seen is not None:
            write_seen(lab_dir, self._seen)

    _seen: Seen | None = None
    """The lab as it stands, for the next time that it is opened."""

    _digest = ""
    """What happened since it was last open, until a key is pressed."""

    def _remember(self, parts: frozenset[Part], _: frozenset[int]) -> None:
        """Whatever screen is on top: call the person, and note how far they have seen the lab."""
        model, lab_dir = self.session.model, self.session.lab_dir
        if lab_dir is None or model.view is None:
            return
        if parts & {"queue", "view"}:
            asked = [("asked", row.experiment, row.text) for row in model.view.asked]
            waiting = [*map(sight_of, model.questions), *asked]
            self.lab_app.caller.waits(one_line(model.view.lab, 60), waiting)
        if not parts & {"view", "rows", "reset"}:
            return
        before, first = self._seen, self._seen is None
        self._seen = seen_now(model)
        if first:
            before = read_seen(lab_dir)
            if before is not None:
                self._digest = digest(before, self._seen, len(model.questions), estimated=model.estimated)
        if self._seen != before:
            write_seen(lab_dir, self._seen)

    def on_key(self, _: events.Key) -> None:
        if self._digest:
            self._digest = ""
            self._draw_lines()

    def on_resize(self, _: events.Resize) -> None:
        self._arrange()
        self.call_after_refresh(self._draw_lines)

    def start_engine(self) -> None:
        """Start the lab's engine behind the screen; a toast says how it went."""
        self.later(self._start())

    def on_screen_resume(self) -> None:
        self._changed(ALL_PARTS, frozenset())
        question = self.shown_question
        self.lab_app.guard.in_sight(sight_of(question) if question else None)

    @property
    def wide(self) -> bool:
        return self.size.width >= WIDE_FROM and not self.zoomed

    def _arrange(self) -> None:
        """Which regions have a place now."""
        for name in REGIONS:
            self._box(name).display = (
                name in (self._left, "chart", "history") if self.wide else name == self.chosen
            )
            self._box(name).border_title = self._title(name)
        self.query_one("#upper").display = self.wide or self.chosen != "history"
        self.set_class(self.wide, "-wide")
        height = self.size.height
        self.query_one("#status").styles.height = 2 if height >= TWO_STATUS_LINES_FROM else 1
        box = self.query_one(IdeaBox)
        box.display = height >= FULL_FROM or box.box.has_focus
        self.query_one("#keys").display = height >= FULL_FROM
        self.query_one("#strip").display = height >= FULL_FROM

    def _title(self, name: Region) -> str:
        """The region's name and number, and those that could stand in its place."""
        group = REGIONS if not self.wide else LEFT if name in LEFT else (name,)
        words = [f"{REGIONS.index(other) + 1} {other}" for other in group]
        shown = group.index(name)
        return "  ".join(
            f"[b]{word}[/b]" if i == shown else f"[dim]{word}[/dim]" for i, word in enumerate(words)
        )

    _left: Region = "proposal"
    """What stands beside the chart: one of LEFT."""

    def _box(self, name: Region) -> Widget:
        return self.query_one(f"#{name}-box" if name in ("chart", "history") else f"#{name}")

    def _pane(self, name: Region) -> Widget:
        return self.query_one(f"#{name}")

    def show_region(self, name: Region) -> None:
        """Bring a region up and give it the keys."""
        self.chosen = name
        if name in LEFT:
            self._left = name
        self._arrange()
        self._pane(name).focus()
        self._changed(frozenset(("detail", "rows", "scores", "queue")), frozenset())

    def focus_main(self) -> None:
        self._pane(self.chosen).focus()
        self._arrange()

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        super().on_descendant_focus(event)
        for name in ("chart", "history"):
            self._box(name).set_class(event.widget.id == name, "-focused")
        if event.widget.id in REGIONS:
            self.chosen = event.widget.id
            if self.chosen in LEFT:
                self._left = self.chosen

    # ---- drawing what changed

    @property
    def detail(self) -> Detail | None:
        """The newest experiment; None while the next one is being proposed in its place."""
        model = self.session.model
        return model.detail if model.proposing is None else None

    def _changed(self, parts: frozenset[Part], experiments: frozenset[int]) -> None:
        if self.app.screen is not self or not self.stands:
            return
        model = self.session.model
        history = self.query_one(History)
        if "view" in parts:
            history.say_kind(model.estimated)
        if "rows" in parts:
            if experiments and "reset" not in parts:
                history.update_rows(model.changed_rows)
            else:
                history.set_rows(model.history)
        if "scores" in parts and self._box("chart").display:
            self._draw_chart()
        question = self.shown_question
        self.lab_app.guard.in_sight(sight_of(question) if question else None)
        self._draw_lines(only_now=parts == {"now"})
        if "detail" in parts:
            self._draw_diff()
        if parts != {"now"} or self._proposing != model.proposing:
            self._proposing = model.proposing
            self.refresh_keys()

    _proposing: int | None = None

    def _draw_lines(self, *, only_now: bool = False) -> None:
        """Every text that is cheap to make, or only what streams; panes see for themselves what changed."""
        model, width = self.session.model, self.size.width
        status = self.query_one("#status", Bar)
        height = 2 if self.size.height >= TWO_STATUS_LINES_FROM else 1
        status.show(live_text.status_lines(model, width, height, self.session.replaying))
        detail = self.detail
        subject = detail.experiment if detail else model.proposing
        if self._box("proposal").display:
            self.query_one("#proposal", Lines).show(lambda w: live_text.proposal_lines(model, w), subject)
        strip = self.query_one("#strip", Bar)
        strip.show([live_text.strip_line(model, strip.size.width or width)])
        if only_now:
            return
        most = 3 if self.wide and self.size.height >= 20 else 1
        queued = live_text.queue_lines(model, width, most, self.session.replaying, self._digest)
        self.query_one(Queue).show_queue(queued)
        if self._box("checks").display:
            self.query_one("#checks", Lines).show(lambda w: live_text.check_lines(detail, w), subject)
        box = self.query_one(IdeaBox)
        box.offer(model.newest)
        asked = model.view.asked if model.view is not None and not self.session.replaying else ()
        box.wonder(asked[0].id if asked else None)

    def _draw_chart(self) -> None:
        model = self.session.model
        rows = model.scored(self._baseline)
        self.query_one(Chart).show(rows, self._baseline)

    def _draw_diff(self) -> None:
        """The diff of the newest text, asked for only while it is in sight."""
        detail = self.detail
        if detail is None or not self._box("diff").display:
            return
        base = self.base
        wanted = (detail.experiment, detail.source_sha, base, self.base_sha(detail))
        if wanted == self._diff_of:
            return
        self._diff_of = wanted

        async def drawing() -> None:
            diff, heading = await self.session.diff(detail, base)
            self.query_one(DiffView).show_diff(diff, heading, wanted[:3])

        self.run_worker(drawing(), group="diff", exclusive=True, exit_on_error=False)

    def draw_diff(self) -> None:
        self.show_region("diff")

    # ---- actions

    @property
    def shown_question(self) -> OpenQuestion | None:
        """The open question about the newest experiment, if its proposal or diff is in sight."""
        if not self._box("proposal").display and not self._box("diff").display:
            return None
        return super().shown_question

    def look_first(self) -> None:
        if super().shown_question is not None:
            self.show_region("proposal")
        else:
            self.do_look()
        self.tell("this is what is asked: look at it, then answer")

    def show_again(self) -> None:
        self.session.feed.begin_anew()
        self.session.feed.poke()

    def do_look(self) -> None:
        questions = self.session.model.questions
        if questions:
            self.open_experiment(questions[0].experiment)

    def open_experiment(self, experiment: int) -> None:
        self.app.push_screen(ExperimentScreen(self.session, experiment))

    @property
    def chosen_row(self) -> int | None:
        """The experiment under the history's cursor, while the keys go there."""
        history = self.query_one(History)
        return history.experiment if self.focused is history else None

    @property
    def aimed(self) -> int | None:
        return self.chosen_row if self.chosen_row is not None else super().aimed

    def do_open_shown(self) -> None:
        experiment = self.chosen_row if self.chosen_row is not None else self.session.model.newest
        if experiment is not None:
            self.open_experiment(experiment)

    def do_toggle_diff(self) -> None:
        self.show_region("diff" if self._left != "diff" or not self._box("diff").display else "proposal")

    def do_region_1(self) -> None:
        self.show_region("proposal")

    def do_region_2(self) -> None:
        self.show_region("diff")

    def do_region_3(self) -> None:
        self.show_region("checks")

    def do_region_4(self) -> None:
        self.show_region("chart")

    def do_region_5(self) -> None:
        self.show_region("history")

    def do_zoom(self) -> None:
        self.zoomed = not self.zoomed
        self.show_region(self.chosen)

    def do_axis(self) -> None:
        self.tell(self.query_one(Chart).turn_axis())

    def do_chart_base(self) -> None:
        self._baseline = "seed" if self._baseline == "fa2" else "fa2"
        self._draw_chart()

    def do_order(self) -> None:
        history = self.query_one(History)
        words = {"newest": "newest first", "fastest": "fastest first", "tree": "as a tree"}
        self.tell(f"the history stands {words[history.turn_order()]}")
        if not self._box("history").display:
            self.show_region("history")

    def do_diff_sides(self) -> None:
        self.show_region("diff")
        super().do_diff_sides()

    def do_filter(self) -> None:
        self.show_region("history")
        box = self.query_one("#filter", TextBox)
        box.display = True
        box.focus()

    def do_back(self) -> None:
        history = self.query_one(History)
        if history.filtered_by:
            self._end_filter(keep=False)
        elif self.zoomed:
            self.do_zoom()
        else:
            self.lab_app.back_to_labs()

    def do_say(self) -> None:
        self.query_one(IdeaBox).display = True
        super().do_say()

    # ---- the filter

    def on_text_area_changed(self, event: TextBox.Changed) -> None:
        if event.text_area.id == "filter":
            self.query_one(History).filter(" ".join(event.text_area.text.split()))

    def on_text_box_sent(self, event: TextBox.Sent) -> None:
        if event.box.id == "filter":
            event.stop()
            self._end_filter(keep=True)

    def on_text_box_left(self, event: TextBox.Left) -> None:
        if self.focused is self.query_one("#filter"):
            event.stop()
            self._end_filter(keep=False)
        else:
            super().on_text_box_left(event)

    def _end_filter(self, *, keep: bool) -> None:
        box, history = self.query_one("#filter", TextBox), self.query_one(History)
        if not keep:
            box.text = ""
            history.filter("")
        box.display = bool(history.filtered_by)
        history.focus()

    # ---- mouse

    def on_table_moved(self, event: Table.Moved) -> None:
        event.stop()
        self.refresh_keys()

    def on_table_chosen(self, event: Table.Chosen) -> None:
        event.stop()
        self.do_open_shown()

    def on_queue_looked(self, event: Queue.Looked) -> None:
        event.stop()
        if event.experiment is not None:
            self.open_experiment(event.experiment)


class ReplayScreen(LiveScreen, inherit_bindings=False):
    """Live over a recording: the same panes, and the controls of a player."""

    replaying = True
    BINDINGS = bindings.for_place("live", replaying=True)

    def do_play(self) -> None:
        position = self.session.model.position

        def change(reader: object) -> None:
            if position.playing:
                reader.pause()  # type: ignore[attr-defined]
            else:
                if position.seq >= position.total:
                    reader.seek(0)  # type: ignore[attr-defined]
                reader.play()  # type: ignore[attr-defined]

        self.later(self.session.replay(change, moved=position.seq >= position.total))

    def _pace(self, factor: float) -> None:
        pace = min(1024.0, max(0.25, self.session.model.position.speed * factor))
        self.later(self.session.replay(lambda reader: setattr(reader, "pace", pace)))

    def do_slower(self) -> None:
        self._pace(0.5)

    def do_faster(self) -> None:
        self._pace(2.0)

    def _seek(self, experiment: int) -> None:
        if experiment < 1:
            self.later(self.session.replay(lambda reader: reader.seek(0), moved=True))
            return
        self.later(self.session.replay(lambda reader: reader.seek_experiment(experiment), moved=True))

    def do_follow(self) -> None:
        self.later(self.session.replay(lambda reader: reader.seek(reader.length), moved=True))

    def do_previous(self) -> None:
        self._seek((self.session.model.newest or 1) - 1)

    def do_next(self) -> None:
        detail = self.detail
        newest = self.session.model.newest or 0
        self._seek(newest if detail is not None and detail.running else newest + 1)

    def do_seek(self) -> None:
        def chosen(text: str | None) -> None:
            if text is None:
                return
            number = text.lstrip("#")
            if not number.isdigit():
                self.tell(f"{text!r} is no number: give one such as 12", "warning")
                return
            self._seek(int(number))

        dialog = LineDialog("Go to which experiment?", "#12", typed=self.lab_app.guard.typed)
        self.app.push_screen(dialog, chosen)
