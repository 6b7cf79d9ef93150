"""Experiment: everything known about #N, the reason it wants a person on top.

The same screen serves approval, hold, veto and browsing; on wide screens the diff stands beside the section.
"""

from __future__ import annotations

from kernel_lab.engine.ledger.views import ExperimentRow
from kernel_lab.tui import bindings, editor, evidence_text, experiment_text
from kernel_lab.tui.curve import curves, rate_unit
from kernel_lab.tui.detail import Detail
from kernel_lab.tui.lab_session import LabSession
from kernel_lab.tui.live_text import check_lines
from kernel_lab.tui.model import Part
from kernel_lab.tui.screens.steering import SteeringScreen, sight_of
from kernel_lab.tui.widgets.bars import Bar, KeyBar, Tabs
from kernel_lab.tui.widgets.curve import CurveView
from kernel_lab.tui.widgets.diff import DiffView
from kernel_lab.tui.widgets.idea_box import IdeaBox
from kernel_lab.tui.widgets.pane import Lines
from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.widget import Widget

SECTIONS = ("diff", "speed", "checks", "trials", "launches", "story", "curve")
WIDE_FROM = 110
BANNER_LINES = 6


class ExperimentScreen(SteeringScreen):
    """One experiment of a lab; `[` and `]` go to its neighbours."""

    place = "experiment"
    BINDINGS = bindings.for_place("experiment")

    def __init__(self, session: LabSession, experiment: int) -> None:
        super().__init__(session)
        self.experiment = experiment
        self.section = "diff"
        self._detail: Detail | None = None
        self._row: ExperimentRow | None = None
        self._diff_of: object = None

    def compose(self) -> ComposeResult:
        yield Bar(id="banner")
        yield Tabs(id="tabs")
        with Horizontal(id="main"):
            yield DiffView(id="diff", classes="region")
            yield Lines(id="section", classes="region")
            yield CurveView(id="curve", classes="region")
        yield IdeaBox(id="idea")
        yield KeyBar(id="keys")

    def on_mount(self) -> None:
        self.query_one("#diff").border_title = "1 diff"
        self.query_one("#curve").border_title = "7 curve"
        self._arrange()
        self._pane().focus()
        self.session.listeners.append(self._changed)
        self.reload()

    def on_unmount(self) -> None:
        if self._changed in self.session.listeners:
            self.session.listeners.remove(self._changed)

    def on_resize(self, _: events.Resize) -> None:
        self._arrange()
        self.call_after_refresh(self._draw)

    @property
    def wide(self) -> bool:
        return self.size.width >= WIDE_FROM

    def _arrange(self) -> None:
        beside = self.wide and self.section != "diff"
        self.query_one("#diff").display = self.section == "diff" or self.wide
        self.query_one("#section").display = self.section not in ("diff", "curve")
        self.query_one("#curve").display = self.section == "curve"
        self.set_class(beside, "-beside")
        height = self.size.height
        self.query_one("#banner").styles.height = max(1, min(BANNER_LINES, self._banner_height, height // 3))
        box = self.query_one(IdeaBox)
        box.display = height >= 10 or box.box.has_focus
        self.query_one("#keys").display = height >= 8

    _banner_height = 3

    def _pane(self) -> Widget:
        return self.query_one(f"#{self.section}" if self.section in ("diff", "curve") else "#section")

    def focus_main(self) -> None:
        self._pane().focus()
        self._arrange()

    # ---- reading

    @property
    def detail(self) -> Detail | None:
        return self._detail

    def reload(self) -> None:
        """Read everything about the experiment; the newest reading wins."""

        async def reading() -> None:
            detail, row = await self.session.detail(self.experiment)
            if detail.experiment != self.experiment:
                return
            self._detail, self._row = detail, row
            self._draw()
            question = self.shown_question
            self.lab_app.guard.in_sight(sight_of(question) if question else None)
            await self._draw_diff(detail)

        self.run_worker(reading(), group="detail", exclusive=True, exit_on_error=False)

    def show_again(self) -> None:
        self.reload()

    def look_first(self) -> None:
        """What is asked about is what this screen shows, or nothing is asked about it."""

    def _changed(self, parts: frozenset[Part], experiments: frozenset[int]) -> None:
        newest = self.session.model.newest == self.experiment and "detail" in parts
        if self.experiment in experiments or newest or "queue" in parts:
            self.reload()
        if "view" in parts:
            self.refresh_keys()

    # ---- drawing

    def _draw(self) -> None:
        detail, row = self._detail, self._row
        if detail is None or not self.stands:
            return
        width = self.size.width
        champions = self.session.model.view.champions if self.session.model.view else {}
        champion = champions.get(detail.task) == detail.experiment
        similar = evidence_text.similar_vetoes(detail, self.session.model.rows.values())
        lines = experiment_text.banner_lines(
            row, detail, self.shown_question, champion, width - 2, len(similar)
        )
        self._banner_height = len(lines)
        self._arrange()
        self.query_one("#banner", Bar).show(lines)
        self.query_one(Tabs).show_tabs(SECTIONS, self.section, width)
        estimated = self.session.model.estimated
        builders = {
            "speed": lambda w: experiment_text.speed_lines(detail, w),
            "checks": lambda w: [*evidence_text.matrix_lines(detail, w), *check_lines(detail, w)],
            "trials": lambda w: experiment_text.trial_lines(detail, w, estimated),
            "launches": lambda w: [
                *experiment_text.launch_lines(detail, estimated),
                Text(),
                *evidence_text.census_lines(detail, w),
            ],
            "story": lambda w: [
                *evidence_text.verdict_lines(detail, w),
                *evidence_text.similar_lines(similar, w),
                *experiment_text.story_lines(detail, row, w),
            ],
        }
        if self.section in builders:
            pane = self.query_one("#section", Lines)
            pane.border_title = f"{SECTIONS.index(self.section) + 1} {self.section}"
            pane.show(builders[self.section], (self.experiment, self.section))
        if self.section == "curve":
            self._draw_curve()
        self.query_one(IdeaBox).offer(self.experiment)
        self.refresh_keys()

    def _draw_curve(self) -> None:
        detail, view, pane = self._detail, self.session.model.view, self.query_one(CurveView)
        speed = detail.speed if detail else None
        workloads = view.workloads.get(detail.task, ()) if view and detail else ()
        shown = curves(speed, workloads, pane.axis, pane.unit) if speed else ()
        pane.show(
            shown,
            estimated=speed is not None and speed.kind != "measured",
            rate=rate_unit(speed) if speed else "",
        )

    async def _draw_diff(self, detail: Detail) -> None:
        wanted = (detail.experiment, detail.source_sha, self.base, self.base_sha(detail))
        if wanted == self._diff_of:
            return
        diff, heading = await self.session.diff(detail, self.base)
        if self._detail is detail and self.stands:
            self._diff_of = wanted
            self.query_one(DiffView).show_diff(diff, heading, (self.experiment, self.base))

    # ---- actions

    def show_section(self, name: str) -> None:
        self.section = name
        self._arrange()
        self._draw()
        self._pane().focus()

    def on_tabs_chosen(self, event: Tabs.Chosen) -> None:
        event.stop()
        self.show_section(event.name)

    def do_section_1(self) -> None:
        self.show_section("diff")

    def do_section_2(self) -> None:
        self.show_section("speed")

    def do_section_3(self) -> None:
        self.show_section("checks")

    def do_section_4(self) -> None:
        self.show_section("trials")

    def do_section_5(self) -> None:
        self.show_section("launches")

    def do_section_6(self) -> None:
        self.show_section("story")

    def do_section_7(self) -> None:
        self.show_section("curve")

    def do_curve_unit(self) -> None:
        words = {"ratio": "ratios to each baseline", "time": "microseconds", "rate": "the rate reached"}
        self.tell(f"the curve is in {words[self.query_one(CurveView).turn_unit()]}")
        self.show_section("curve")

    def do_curve_over(self) -> None:
        words = {"context": "context length", "batch": "batch"}
        self.tell(f"the curve goes over {words[self.query_one(CurveView).turn_over()]}")
        self.show_section("curve")

    def do_axis(self) -> None:
        self.show_section("curve")
        self.tell(self.query_one(CurveView).turn_axis())

    def draw_diff(self) -> None:
        self.reload()

    def do_open_source(self) -> None:
        async def reading() -> None:
            source = await self.session.text(self._detail.source_sha if self._detail else None)
            if source is not None:
                self.in_terminal(lambda: editor.edited(source, f"candidate_{self.experiment}.py"))
                self.tell("that was a copy: nothing was sent")

        self.later(reading())

    def _go(self, experiment: int | None) -> None:
        if experiment is None:
            self.tell("there is no further experiment that way", "warning")
            return
        self.experiment = experiment
        self.reload()

    def do_previous(self) -> None:
        numbers = [n for n in self.session.model.rows if n < self.experiment]
        self._go(max(numbers, default=None))

    def do_next(self) -> None:
        numbers = [n for n in self.session.model.rows if n > self.experiment]
        self._go(min(numbers, default=None))

    def do_back(self) -> None:
        self.dismiss(None)

    def do_say(self) -> None:
        self.query_one(IdeaBox).display = True
        super().do_say()
