"""The Textual application: wires places, theme and clipboard, and nothing else.

A front end: it follows a lab and sends commands. Leaving it, or losing its terminal, leaves the engine alone.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from kernel_lab.tui import actions, bindings, theme
from kernel_lab.tui.approval import ApprovalGuard
from kernel_lab.tui.notify import Caller
from kernel_lab.tui.screens.base import PlaceScreen
from kernel_lab.tui.settings import Settings, read_settings
from kernel_lab.tui.sources import LabSource, ReplaySource
from kernel_lab.tui.text import one_line
from kernel_lab.tui.widgets.bars import Bar
from rich.text import Text
from textual.app import App, ComposeResult, SystemCommand
from textual.binding import BindingType
from textual.filter import LineFilter
from textual.markup import escape
from textual.screen import Screen

if TYPE_CHECKING:
    from kernel_lab.tui.lab_session import LabSession

SETTLED_S = 1.0
"""After this long the start is over, and the garbage collector, which `run_app` stopped, runs again."""

TWICE_S = 2.0
"""Two ctrl+c within this time leave."""


PROBLEMS_TOLD = 3
"""Mistakes in settings.toml that are told at once."""


class LabApp(App[str]):
    """The cockpit. Its result is a line to print when it has left the terminal."""

    CSS_PATH = "app.tcss"
    TITLE = "kernel-lab"
    ENABLE_COMMAND_PALETTE = True
    COMMAND_PALETTE_BINDING = "ctrl+p"
    BINDINGS: ClassVar[list[BindingType]] = [
        bindings.binding(actions.BY_ID[name]) for name in ("interrupt", "leave_always")
    ]

    def __init__(
        self,
        source: LabSource | ReplaySource | None = None,
        *,
        start_engine: bool = False,
        settings: Settings | None = None,
    ) -> None:
        super().__init__()
        for one in theme.THEMES.values():
            self.register_theme(one)
        self.settings = read_settings() if settings is None else settings
        self._use(self.settings)
        self.guard = ApprovalGuard()
        self._first_source = source
        self._start_engine = start_engine
        self._interrupted_at = float("-inf")

    def _use(self, settings: Settings) -> None:
        """Take over a person's settings."""
        self.settings = settings
        self.theme = theme.THEMES[settings.theme].name
        actions.use_keys(settings.keys)
        self.set_keymap({action: ",".join(keys) for action, keys in settings.keys.items()})
        self._own_filters: tuple[str, list[LineFilter]] | None = None
        self.caller = Caller(settings, self.to_terminal)

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Textual turns colours into greys under NO_COLOR; here they go altogether."""
        if self._own_filters is None or self._own_filters[0] != self.theme:
            self._own_filters = (self.theme, self._made_filters())
        own = self._own_filters[1]
        return own if self.no_color else [*super().get_line_filters(), *own]

    def _made_filters(self) -> list[LineFilter]:
        made: list[LineFilter] = []
        colours = theme.recolouring(self.current_theme)
        if not (self.no_color or colours or self.settings.ascii):
            return made
        from kernel_lab.tui import filters

        if self.no_color:
            made.append(filters.Colourless())
        elif colours:
            made.append(filters.Recoloured(colours))
        if self.settings.ascii:
            made.append(filters.AsciiOnly())
        return made

    def to_terminal(self, sequence: str) -> None:
        """Send a control sequence to the terminal, past everything that is drawn."""
        driver = self._driver
        if driver is not None and not self.is_headless:
            driver.write(sequence)
            driver.flush()

    def compose(self) -> ComposeResult:
        yield Bar(id="title")

    def on_mount(self) -> None:
        name = f"  opening {one_line(self._first_source.name, 60)} ..." if self._first_source else ""
        title = Text.styled(" kernel-lab", theme.HEADING).append(name, theme.LABEL)
        self.screen.query_one("#title", Bar).show([title])
        # The first frame comes before what a place needs is even imported.
        self.call_after_refresh(self._open_first)
        self.set_timer(SETTLED_S, gc.enable)
        for problem in self.settings.problems[:PROBLEMS_TOLD]:
            self.tell(problem, "warning")

    def _open_first(self) -> None:
        if self._first_source is None:
            from kernel_lab.tui.screens.labs import LabsScreen

            self.push_screen(LabsScreen())
        elif self._start_engine and isinstance(self._first_source, LabSource):
            self.start_and_open(self._first_source.lab_dir)
        else:
            self.open_source(self._first_source)

    # ---- places

    def open_source(self, source: LabSource | ReplaySource) -> None:
        """Follow a lab or a recording on a Live screen."""
        from kernel_lab.tui.lab_session import LabSession
        from kernel_lab.tui.screens.live import LiveScreen, ReplayScreen

        session = LabSession(source, lambda line: self.tell(line, "error"))
        self.push_screen(ReplayScreen(session) if session.replaying else LiveScreen(session))
        if isinstance(source, LabSource):
            self._remember(source.lab_dir)

    def _remember(self, lab_dir: Path) -> None:
        """Make a lab the last used one, as `kernel-lab open` does."""
        from kernel_lab.engine.lab import remember_lab

        self.run_worker(lambda: remember_lab(lab_dir), thread=True, group="remember", exit_on_error=False)

    def start_and_open(self, lab_dir: Path) -> None:
        """Open a lab at once, and start its engine behind if none runs it."""
        from kernel_lab.engine.ledger.lock import engine_pid
        from kernel_lab.tui.lab_session import LabSession
        from kernel_lab.tui.screens.live import LiveScreen

        screen = LiveScreen(LabSession(LabSource(lab_dir), lambda line: self.tell(line, "error")))
        self.push_screen(screen)
        self._remember(lab_dir)
        if engine_pid(lab_dir) is None:
            screen.call_after_refresh(screen.start_engine)

    def back_to_labs(self) -> None:
        """From Live to the list of labs."""
        if len(self.screen_stack) > 2:
            self.pop_screen()
        else:
            from kernel_lab.tui.screens.labs import LabsScreen

            self.switch_screen(LabsScreen())

    def require_engine(self) -> None:
        """Raise LabError if this machine cannot run an engine."""
        from kernel_lab.tui import machine

        machine.require_compiler()

    def tell(self, line: str, severity: str = "information") -> None:
        """One toast from anywhere."""
        self.notify(one_line(line, 400), severity=severity, markup=False, timeout=5.0)  # type: ignore[arg-type]

    # ---- actions that work everywhere

    def action_act(self, action_id: str) -> None:
        """Called by the bindings of the application itself."""
        getattr(self, f"do_{action_id}")()

    def do_help(self) -> None:
        from kernel_lab.tui.screens.dialogs import TextDialog
        from kernel_lab.tui.screens.help import help_lines

        screen = self.screen
        if isinstance(screen, PlaceScreen):
            possible, in_box = screen.possible(), screen.in_text_box
            self.push_screen(
                TextDialog(
                    "Keys",
                    lambda width: help_lines(screen.place, screen.replaying, possible, in_box, width),
                )
            )

    def do_palette(self) -> None:
        self.action_command_palette()

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        """The palette: every action of the place below it, then the themes."""
        if isinstance(screen, PlaceScreen):
            for action, why in screen.possible():
                label = f"{action.label} ({actions.keys_of(action)})"
                shown = f"not now: {why}" if why else action.help
                yield SystemCommand(label, escape(shown), lambda name=action.id: screen.perform(name))
        yield SystemCommand("theme", "Change the colours", self.action_change_theme)

    def do_copy(self) -> None:
        from kernel_lab.engine import paths
        from kernel_lab.tui import clipboard

        screen = self.screen
        widget = screen.copied_widget() if isinstance(screen, PlaceScreen) else None
        text = widget.plain() if widget is not None and hasattr(widget, "plain") else ""
        if not text:
            self.tell("nothing to copy here: give a pane the focus first", "warning")
            return
        copied = clipboard.copy(
            text,
            None if self._driver is None or self.is_headless else self.to_terminal,
            folder=paths.state_dir(),
        )
        self.tell(copied.how)

    def do_screenshot(self) -> None:
        from kernel_lab.engine import paths

        try:
            folder = paths.state_dir() / "screenshots"
            folder.mkdir(parents=True, exist_ok=True)
            path = self.save_screenshot(time.strftime("kernel-lab-%Y%m%d-%H%M%S.svg"), str(folder))
        except OSError as error:
            self.tell(f"no screenshot ({error.strerror}): free some space", "error")
            return
        self.tell(f"saved {path}")

    def do_settings(self) -> None:
        """Open settings.toml in the editor, made if it is not there, and take over what it says then."""
        from kernel_lab.engine.errors import LabError
        from kernel_lab.tui import editor, settings

        path = settings.settings_path()
        try:
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(settings.TEMPLATE, encoding="utf-8")
            with self.suspend():
                editor.edit_file(path)
        except OSError as error:
            self.tell(f"{path} cannot be written ({error.strerror}): make its folder writable", "error")
            return
        except LabError as error:
            self.tell(str(error), "error")
            return
        self.caller.leave()
        self._use(read_settings())
        for problem in self.settings.problems[:PROBLEMS_TOLD]:
            self.tell(problem, "warning")
        self.refresh(layout=True)
        self.tell(f"settings of {path} are in use")

    def do_leave(self) -> None:
        self.caller.leave()
        self.exit(self._farewell())

    do_leave_always = do_leave

    def do_interrupt(self) -> None:
        now = time.monotonic()
        if now - self._interrupted_at <= TWICE_S:
            self.do_leave()
            return
        self._interrupted_at = now
        self.tell("ctrl+c again leaves; a running engine goes on. S stops an engine.", "warning")

    def _farewell(self) -> str:
        for screen in reversed(self.screen_stack):
            session: LabSession | None = getattr(screen, "session", None)
            if session is not None and session.lab_dir is not None:
                view, name = session.model.view, session.lab_dir
                if view is not None and view.engine_alive:
                    return (
                        f"the engine goes on: `kernel-lab open {name}` shows it, "
                        f"`kernel-lab stop --lab {name}` ends it"
                    )
                return f"the engine is not running: `kernel-lab run --lab {name}` goes on with the lab"
        return ""
