"""The one registry of what a person can do: it feeds key bindings, help, palette, key bar and docs/keys.md.

An action says where it applies, which keys start it and, for a given `Situation`, why it cannot be done now.
What it does stands in the screens: a method `do_<id>`. Nothing here imports Textual.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

Place = Literal["labs", "live", "experiment"]
Scope = Literal["always", "everywhere", "pane", "labs", "live", "experiment", "replay", "box"]

SCOPE_TITLES: dict[Scope, str] = {
    "live": "Live",
    "experiment": "Experiment",
    "labs": "Labs",
    "replay": "Replay (on Live)",
    "pane": "In a pane or list",
    "box": "In a text box",
    "everywhere": "Everywhere",
    "always": "Always, in dialogs and text boxes too",
}


@dataclass(frozen=True, slots=True)
class Question:
    """What waits for a person: the experiment, what is asked, and the very text that is asked about."""

    experiment: int
    kind: str
    source_sha: str
    reason: str
    since: float = 0.0


@dataclass(frozen=True, slots=True)
class Situation:
    """What an action has to know to say whether it can be done."""

    place: Place = "labs"
    replaying: bool = False
    playing: bool = False
    engine_alive: bool = False
    paused: bool = False
    running: bool = False
    """An experiment is being worked on."""
    waiting: int = 0
    """Open questions in all."""
    question: Question | None = None
    """The open question about the experiment shown."""
    shown: int | None = None
    """The experiment shown."""
    shown_status: str = ""
    has_source: bool = False
    """The experiment shown has a candidate."""
    ideas: int = 0
    """Ideas that still count."""
    by_hand: bool = False
    """Proposer `manual` waits for the person to change its copy of the champion."""
    lab_selected: bool = False
    recording_selected: bool = False
    missing: str = ""
    """What this machine lacks to run an engine, in one line with the remedy."""


Check = Callable[[Situation], str | None]


def _pause_name(now: Situation) -> str:
    return "start" if not now.engine_alive else "go on" if now.paused else "pause"


def _play_name(now: Situation) -> str:
    return "halt" if now.playing else "play"


@dataclass(frozen=True, slots=True)
class Action:
    """One thing a person can do. `bar` puts it into the key bar, most important first."""

    id: str
    keys: tuple[str, ...]
    label: str
    help: str
    scope: Scope
    enabled: Check = lambda _: None
    bar: int = 0
    also: tuple[Scope, ...] = ()
    names: Callable[[Situation], str] | None = None
    """A label for how things stand, where one word does not do."""

    def name(self, now: Situation) -> str:
        """What the action is called now."""
        return self.names(now) if self.names else self.label

    @property
    def scopes(self) -> tuple[Scope, ...]:
        return (self.scope, *self.also)


def _live_lab(now: Situation) -> str | None:
    return "this is a recording: nothing can be changed in it" if now.replaying else None


def _engine(now: Situation) -> str | None:
    if now.replaying:
        return _live_lab(now)
    return None if now.engine_alive else "the engine is not running: press space to start it"


def _running(now: Situation) -> str | None:
    return _engine(now) or (None if now.running else "no experiment is running")


def _question(now: Situation) -> str | None:
    if now.replaying:
        return _live_lab(now)
    if now.question is None and not now.waiting:
        return "nothing waits for an answer"
    if now.place == "experiment" and now.question is None:
        return f"nothing is asked about #{now.shown}"
    return _engine(now)


def _editable(now: Situation) -> str | None:
    refused = _live_lab(now)
    if refused or now.by_hand:
        return refused
    if now.question is not None and now.question.kind != "proposal":
        return "the proposal was judged already: only an open proposal can be edited"
    return _question(now)


def _keepable(now: Situation) -> str | None:
    refused = _engine(now)
    if refused or now.shown_status in ("held", "vetoed", "rejected"):
        return refused
    return f"#{now.shown} is {now.shown_status or 'not judged'}: only held, vetoed or rejected can be kept"


def _vetoable(now: Situation) -> str | None:
    refused = _engine(now)
    if refused or now.shown_status in ("keep", "held"):
        return refused
    return f"#{now.shown} is {now.shown_status or 'not judged'}: only what was kept or held can be vetoed"


def _remeasurable(now: Situation) -> str | None:
    refused = _engine(now)
    if refused or now.shown_status in ("keep", "held", "discard", "vetoed", "rejected"):
        return refused
    return f"#{now.shown} is {now.shown_status or 'not judged'}: there is no win to judge again"


def _source(now: Situation) -> str | None:
    return None if now.has_source else "no candidate to show yet"


def _waiting(now: Situation) -> str | None:
    return None if now.waiting else "nothing needs you"


def _ideas(now: Situation) -> str | None:
    return _engine(now) or (None if now.ideas else "nobody said anything that still counts")


def _startable(now: Situation) -> str | None:
    return now.missing or None


def _chosen(now: Situation) -> str | None:
    return None if now.lab_selected or now.recording_selected else "there is no lab or recording to open"


def _startable_lab(now: Situation) -> str | None:
    if now.recording_selected or not now.lab_selected:
        return "choose a lab of yours to start it"
    return now.missing or ("its engine is running already" if now.engine_alive else None)


def _manageable_lab(now: Situation) -> str | None:
    if now.recording_selected or not now.lab_selected:
        return "choose a lab of yours: recordings came with the program"
    return "its engine is running: stop it first (S)" if now.engine_alive else None


def _stoppable_lab(now: Situation) -> str | None:
    if now.place != "labs":
        return _engine(now)
    if now.recording_selected or not now.lab_selected:
        return "choose a lab of yours to stop it"
    return None if now.engine_alive else "its engine is not running"


def _shown(now: Situation) -> str | None:
    return None if now.shown is not None else "there is no experiment yet"


ACTIONS: tuple[Action, ...] = (
    # Live, and what it shares with Experiment.
    Action(
        "approve",
        ("a",),
        "approve",
        "Answer yes to what is asked about the proposal shown; on another screen it first shows it. "
        "Ignored for half a second after a question appears and for a second after typing.",
        "live",
        _question,
        90,
        ("experiment",),
    ),
    Action(
        "reject",
        ("r",),
        "reject",
        "Answer no, with a reason that the next proposal reads.",
        "live",
        _question,
        89,
        ("experiment",),
    ),
    Action(
        "edit",
        ("e",),
        "edit",
        "Open the proposal in $EDITOR; what you save replaces it. Under proposer `manual`: open your copy.",
        "live",
        _editable,
        70,
        ("experiment",),
    ),
    Action(
        "look",
        ("o",),
        "look",
        "Show everything known about the first thing that needs you.",
        "live",
        _waiting,
        80,
    ),
    Action(
        "say",
        ("i",),
        "say",
        "Say an idea: to the next proposal, to all of them, or from the experiment shown.",
        "live",
        _live_lab,
        60,
        ("experiment",),
    ),
    Action(
        "ideas",
        ("I",),
        "ideas",
        "See the ideas that still count; change one, put it first, or take it back.",
        "live",
        _ideas,
        6,
    ),
    Action(
        "pause",
        ("space",),
        "pause",
        "Pause after the running experiment, or go on. If the engine is not running, start it.",
        "live",
        _live_lab,
        50,
        ("experiment",),
        names=_pause_name,
    ),
    Action("mode", ("m",), "mode", "Change who decides: ask, wins, auto.", "live", _engine, 30),
    Action(
        "veto",
        ("v",),
        "veto",
        "Take a kept win back, with a reason and a category. A line `probe: CODE` in the reason turns down "
        "whatever the code fits from now on.",
        "live",
        _vetoable,
        40,
        ("experiment",),
    ),
    Action(
        "keep",
        ("A",),
        "keep",
        "Keep an experiment that is held, or one that was vetoed or rejected.",
        "experiment",
        _keepable,
        41,
    ),
    Action(
        "remeasure",
        ("M",),
        "again",
        "Judge the experiment shown again, with fresh seeds; a kept win that falls is taken back.",
        "experiment",
        _remeasurable,
        22,
    ),
    Action("kill", ("K",), "kill", "End the running experiment now; the loop goes on.", "live", _running, 10),
    Action(
        "stop",
        ("S",),
        "stop",
        "Stop the engine, after the experiment or now.",
        "live",
        _stoppable_lab,
        9,
        ("labs",),
    ),
    Action(
        "open_shown",
        ("enter",),
        "open",
        "Show everything known about the experiment chosen.",
        "live",
        _shown,
        55,
    ),
    Action("toggle_diff", ("d",), "diff", "Switch between the proposal and its diff.", "live", _source, 45),
    Action("region_1", ("1",), "proposal", "Go to the proposal.", "live"),
    Action("region_2", ("2",), "diff", "Go to the diff.", "live"),
    Action("region_3", ("3",), "checks", "Go to the checks.", "live"),
    Action("region_4", ("4",), "chart", "Go to the chart.", "live"),
    Action("region_5", ("5",), "history", "Go to the history.", "live"),
    Action("chart_base", ("c",), "chart", "Chart against FA2 or against the seed.", "live"),
    Action("zoom", ("z",), "zoom", "Give one region the whole screen, and back.", "live"),
    Action(
        "filter",
        ("slash",),
        "filter",
        "Filter the history by words, status, lever or number.",
        "live",
        bar=35,
    ),
    Action(
        "order",
        ("t",),
        "order",
        "Order the history: newest first, fastest first, or as a tree below what each was built on.",
        "live",
        bar=12,
    ),
    Action(
        "report",
        ("E",),
        "report",
        "Write the lab as one HTML page to share, into the folder that kernel-lab was started in.",
        "live",
        bar=8,
        also=("experiment", "replay"),
    ),
    # Experiment.
    Action("section_1", ("1",), "diff", "Show the diff.", "experiment"),
    Action("section_2", ("2",), "speed", "Show the speed of every workload.", "experiment"),
    Action("section_3", ("3",), "checks", "Show the checks.", "experiment"),
    Action("section_4", ("4",), "trials", "Show the trials.", "experiment"),
    Action("section_5", ("5",), "launches", "Show what was compiled.", "experiment"),
    Action(
        "section_6", ("6",), "story", "Show what happened, step by step, with every reason.", "experiment"
    ),
    Action(
        "section_7", ("7",), "curve", "Show the speed over context length or batch.", "experiment", _source
    ),
    Action("curve_unit", ("u",), "unit", "Curve in ratios, microseconds or the rate reached.", "experiment"),
    Action("curve_over", ("w",), "over", "Curve over context length or over batch.", "experiment"),
    Action(
        "axis",
        ("x",),
        "axis",
        "Draw the chart on a logarithmic axis, or on a linear one.",
        "live",
        also=("experiment",),
    ),
    Action(
        "diff_base",
        ("b",),
        "base",
        "Diff against parent, champion or seed in turn.",
        "experiment",
        _source,
        21,
        ("live",),
    ),
    Action(
        "diff_sides",
        ("s",),
        "sides",
        "Show the diff side by side, or unified.",
        "experiment",
        _source,
        19,
        ("live",),
    ),
    Action(
        "open_source",
        ("O",),
        "source",
        "Open a copy of the candidate in $EDITOR, to read.",
        "experiment",
        _source,
        20,
    ),
    Action(
        "previous",
        ("left_square_bracket",),
        "previous",
        "Go to the experiment before.",
        "experiment",
        bar=25,
        also=("replay",),
    ),
    Action(
        "next",
        ("right_square_bracket",),
        "next",
        "Go to the experiment after.",
        "experiment",
        bar=24,
        also=("replay",),
    ),
    # Replay.
    Action("play", ("space",), "play", "Play or halt the recording.", "replay", bar=60, names=_play_name),
    Action("slower", ("less_than_sign",), "slower", "Halve the speed.", "replay", bar=30),
    Action("faster", ("greater_than_sign",), "faster", "Double the speed.", "replay", bar=31),
    Action("follow", ("F",), "follow", "Go to the end of the recording.", "replay", bar=18),
    Action("seek", ("number_sign",), "go to", "Go to an experiment by its number.", "replay", bar=20),
    # Labs.
    Action("open_lab", ("enter",), "open", "Open the lab, or replay the recording.", "labs", _chosen, 60),
    Action("new_lab", ("n",), "new lab", "Set up a lab and start it.", "labs", _startable, 50),
    Action(
        "start_lab",
        ("s",),
        "start",
        "Start or resume the lab's engine and open it.",
        "labs",
        _startable_lab,
        40,
    ),
    Action(
        "doctor",
        ("D",),
        "doctor",
        "Look at this machine: what labs need, what is missing, and what to do about it.",
        "labs",
        bar=30,
    ),
    Action("rename_lab", ("R",), "rename", "Give the lab another name.", "labs", _manageable_lab, 12),
    Action(
        "prune_lab",
        ("P",),
        "prune",
        "Delete logs and compiled files of experiments that were not kept; the ledger stays whole.",
        "labs",
        _manageable_lab,
        11,
    ),
    Action(
        "delete_lab",
        ("X",),
        "delete",
        "Delete the lab and everything in it, after its name was typed.",
        "labs",
        _manageable_lab,
        10,
    ),
    # In a pane.
    Action("up", ("up", "k"), "up", "One line up.", "pane"),
    Action("down", ("down", "j"), "down", "One line down.", "pane"),
    Action("page_up", ("pageup", "ctrl+u"), "page up", "One page up.", "pane"),
    Action("page_down", ("pagedown", "ctrl+d"), "page down", "One page down.", "pane"),
    Action("top", ("home", "g"), "top", "To the first line.", "pane"),
    Action("bottom", ("end", "G"), "bottom", "To the last line.", "pane"),
    Action("left", ("left", "h"), "left", "Scroll to the left.", "pane"),
    Action("right", ("right", "l"), "right", "Scroll to the right.", "pane"),
    # In a text box.
    Action("box_send", ("enter",), "send", "Send what is written.", "box", bar=50),
    Action(
        "box_newline", ("shift+enter", "alt+enter", "ctrl+j"), "new line", "Begin a new line.", "box", bar=40
    ),
    Action(
        "box_scope",
        ("tab",),
        "to whom",
        "Idea box: to the next proposal, to all, or from #N. Veto: the category.",
        "box",
        bar=30,
    ),
    Action("box_history", ("up",), "earlier", "On the first line: what you said before.", "box", bar=20),
    Action("box_leave", ("escape",), "leave", "Leave the box; what is written stays.", "box", bar=45),
    # Everywhere.
    Action("back", ("escape",), "back", "Go back to where you came from.", "everywhere", bar=15),
    Action(
        "copy",
        ("y",),
        "copy",
        "Copy the pane: by the terminal, by a system tool, or to a file.",
        "everywhere",
        bar=5,
    ),
    Action("help", ("question_mark", "f1"), "help", "Show the keys of this screen.", "everywhere", bar=29),
    Action("palette", ("ctrl+p",), "palette", "Find an action by its name.", "everywhere"),
    Action("screenshot", ("f12",), "screenshot", "Save the screen as an SVG file.", "everywhere"),
    Action(
        "settings",
        ("f2",),
        "settings",
        "Open your settings (colours, keys, bell, notifications) in $EDITOR; they count at once.",
        "everywhere",
    ),
    Action("leave", ("q",), "leave", "Leave; a running engine goes on.", "everywhere", bar=28),
    # Always.
    Action("leave_always", ("ctrl+q",), "leave", "Leave; a running engine goes on.", "always"),
    Action(
        "interrupt",
        ("ctrl+c",),
        "leave?",
        "Once: say how to leave. Twice: leave. Never stops an engine. In a text box with a selection: copy.",
        "always",
    ),
)

BY_ID: dict[str, Action] = {action.id: action for action in ACTIONS}

KEY_NAMES = {
    "question_mark": "?",
    "slash": "/",
    "left_square_bracket": "[",
    "right_square_bracket": "]",
    "less_than_sign": "<",
    "greater_than_sign": ">",
    "number_sign": "#",
    "pageup": "page up",
    "pagedown": "page down",
    "escape": "esc",
    "f1": "F1",
    "f2": "F2",
    "f12": "F12",
}


def key_name(key: str) -> str:
    """A key as people write it: `question_mark` is `?`."""
    return KEY_NAMES.get(key, key)


def key_of(written: str) -> str:
    """The name of a key that people wrote: `?` is `question_mark`."""
    return next((key for key, shown in KEY_NAMES.items() if shown == written), written)


_remapped: dict[str, tuple[str, ...]] = {}


def use_keys(remapped: Mapping[str, tuple[str, ...]]) -> None:
    """Take a person's keys in place of the usual ones, from now on and everywhere that keys are named."""
    _remapped.clear()
    _remapped.update(remapped)


def keys_now(action: Action) -> tuple[str, ...]:
    """The keys that start an action: the person's own, or the usual ones."""
    return _remapped.get(action.id, action.keys)


def keys_of(action: Action) -> str:
    return " ".join(key_name(key) for key in keys_now(action))


def clash_of(remapped: Mapping[str, tuple[str, ...]]) -> tuple[str, str, str] | None:
    """A remapped action, another one that is there at the same time, and the key that both would have."""
    places: list[tuple[Place, bool]] = [
        ("labs", False),
        ("live", False),
        ("live", True),
        ("experiment", False),
    ]
    together = [[*available(*place), *in_scopes(["pane", "always"])] for place in places]
    for listed in [*together, in_scopes(["box"])]:
        owners: dict[str, str] = {}
        for action in sorted(listed, key=lambda action: action.id in remapped):
            for key in remapped.get(action.id, action.keys):
                other = owners.setdefault(key, action.id)
                if other != action.id and action.id in remapped:
                    return action.id, other, key
    return None


def in_scopes(scopes: Iterable[Scope]) -> list[Action]:
    """Actions of any of the scopes, in the registry's order."""
    wanted = set(scopes)
    return [action for action in ACTIONS if wanted.intersection(action.scopes)]


def scopes_of(place: Place, replaying: bool) -> tuple[Scope, ...]:
    """The scopes whose keys a place answers to; the replay's keys come before those that they replace."""
    if place == "live" and replaying:
        return ("replay", "live", "everywhere")
    return (place, "everywhere")


def available(place: Place, replaying: bool) -> list[Action]:
    """Actions of a place, one for each key: of two for the same key, that of the earlier scope."""
    taken: set[str] = set()
    result: list[Action] = []
    for scope in scopes_of(place, replaying):
        for action in in_scopes([scope]):
            if action not in result and not taken.intersection(action.keys):
                taken.update(action.keys)
                result.append(action)
    return result


def keys_markdown() -> str:
    """docs/keys.md: a test compares the file with this text."""
    parts = [
        "# Keys",
        "",
        "Every action can also be found by name with ctrl+p, and clicked in the key bar. Single letters do",
        "nothing while a text box has the focus. A key that cannot be used now says why.",
    ]
    for scope, title in SCOPE_TITLES.items():
        parts += ["", f"## {title}", "", "| key | action | what it does |", "|---|---|---|"]
        for action in in_scopes([scope]):
            keys = " ".join(f"`{key_name(key)}`" for key in action.keys)
            parts.append(f"| {keys} | {action.label} | {action.help} |")
    return "\n".join(parts) + "\n"
