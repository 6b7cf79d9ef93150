"""One registry of actions: complete, without collisions, and the same as what the documentation says."""

from __future__ import annotations

from pathlib import Path

import pytest
from kernel_lab.tui import actions
from kernel_lab.tui.actions import ACTIONS, Situation
from kernel_lab.tui.cockpit import LabApp
from kernel_lab.tui.screens.experiment import ExperimentScreen
from kernel_lab.tui.screens.help import help_lines
from kernel_lab.tui.screens.labs import LabsScreen
from kernel_lab.tui.screens.live import LiveScreen, ReplayScreen
from kernel_lab.tui.widgets.pane import Pane

PLACES = {
    ("labs", False): LabsScreen,
    ("live", False): LiveScreen,
    ("live", True): ReplayScreen,
    ("experiment", False): ExperimentScreen,
}


def test_ids_are_unique_and_everything_is_explained() -> None:
    assert len({action.id for action in ACTIONS}) == len(ACTIONS)
    for action in ACTIONS:
        assert action.keys and action.label and action.help.endswith("."), action.id


@pytest.mark.parametrize(("place", "replaying"), PLACES)
def test_every_action_of_a_place_can_be_carried_out_there(place: actions.Place, replaying: bool) -> None:
    screen = PLACES[place, replaying]
    for action in actions.available(place, replaying):
        handler = f"do_{action.id}"
        assert hasattr(screen, handler) or hasattr(LabApp, handler), f"{screen.__name__} has no {handler}"


def test_what_moves_in_panes_and_what_always_works_has_a_handler() -> None:
    assert all(hasattr(Pane, f"move_{action.id}") for action in actions.in_scopes(["pane"]))
    assert all(hasattr(LabApp, f"do_{action.id}") for action in actions.in_scopes(["always"]))


@pytest.mark.parametrize(("place", "replaying"), PLACES)
def test_a_key_means_one_thing_in_a_place(place: actions.Place, replaying: bool) -> None:
    keys = [key for action in actions.available(place, replaying) for key in action.keys]
    assert len(keys) == len(set(keys))
    in_panes = {key for action in actions.in_scopes(["pane"]) for key in action.keys}
    assert not in_panes.intersection(keys), "a pane would swallow the key"


@pytest.mark.parametrize(("place", "replaying"), PLACES)
def test_bindings_are_those_of_the_registry(place: actions.Place, replaying: bool) -> None:
    screen = PLACES[place, replaying]
    bound = {binding.id: binding.key for binding in screen.BINDINGS}  # type: ignore[union-attr]
    assert bound == {a.id: ",".join(a.keys) for a in actions.available(place, replaying)}


def test_documentation_lists_the_same_keys() -> None:
    path = Path(__file__).parents[2] / "docs" / "keys.md"
    # Written by: python -c "from kernel_lab.tui.actions import *; print(keys_markdown(), end='')"
    assert path.read_text(encoding="utf-8") == actions.keys_markdown()


def test_the_help_holds_every_action_of_the_place_and_the_reasons() -> None:
    possible = [(a, a.enabled(Situation(place="live"))) for a in actions.available("live", False)]
    text = "\n".join(line.plain for line in help_lines("live", False, possible, False, 76))
    for action, why in possible:
        assert action.label in text
        if why:
            assert "not now" in text


@pytest.mark.parametrize(
    ("action", "situation", "words"),
    [
        ("approve", Situation("live", engine_alive=True), "nothing waits"),
        ("approve", Situation("live", replaying=True), "recording"),
        ("kill", Situation("live", engine_alive=True), "no experiment is running"),
        ("kill", Situation("live"), "engine is not running"),
        (
            "veto",
            Situation("experiment", engine_alive=True, shown=3, shown_status="discard"),
            "only what was kept",
        ),
        ("keep", Situation("experiment", engine_alive=True, shown=3, shown_status="keep"), "only held"),
        ("look", Situation("live"), "nothing needs you"),
        ("new_lab", Situation("labs", missing="triton is not installed"), "triton"),
        ("open_lab", Situation("labs"), "no lab"),
    ],
)
def test_a_disabled_action_says_why(action: str, situation: Situation, words: str) -> None:
    why = actions.BY_ID[action].enabled(situation)
    assert why is not None and words in why


def test_an_approval_is_possible_only_with_a_question_and_an_engine() -> None:
    question = actions.Question(4, "proposal", "ab", "may it?")
    approve = actions.BY_ID["approve"].enabled
    assert approve(Situation("live", engine_alive=True, waiting=1, question=question)) is None
    assert approve(Situation("live", engine_alive=False, waiting=1, question=question)) is not None
    edit = actions.BY_ID["edit"].enabled
    hold = actions.Question(4, "hold", "ab", "strange")
    assert "only an open proposal" in str(
        edit(Situation("live", engine_alive=True, waiting=1, question=hold))
    )
