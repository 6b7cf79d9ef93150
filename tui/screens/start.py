"""Setting up a lab: a few choices with defaults, and a line that says what the numbers will be worth."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path

from kernel_lab.engine.errors import LabError
from kernel_lab.engine.lab import LabConfig, create_lab, new_lab_dir, remember_lab
from kernel_lab.tui import theme
from kernel_lab.tui.choices import DEFAULT_MODEL, choose_device
from kernel_lab.tui.proposers import ProposerOffer, proposer_offers
from kernel_lab.tui.screens.base import TellsFailures
from kernel_lab.tui.text import one_line
from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Button, Select, Static
from textual.worker import Worker

TASKS = (
    ("both, decode first", "gqa_decode,gqa_prefill"),
    ("decode", "gqa_decode"),
    ("prefill", "gqa_prefill"),
)
MODES = (
    ("wins: asks before a win is kept", "wins"),
    ("ask: asks before anything is judged", "ask"),
    ("auto: keeps what is proven, holds what is strange", "auto"),
)
CAPS = (("1 USD", "1"), ("5 USD", "5"), ("20 USD", "20"), ("100 USD", "100"))
BUDGETS = (("no limit: until it is stopped", "0"), ("12 experiments", "12"), ("50 experiments", "50"))


@dataclass(frozen=True, slots=True)
class Offers:
    """What there is to choose from: (label, value) pairs, and the GPU chosen by default with why."""

    gpus: tuple[tuple[str, str], ...]
    models: tuple[tuple[str, str], ...]
    gpu: str
    why: str
    proposers: tuple[ProposerOffer, ...] = ()


def offers() -> Offers:
    """Profiles of this machine; a profile that cannot be read is left out."""
    from kernel_lab.engine.profiles import list_gpus, list_models

    device = choose_device(None, None)
    return Offers(
        gpus=tuple((one_line(e.title, 50), e.name) for e in list_gpus() if e.problem is None),
        models=tuple((one_line(e.title, 50), e.name) for e in list_models() if e.problem is None),
        gpu=device.gpu.name,
        why=device.line,
        proposers=tuple(proposer_offers()),
    )


class StartScreen(TellsFailures[Path | None], ModalScreen[Path | None]):
    """Answers the folder of the new lab, not yet started; None if the person left."""

    BINDINGS = [("escape", "leave", "leave")]  # noqa: RUF012  Textual reads a plain list

    def __init__(self) -> None:
        super().__init__()
        self._found: Offers | None = None
        self._described: tuple[str, str] = ("", "")

    def compose(self) -> ComposeResult:
        with Vertical(id="start") as box:
            box.border_title = "A new lab"
            box.border_subtitle = "tab moves, enter opens, esc leaves"
            yield Static("looking at this machine ...", id="start-why", markup=False)

    def on_mount(self) -> None:
        self.run_worker(self._offer(), exit_on_error=False)

    async def _offer(self) -> None:
        try:
            found = self._found = await asyncio.to_thread(offers)
        except LabError as error:
            self.query_one("#start-why", Static).update(Text.styled(one_line(error), theme.WARN))
            return
        # A server names its models itself: never markup.
        proposers = [(Content(offer.line), str(index)) for index, offer in enumerate(found.proposers)]
        fields: tuple[tuple[str, str, Sequence[tuple[Content | str, str]], str], ...] = (
            ("GPU", "gpu", found.gpus, found.gpu),
            ("Model", "model", found.models, DEFAULT_MODEL),
            ("Task", "task", TASKS, TASKS[0][1]),
            ("Proposer", "proposer", proposers, "0"),
            ("It may cost", "usd", CAPS, "5"),
            ("Who decides", "mode", MODES, "wins"),
            ("Stop after", "budget", BUDGETS, "0"),
        )
        rows = [
            Horizontal(
                Static(label, classes="start-label", markup=False),
                Select(options, value=value, allow_blank=False, id=f"start-{name}", compact=True),
                classes="start-row",
            )
            for label, name, options, value in fields
        ]
        buttons = Horizontal(
            Button("Start", id="start-go", variant="primary", compact=True),
            Button("Cancel", id="start-no", compact=True),
            id="start-buttons",
        )
        self._described = (found.gpu, DEFAULT_MODEL)
        await self.query_one("#start").mount(*rows, buttons, before="#start-why")
        self.query_one("#start-usd", Select).disabled = True
        self._say(found.why)
        self.query_one("#start-go").focus()

    def _say(self, words: str, *, wrong: bool = False) -> None:
        self.query_one("#start-why", Static).update(
            Text.styled(one_line(words), theme.WARN if wrong else theme.LABEL)
        )

    def _value(self, name: str) -> str:
        return str(self.query_one(f"#start-{name}", Select).value)

    def on_select_changed(self, event: Select.Changed) -> None:
        event.stop()
        if self._found is None:
            return
        if event.select.id in ("start-proposer", "start-usd", "start-budget"):
            self._describing(self._say_proposer)
        if event.select.id not in ("start-gpu", "start-model"):
            return
        pair = (self._value("gpu"), self._value("model"))
        if pair != self._described:
            self._described = pair
            self._describing(self._describe)

    def _describing(self, work: Callable[[], Coroutine[None, None, None]]) -> None:
        """Find out what a choice means; what another choice meant is not waited for any more."""
        # The callable, not its coroutine: one that is overtaken before it begins would never be awaited.
        _: Worker[None] = self.run_worker(work, exclusive=True, group="describe", exit_on_error=False)

    @property
    def _offer_chosen(self) -> ProposerOffer:
        assert self._found is not None  # noqa: S101  the choices are there
        return self._found.proposers[int(self._value("proposer"))]

    async def _say_proposer(self) -> None:
        """Whether the proposer chosen can start, and what it will cost, before the Enter that agrees."""
        offer = self._offer_chosen
        self.query_one("#start-usd", Select).disabled = not offer.spends
        if not offer.ready:
            self._say(offer.line, wrong=True)
            return
        words = offer.line if offer.name != "search" else self._found.why if self._found else ""
        if offer.spends:
            budget = int(self._value("budget")) or None
            try:
                words = await asyncio.to_thread(agent_forecast, offer.name, float(self._value("usd")), budget)
            except LabError as error:
                self._say(str(error), wrong=True)
                return
        self._say(words)

    async def _describe(self) -> None:
        """What the chosen pair means: whether it can be measured here, whether the model is covered."""
        try:
            device = await asyncio.to_thread(choose_device, self._value("gpu"), self._value("model"))
        except LabError as error:
            self._say(str(error), wrong=True)
            return
        why = self._found.why if self._found and self._found.gpu == device.gpu.name else device.line
        self._say(why)

    def on_button_pressed(self, event: Button.Pressed) -> None:
        event.stop()
        if event.button.id == "start-go":
            self.run_worker(self._make(), exclusive=True, group="make", exit_on_error=False)
        else:
            self.dismiss(None)

    def action_leave(self) -> None:
        self.dismiss(None)

    async def _make(self) -> None:
        budget = int(self._value("budget"))
        values = (self._value("gpu"), self._value("model"), self._value("task"), self._offer_chosen)
        cap = float(self._value("usd"))
        try:
            path = await asyncio.to_thread(make_lab, *values, self._value("mode"), budget or None, cap)
        except LabError as error:
            self._say(str(error), wrong=True)
            return
        self.dismiss(path)


def agent_forecast(proposer: str, usd: float, budget: int | None) -> str:
    """The line that a person agrees to with the start. Raises UsageError."""
    from kernel_lab.engine.proposers.agent.make import check_agent, outlook

    config = LabConfig(gpu="auto", proposer=proposer, usd=usd, budget=budget)
    check_agent(proposer, config)
    return outlook(proposer, config)


def make_lab(
    gpu: str,
    model: str,
    tasks: str,
    proposer: ProposerOffer,
    mode: str,
    budget: int | None,
    cap_usd: float,
) -> Path:
    """A new lab in the usual place. Everything that could be wrong is looked at before its folder is made."""
    from kernel_lab.engine.proposers.agent.make import check_agent
    from kernel_lab.engine.tasks import load_task, workload_matrix
    from kernel_lab.tui import machine

    device = choose_device(gpu, model)
    names = tuple(tasks.split(","))
    for name in names:
        workload_matrix(load_task(name), device.model, device.gpu)
    machine.require_compiler()
    config = LabConfig(
        gpu=device.gpu.name,
        device="measured" if device.measured else "static",
        model=device.model.name,
        tasks=names,
        proposer=proposer.name,
        mode=mode,
        budget=budget,
        usd=cap_usd if proposer.spends else None,
        agent_model=proposer.model,
        agent_url=proposer.url,
    )
    check_agent(config.proposer, config)
    with_lab = create_lab(new_lab_dir(config.gpu, config.model), config)
    with_lab.close()
    remember_lab(with_lab.path)
    return with_lab.path
