"""What Live and Experiment have in common: answering questions, saying ideas, steering the engine."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from kernel_lab.engine import commands as c
from kernel_lab.engine.errors import LabError
from kernel_lab.engine.facts import MODES
from kernel_lab.engine.ledger.views import IdeaRow, OpenQuestion
from kernel_lab.tui import actions, editor, fmt
from kernel_lab.tui.actions import Situation
from kernel_lab.tui.detail import Detail
from kernel_lab.tui.lab_session import BASES, LabSession
from kernel_lab.tui.screens.base import PlaceScreen
from kernel_lab.tui.screens.dialogs import Choice, ChoiceDialog, Reason, ReasonDialog
from kernel_lab.tui.text import one_line
from kernel_lab.tui.widgets.diff import DiffView
from kernel_lab.tui.widgets.idea_box import IdeaBox, TextBox

IDEA_KEYS = "123456789abcdef"
IDEAS_LISTED = len(IDEA_KEYS)
SHOWN = {"ask": "every proposal asks", "wins": "only wins ask", "auto": "only holds ask"}
MODE_KEYS = {"a": "ask", "w": "wins", "u": "auto"}


class SteeringScreen(PlaceScreen):
    """A place over one lab. `detail` is the experiment that it shows."""

    def __init__(self, session: LabSession) -> None:
        super().__init__()
        self.session = session

    @property
    def detail(self) -> Detail | None:
        raise NotImplementedError

    @property
    def shown_question(self) -> OpenQuestion | None:
        """The open question about the experiment shown."""
        return self.session.model.question_about(self.detail.experiment) if self.detail else None

    @property
    def aimed(self) -> int | None:
        """The experiment that a veto is about: the one shown."""
        return self.detail.experiment if self.detail else None

    def situation(self) -> Situation:
        model, detail = self.session.model, self.detail
        view, question, aimed = model.view, self.shown_question, self.aimed
        row = model.rows.get(aimed) if aimed is not None else None
        status = detail.status if detail is not None and detail.experiment == aimed else ""
        return Situation(
            place=self.place,
            replaying=self.session.replaying,
            playing=model.position.playing,
            engine_alive=bool(view and view.engine_alive),
            paused=bool(view and view.paused),
            running=bool(model.detail and model.detail.running) or model.proposing is not None,
            waiting=len(model.questions),
            question=None
            if question is None
            else actions.Question(
                question.experiment, question.kind, question.source_sha, question.reason, question.since
            ),
            shown=aimed,
            shown_status=row.status if row else status,
            has_source=bool(detail and detail.source_sha),
            ideas=sum(idea.waiting for idea in model.ideas),
            by_hand=self.copy_by_hand() is not None,
        )

    def copy_by_hand(self) -> Path | None:
        """The copy of the champion that proposer `manual` waits for the person to change."""
        model, lab_dir = self.session.model, self.session.lab_dir
        if lab_dir is None or model.proposer != "manual" or model.proposing is None:
            return None
        task = str(model.now.get("task") or "").rpartition("/")[2]
        copies = {
            int(number): path
            for path in (lab_dir / "manual").glob(f"{task}-*.py")
            if (number := path.stem.rpartition("-")[2]).isdecimal() and int(number) <= model.proposing
        }
        return copies[max(copies)] if copies else None

    # ---- the diff

    base = "parent"
    """What the diff is against: one of BASES."""

    def do_diff_base(self) -> None:
        self.base = BASES[(BASES.index(self.base) + 1) % len(BASES)]
        self.draw_diff()

    def do_diff_sides(self) -> None:
        self.tell(self.query_one(DiffView).turn())

    def draw_diff(self) -> None:
        """Show the diff against the base chosen."""
        raise NotImplementedError

    def base_sha(self, detail: Detail) -> str | None:
        """What the champion's text is now, if the diff is against it."""
        champion = self.session.model.champion(detail.task)
        return champion.source_sha if self.base == "champion" and champion else None

    # ---- sending

    def send(self, command: c.Command, done: Callable[[str], None] | None = None) -> None:
        """Send in the background; a toast says what came of it."""

        async def sending() -> None:
            try:
                result = await self.session.send(command)
            except LabError as error:
                self.tell(str(error), "error")
                if done is not None:
                    done(f"refused: {error}")
                return
            if result is None:
                view = self.session.model.view
                alive = view is not None and view.engine_alive
                waits = "the engine has not answered yet" if alive else "no engine runs: space starts it"
                self.tell(f"sent; {waits}")
                return
            refused = result.startswith("refused")
            self.tell(result, "warning" if refused else "information")
            if done is not None:
                done(result)

        self.run_worker(sending(), group="send", exit_on_error=False)

    def later(self, work: Awaitable[Any]) -> None:
        """Do something in the background; an error of the lab becomes a toast."""

        async def working() -> None:
            try:
                await work
            except LabError as error:
                self.tell(str(error), "error")

        self.run_worker(working(), group="work", exit_on_error=False)

    # ---- answering

    def do_approve(self) -> None:
        question, detail = self.shown_question, self.detail
        if question is None or detail is None:
            self.look_first()
            return
        if detail.source_sha != question.source_sha:
            self.tell("the candidate changed while it was shown: look at it, then press again", "warning")
            self.show_again()
            return
        refused = self.lab_app.guard.refuses(sight_of(question))
        if refused is not None:
            self.tell(refused, "warning")
            return
        self.send(c.Approve(question.experiment, question.source_sha))

    def look_first(self) -> None:
        """An answer was asked for, but what is asked about is not in sight: show it."""
        raise NotImplementedError

    def show_again(self) -> None:
        """Read the experiment anew."""

    def do_reject(self) -> None:
        question = self.shown_question
        if question is None:
            self.look_first()
            return

        def reason(given: Reason | None) -> None:
            if given is not None:
                self.send(c.Reject(question.experiment, given.text, question.source_sha))

        title = f"Why reject #{question.experiment}?"
        self.app.push_screen(ReasonDialog(title, typed=self.lab_app.guard.typed), reason)

    def do_veto(self) -> None:
        experiment = self.aimed
        if experiment is None:
            return

        self._ask_veto(experiment, "")

    def _ask_veto(self, experiment: int, written: str) -> None:
        """Ask why; what was written is asked about again if the engine refuses it."""

        def reason(given: Reason | None) -> None:
            if given is None:
                return
            why, probe = split_probe(given.text)

            def again(result: str) -> None:
                if probe and result.startswith("refused"):
                    self._ask_veto(experiment, given.text)

            self.send(c.Veto(experiment, why, given.category, probe), again)

        dialog = ReasonDialog(
            f"Why veto #{experiment}?",
            c.VETO_CATEGORIES,
            typed=self.lab_app.guard.typed,
            hint="why? A line `probe: CODE` turns down what the code fits from now on (_ is any part)",
            written=written,
        )
        self.app.push_screen(dialog, reason)

    def do_keep(self) -> None:
        if self.detail is not None:
            self.send(c.Keep(self.detail.experiment))

    def do_remeasure(self) -> None:
        if self.detail is not None:
            self.send(c.Remeasure(self.detail.experiment))

    def do_edit(self) -> None:
        copy = self.copy_by_hand()
        if copy is not None:
            self.later(self._edit_by_hand(copy))
            return
        question = self.shown_question
        if question is None:
            self.look_first()
            return

        async def editing() -> None:
            source = await self.session.text(question.source_sha)
            if source is None:
                self.tell("the candidate's text is not in the ledger", "error")
                return
            after = self.in_terminal(lambda: editor.edited(source, f"candidate_{question.experiment}.py"))
            if after is None:
                self.tell("nothing was changed, so nothing was sent")
                return
            current = self.session.model.question_about(question.experiment)
            if current is None or current.source_sha != question.source_sha:
                self.tell(f"#{question.experiment} is not asked about any more: nothing was sent", "warning")
                return
            self.send(c.Edit(question.experiment, after))

        self.later(editing())

    async def _edit_by_hand(self, path: Path) -> None:
        self.in_terminal(lambda: editor.edit_file(path))
        self.tell("the engine takes the file as soon as it was changed and saved")

    def in_terminal(self, work: Callable[[], str | None]) -> str | None:
        """Lend the terminal to another program, and take it back."""
        with self.app.suspend():
            result = work()
        self.app.refresh()
        return result

    # ---- saying

    def do_say(self) -> None:
        box = self.query_one(IdeaBox)
        box.begin("from" if self.place == "experiment" else None)

    def on_idea_box_said(self, event: IdeaBox.Said) -> None:
        event.stop()
        self.focus_main()

        def noted(result: str) -> None:
            if self.session.model.proposer == "search" and not result.startswith("refused"):
                self.offer_idea(event.text)

        self.send(c.Say(event.text, event.scope, event.from_experiment), noted)

    def on_idea_box_answered(self, event: IdeaBox.Answered) -> None:
        event.stop()
        self.focus_main()
        self.send(c.Answer(event.question, event.text))

    def offer_idea(self, text: str) -> None:
        """Search cannot read: the idea is recorded already, and here is what could carry it out now."""
        found = editor.agents_found()
        champion = f"the champion of {fmt.task_word(self._idea_task())}"
        choices = [
            Choice("k", "keep it", "for the first agent that proposes in this lab"),
            Choice("o", "open in the editor", f"carry it out yourself, starting from {champion}"),
        ]
        for index, agent in enumerate(found[:5], 1):
            choices.append(Choice(str(index), f"hand to {agent.name}", f"it works on a copy of {champion}"))
        note = "The idea is noted in the lab and will not be lost. Search turns switches and cannot read it."
        if not found:
            note += " No agent program was found on the PATH (claude, codex, gemini, opencode, aider)."

        def chosen(key: str | None) -> None:
            if key == "o":
                self.later(self._carry_out(text, None))
            elif key is not None and key.isdigit():
                self.later(self._carry_out(text, found[int(key) - 1]))
            else:
                self.tell("kept: the first agent that proposes here reads it")

        self.app.push_screen(ChoiceDialog("What should become of the idea?", choices, note), chosen)

    def _idea_task(self) -> str:
        """The task that an idea is for: that of the experiment shown, else the lab's first."""
        tasks = self.session.model.view.tasks if self.session.model.view else ()
        shown = self.detail.task if self.detail else ""
        return shown if shown in tasks else tasks[0] if tasks else ""

    async def _carry_out(self, text: str, agent: editor.AgentProgram | None) -> None:
        """Let a person or an agent program write the candidate for an idea, and hand it in."""
        model, task = self.session.model, self._idea_task()
        champion = model.champion(task)
        source = await self.session.text(champion.source_sha if champion else None)
        if source is None:
            self.tell(
                f"there is no champion of {task or 'any task'} to start from yet: the idea is kept", "warning"
            )
            return
        ideas = tuple(idea.id for idea in model.ideas if idea.text == text and not idea.used_by)[-1:]
        if agent is None:
            comment = "".join(f"# idea: {line}\n" for line in text.splitlines())
            after = self.in_terminal(lambda: editor.edited(comment + source, "candidate.py"))
        else:
            gpu = model.view.gpu if model.view else ""
            notes = f"The candidate is a Triton kernel for the task {task}, judged for {gpu}.\n"
            after = self.in_terminal(lambda: editor.by_agent(agent, text, source, notes))
        if after is None:
            self.tell("nothing was changed: the idea is kept")
            return
        sentence = " ".join(text.split())[:200]
        self.send(c.Submit(task, after, sentence, ideas), lambda result: self._submitted(result, after))

    def _submitted(self, result: str, source: str) -> None:
        """A text that was refused is not lost: it lies in the lab, to be mended and handed in again."""
        lab_dir = self.session.lab_dir
        if not result.startswith("refused") or lab_dir is None:
            return
        folder = lab_dir / "refused"
        try:
            folder.mkdir(exist_ok=True)
            number = sum(1 for _ in folder.glob("*.py")) + 1
            path = folder / f"candidate_{number}.py"
            path.write_text(source, encoding="utf-8")
        except OSError as error:
            self.tell(f"the candidate could not be saved ({error.strerror})", "error")
            return
        self.tell(f"saved as refused/{path.name} in the lab: mend it, then `kernel-lab submit` it", "warning")

    def do_ideas(self) -> None:
        """What people said that still counts, in its order; one can be changed, put first or taken back."""
        waiting = [idea for idea in self.session.model.ideas if idea.waiting][:IDEAS_LISTED]
        choices = [
            Choice(
                IDEA_KEYS[index],
                f"idea {idea.id}, {f'from #{idea.from_experiment}' if idea.scope == 'from' else idea.scope}",
                one_line(idea.text, 200),
            )
            for index, idea in enumerate(waiting)
        ]

        def chosen(key: str | None) -> None:
            if key is not None:
                self._about_idea(waiting[IDEA_KEYS.index(key)])

        self.app.push_screen(ChoiceDialog("Change which idea?", choices), chosen)

    def _about_idea(self, idea: IdeaRow) -> None:
        """What should become of one idea that waits."""
        choices = [
            Choice("w", "withdraw", "take it back"),
            Choice("e", "edit", "say it in other words, in your editor"),
            Choice("f", "first", "let it be heeded before the others"),
        ]

        def chosen(key: str | None) -> None:
            if key == "w":
                self.send(c.Withdraw(idea.id))
            elif key == "f":
                self.send(c.MoveIdea(idea.id, 1))
            elif key == "e":
                self.later(self._edit_idea(idea))

        self.app.push_screen(
            ChoiceDialog(f"What should become of idea {idea.id}?", choices, idea.text), chosen
        )

    async def _edit_idea(self, idea: IdeaRow) -> None:
        after = self.in_terminal(lambda: editor.edited(idea.text, f"idea_{idea.id}.txt"))
        if after is None:
            self.tell("nothing was changed")
        else:
            self.send(c.EditIdea(idea.id, after))

    def on_text_box_typed(self, event: TextBox.Typed) -> None:
        event.stop()
        self.lab_app.guard.typed()

    def on_text_box_left(self, event: TextBox.Left) -> None:
        event.stop()
        self.focus_main()

    def focus_main(self) -> None:
        """Give the keys back to the panes."""
        raise NotImplementedError

    # ---- the report

    def do_report(self) -> None:
        self.tell("writing the report ...")
        self.later(self._report())

    async def _report(self) -> None:
        from kernel_lab.tui import cli_report

        path = await asyncio.to_thread(cli_report.write_beside, self.session.folder, self.session.source.name)
        self.tell(f"wrote {path}: open it in a browser")

    # ---- steering the engine

    def do_pause(self) -> None:
        view = self.session.model.view
        if view is not None and not view.engine_alive:
            self.later(self._start())
        else:
            self.send(c.Resume() if view is not None and view.paused else c.Pause())

    async def _start(self) -> None:
        self.tell("starting the engine ...")
        self.lab_app.require_engine()
        await self.session.start_engine()
        self.tell("the engine runs")

    def do_mode(self) -> None:
        view = self.session.model.view
        mode = view.mode if view else ""
        following = MODES[(MODES.index(mode) + 1) % len(MODES)] if mode in MODES else MODES[0]

        choices = [Choice(key, name, SHOWN[name]) for key, name in MODE_KEYS.items()]

        def chosen(key: str | None) -> None:
            if key is not None:
                self.send(c.SetMode(MODE_KEYS[key]))

        self.app.push_screen(
            ChoiceDialog(f"Who decides? Now: {mode}; next in turn: {following}", choices), chosen
        )

    def do_kill(self) -> None:
        model = self.session.model
        name = f"#{model.proposing or model.newest}"

        def chosen(key: str | None) -> None:
            if key == "y":
                self.send(c.Kill())

        choices = [
            Choice("y", "end it now", "its verdict is `interrupted`, the loop goes on"),
            Choice("n", "no"),
        ]
        self.app.push_screen(ChoiceDialog(f"End {name} now?", choices), chosen)

    def do_stop(self) -> None:
        def chosen(key: str | None) -> None:
            if key in ("a", "n"):
                self.send(c.Stop(now=key == "n"))

        choices = [
            Choice("a", "after this experiment", "nothing is interrupted"),
            Choice("n", "now", "the experiment resumes from its last step next time"),
            Choice("c", "cancel", "the engine goes on"),
        ]
        self.app.push_screen(ChoiceDialog("Stop the engine?", choices), chosen)


def split_probe(text: str) -> tuple[str, str]:
    """A veto's reason, and the code after `probe:` where one of its lines begins so; empty if none does."""
    probe, lines = "", []
    for line in text.splitlines():
        head, colon, code = line.partition(":")
        if colon and head.strip().lower() == "probe":
            probe = code.strip()
        else:
            lines.append(line)
    return "\n".join(lines).strip() or probe, probe


def sight_of(question: OpenQuestion) -> tuple[int, str, str]:
    """What makes a question another one for the eye: whom it is about, what is asked, and which text."""
    return (question.experiment, question.kind, question.source_sha)
