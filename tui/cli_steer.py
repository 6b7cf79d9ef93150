"""Commands by which a person steers a lab from any terminal: each is one row in the lab's command table."""

from __future__ import annotations

import argparse
from pathlib import Path

from kernel_lab.engine import commands as c
from kernel_lab.engine.errors import UsageError
from kernel_lab.tui import output
from kernel_lab.tui.cli_lab import chosen_lab, experiment_of, reading

WAIT_S = 5.0
REFUSED = "refused: "
"""How the engine's answer begins when it does not obey."""


def send(options: argparse.Namespace, command: c.Command) -> int:
    """Hand `command` to the lab's engine and say what came of it.

    Without a running engine the command waits in the lab for the next one. A refusal raises UsageError.
    """
    from kernel_lab.engine import session

    path = chosen_lab(options)
    number = session.send(path, command, output.PERSON)
    running = session.engine_pid(path) is not None
    answer = session.wait_result(path, number, WAIT_S) if running else None
    if answer is not None and answer.startswith(REFUSED):
        if options.json:
            _print_json(path, command, number, "refused", answer.removeprefix(REFUSED))
        raise UsageError(answer.removeprefix(REFUSED))
    if options.json:
        _print_json(path, command, number, "obeyed" if answer is not None else "queued", answer)
    elif answer is not None:
        print(output.clean(answer))
    elif running:
        print(f"queued: the engine has not answered within {WAIT_S:.0f} s and obeys when it can")
    else:
        print(f"queued: no engine runs; obeyed when the lab goes on (kernel-lab run --lab {path})")
    return 0


def _print_json(path: Path, command: c.Command, number: int, state: str, answer: str | None) -> None:
    name = c.command_name(type(command))
    output.print_json({"lab": path, "command": name, "id": number, "state": state, "result": answer})


def _must_run(options: argparse.Namespace, what: str) -> None:
    """Refuse what makes sense only now: left in the lab it would hit the next engine."""
    from kernel_lab.engine import session

    path = chosen_lab(options)
    if session.engine_pid(path) is None:
        raise UsageError(f"no engine runs in {path}, so there is nothing to {what}; see `kernel-lab labs`")


def _asked_sha(options: argparse.Namespace) -> str:
    """Text that the open question about an experiment is tied to. Raises UsageError if nothing is asked."""
    with reading(options) as lab:
        experiment_of(lab, options.experiment)
        for question in lab.ledger.open_questions():
            if question.experiment == options.experiment:
                return question.source_sha
        waiting = ", ".join(f"#{question.experiment}" for question in lab.ledger.open_questions())
    known = f"what waits for you: {waiting}" if waiting else "nothing waits for you; see `kernel-lab results`"
    raise UsageError(f"nothing is asked about #{options.experiment}: {known}")


def _known(options: argparse.Namespace, number: int) -> None:
    with reading(options) as lab:
        experiment_of(lab, number)


def say(options: argparse.Namespace) -> int:
    """Tell the proposer an idea."""
    text = " ".join(options.text)
    if options.from_experiment is not None:
        _known(options, options.from_experiment)
        return send(options, c.Say(text, "from", options.from_experiment))
    return send(options, c.Say(text, "always" if options.always else "next"))


def submit(options: argparse.Namespace) -> int:
    """Hand in a candidate: it is judged as the next experiment of its task."""
    from kernel_lab.engine.candidate import parse, read_candidate_file
    from kernel_lab.engine.proposers.people import words_from_docstring
    from kernel_lab.tui.entries import task_of

    path = Path(options.file)
    with reading(options) as lab:
        tasks = lab.config.tasks
    source = read_candidate_file(path)
    task = task_of(source, options.task, tasks)
    parse(source, task.entry)
    what = options.what or words_from_docstring(source).description or f"Try {path.name}."
    return send(options, c.Submit(task.name, source, what, tuple(options.idea or ())))


def approve(options: argparse.Namespace) -> int:
    """Say yes to what an experiment asks, tied to the very text that it asks about."""
    sha = _asked_sha(options)
    if options.edited is None:
        return send(options, c.Approve(options.experiment, sha))
    from kernel_lab.engine.candidate import parse, read_candidate_file
    from kernel_lab.engine.tasks import load_task

    source = read_candidate_file(Path(options.edited))
    with reading(options) as lab:
        task = load_task(experiment_of(lab, options.experiment).task)
    parse(source, task.entry)
    return send(options, c.Edit(options.experiment, source))


def reject(options: argparse.Namespace) -> int:
    """Say no to what an experiment asks."""
    return send(options, c.Reject(options.experiment, options.why, _asked_sha(options)))


def keep(options: argparse.Namespace) -> int:
    """Keep a win that is held, or that was vetoed or rejected."""
    _known(options, options.experiment)
    return send(options, c.Keep(options.experiment))


def veto(options: argparse.Namespace) -> int:
    """Take a kept win back."""
    _known(options, options.experiment)
    probe = options.probe or ""
    if probe:
        from kernel_lab.engine.judge.veto_probe import parse_pattern

        parse_pattern(probe)
    return send(options, c.Veto(options.experiment, options.why, options.category, probe))


def remeasure(options: argparse.Namespace) -> int:
    """Judge an experiment again with fresh seeds."""
    _known(options, options.experiment)
    return send(options, c.Remeasure(options.experiment))


def answer(options: argparse.Namespace) -> int:
    """Answer an agent's question."""
    return send(options, c.Answer(options.question, " ".join(options.text)))


def mode(options: argparse.Namespace) -> int:
    """Say what waits for a person."""
    return send(options, c.SetMode(options.mode))


def pause(options: argparse.Namespace) -> int:
    """Wait after the running experiment."""
    return send(options, c.Pause())


def resume(options: argparse.Namespace) -> int:
    """Go on after a pause."""
    return send(options, c.Resume())


def kill(options: argparse.Namespace) -> int:
    """End the running experiment and go on with the next."""
    _must_run(options, "kill")
    return send(options, c.Kill())


def stop(options: argparse.Namespace) -> int:
    """End the engine."""
    _must_run(options, "stop")
    return send(options, c.Stop(now=options.now))
