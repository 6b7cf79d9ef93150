"""The grammar of the command line: every command and option, and nothing that takes time to import.

Each command names the function that carries it out as `module:function`; `cli.main` imports it only then,
so that `--help` answers at once.
"""

from __future__ import annotations

import argparse
import difflib
import re
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from kernel_lab.engine.commands import VETO_CATEGORIES
from kernel_lab.engine.errors import UsageError
from kernel_lab.engine.facts import MODES

AGAINST = ("parent", "champion", "seed")

EPILOG = """\
exit status: 0 success; 1 the candidate was turned down or the check failed;
2 wrong use or environment, with one line on standard error that says what to do.
`kernel-lab COMMAND --help` lists a command's options."""


class Format(argparse.RawDescriptionHelpFormatter):
    """Keeps each command on one line: argparse measures their names without their indentation."""

    def add_argument(self, action: argparse.Action) -> None:
        super().add_argument(action)
        if isinstance(action, argparse._SubParsersAction):
            self._action_max_length += 2


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are UsageErrors: one line with a remedy."""

    def __init__(self, **settings: Any) -> None:
        settings.setdefault("allow_abbrev", False)
        settings.setdefault("formatter_class", Format)
        super().__init__(**settings)

    def parse_command(self, arguments: Sequence[str] | None) -> argparse.Namespace:
        """Like `parse_args`, but what is left over is told with the command that it was given to.

        `beside` of the result takes lines that go on standard error beside a successful answer.
        """
        options, left_over = self.parse_known_args(arguments)
        options.beside = []
        if left_over:
            prog = f"{self.prog} {options.command}" if options.command else self.prog
            raise UsageError(f"unrecognized arguments: {' '.join(left_over)}; see `{prog} --help`")
        return options

    def error(self, message: str) -> NoReturn:
        """Raise in place of printing usage and exiting."""
        raise UsageError(f"{_plainer(message)}; see `{self.prog} --help`")


def _plainer(message: str) -> str:
    """argparse's own wording, made plainer where it is not."""
    unknown = re.match(r"argument COMMAND: invalid choice: '(.*)' \(choose from (.*)\)", message, re.DOTALL)
    if unknown:
        word = unknown[1]
        near = difflib.get_close_matches(word, re.findall(r"[\w-]+", unknown[2]), n=1)
        return f"there is no command {word!r}" + (f"; did you mean {near[0]}?" if near else "")
    return re.sub(r"^argument ", "", message)


def whole(least: int) -> Callable[[str], int]:
    """Type of an option that counts: a whole number of at least `least`."""

    def convert(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is no whole number") from None
        if value < least:
            raise argparse.ArgumentTypeError(f"{value} is too small: give {least} or more")
        return value

    return convert


def amount(text: str) -> float:
    """Type of an option that measures: a finite number above zero."""
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no number") from None
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} does not do: give a number above 0")
    return value


def experiment(text: str) -> int:
    """Type of an experiment's number, with or without `#`."""
    try:
        value = int(text.removeprefix("#"))
    except ValueError:
        value = -1
    if value < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no experiment: give its number, such as 7")
    return value


def names(text: str) -> list[str]:
    """Type of a comma-separated list of names."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts:
        raise argparse.ArgumentTypeError("give at least one name")
    return list(dict.fromkeys(parts))


def name(text: str) -> str:
    """Type of an option that names one thing."""
    if not text.strip():
        raise argparse.ArgumentTypeError("is empty: give a name")
    return text


def words(text: str) -> str:
    """Type of a text that a person says: not empty."""
    if not text.strip():
        raise argparse.ArgumentTypeError("is empty: say something")
    return text


class Version(argparse.Action):
    """Prints the version; the distribution is read only then."""

    def __call__(self, parser: argparse.ArgumentParser, *rest: Any) -> NoReturn:
        from importlib.metadata import version

        print(f"kernel-lab {version('kernel-lab')}")
        parser.exit()


def build_parser() -> Parser:
    """The whole grammar."""
    parser = Parser(
        prog="kernel-lab",
        description="Research faster attention kernels and keep only what is proven.\n"
        "Without a command: the Labs screen, to open, start, resume or replay a lab.",
        epilog=EPILOG,
    )
    parser.add_argument("--version", action=Version, nargs=0, help="show the version and exit")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    parser.set_defaults(handler="kernel_lab.tui.cli_run:home", json=False)

    def command(name: str, handler: str, text: str, *, lab: bool = False) -> Parser:
        sub: Parser = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
        sub.set_defaults(handler=f"kernel_lab.tui.{handler}")
        sub.add_argument("--json", action="store_true", help="print JSON, for programs")
        if lab:
            sub.add_argument("--lab", metavar="DIR", help="the lab (default: the last used one)")
        return sub

    _add_running(command)
    _add_reading(command)
    _add_steering(command)
    _add_judging(command)
    _add_machine(command)
    return parser


Command = Callable[..., Parser]


def _add_running(command: Command) -> None:
    run = command("run", "cli_run:run", "start a lab, or resume one", lab=True)
    run.add_argument("--gpu", metavar="auto|NAME", type=name, help="GPU to judge for (default: auto)")
    run.add_argument(
        "--model", metavar="M", type=name, help="model whose shapes count (default: llama-3.1-8b)"
    )
    run.add_argument("--task", metavar="T,…", type=names, help="operators (default: gqa_decode,gqa_prefill)")
    run.add_argument("--proposer", metavar="P", help="search, manual, folder or an agent (default: search)")
    run.add_argument("--mode", choices=MODES, help="what waits for you (default: wins; headless: auto)")
    run.add_argument("--from", dest="from_file", metavar="FILE", help="start from this kernel")
    run.add_argument("--budget", metavar="N", type=whole(1), help="experiments (default: none; headless: 12)")
    run.add_argument("--trials", metavar="N", type=whole(1), help="trials of tunables per experiment")
    run.add_argument("--hours", metavar="H", type=amount, help="stop after so many hours")
    run.add_argument("--usd", metavar="X", type=amount, help="cap on what agents may cost, in USD")
    run.add_argument("--tokens", metavar="N", type=whole(1), help="cap on the tokens of agents")
    run.add_argument("--agent-model", metavar="M", help="model that the agent asks (default: its service's)")
    run.add_argument("--agent-url", metavar="URL", help="another service with the same protocol")
    run.add_argument("--agent-key", metavar="NAME", help="variable that holds the key for --agent-url")
    run.add_argument("--agent-env", metavar="NAME,…", help="variables that an agent program gets")
    run.add_argument(
        "--uncapped",
        dest="agent_uncapped",
        action="store_true",
        default=None,
        help="agree to spend a key without a cap",
    )
    run.add_argument("--seed", metavar="S", type=whole(0), help="seed of everything drawn (default: 0)")
    run.add_argument("--headless", action="store_true", help="no screen: lines until the engine stops")
    run.add_argument("--detach", action="store_true", help="start the engine, print the lab and return")

    opened = command("open", "cli_run:open_lab_screen", "watch and steer a lab")
    opened.add_argument("lab", metavar="LAB", nargs="?", help="folder or name (default: the last used one)")
    replay = command("replay", "cli_run:replay", "play a recorded lab again")
    replay.add_argument("lab", metavar="LAB|NAME", help="a lab's folder, or the name of a recording")


def _add_reading(command: Command) -> None:
    labs = command("labs", "cli_manage:labs", "list the labs on this machine, or manage one")
    one = labs.add_mutually_exclusive_group()
    one.add_argument("--rename", metavar=("LAB", "NAME"), nargs=2, help="give a lab another name")
    one.add_argument("--prune", metavar="LAB", help="delete logs and compiled files of what was not kept")
    one.add_argument("--delete", metavar="LAB", help="delete a lab with everything in it")
    labs.add_argument("--yes", action="store_true", help="agree to --delete")
    results = command("results", "cli_read:results", "list the experiments of a lab", lab=True)
    results.add_argument("--tsv", action="store_true", help="tab-separated: commit, status, score, …")
    show = command("show", "cli_show:show", "everything known about one experiment", lab=True)
    show.add_argument("experiment", metavar="N", type=experiment)
    show.add_argument("--receipt", action="store_true", help="print the receipt of a kept win, for `verify`")
    diff = command("diff", "cli_show:diff", "what an experiment changed", lab=True)
    diff.add_argument("experiment", metavar="N", type=experiment)
    diff.add_argument("--against", choices=AGAINST, default="parent", help="the other side (default: parent)")
    report = command("report", "cli_report:run", "write the lab as one HTML page to share", lab=True)
    report.add_argument(
        "-o", "--output", metavar="FILE", help="the page, or - for standard output (default: LAB.html)"
    )
    ideas = command(
        "ideas", "cli_ideas:ideas", "what people said, and how well ideas were predicted", lab=True
    )
    change = ideas.add_mutually_exclusive_group()
    change.add_argument("--withdraw", metavar="IDEA", type=whole(1), help="take this idea back")
    change.add_argument(
        "--edit", metavar=("IDEA", "TEXT"), nargs=2, help="say it in other words (-: from input)"
    )
    change.add_argument(
        "--move", metavar=("IDEA", "PLACE"), nargs=2, help="heed it in this place; 1 is first"
    )
    limits = command(
        "bottleneck", "cli_bottleneck:bottleneck", "what limits the champion, or a candidate file", lab=True
    )
    limits.add_argument("file", metavar="FILE", nargs="?", help="a candidate (default: the lab's champions)")
    limits.add_argument("--task", metavar="T", help="the operator (default: all of the lab)")
    limits.add_argument("--gpu", metavar="auto|NAME", type=name, help="GPU to judge FILE for (default: auto)")
    limits.add_argument("--model", metavar="M", type=name, help="model whose shapes count for FILE")
    context = command("context", "cli_context:context", "what an agent would be shown next", lab=True)
    context.add_argument("--task", metavar="T", help="the operator (default: the one whose turn it is)")
    context.add_argument(
        "--tokens", metavar="N", type=whole(1), help="budget of tokens (default: that of the lab)"
    )


def _add_steering(command: Command) -> None:
    say = command("say", "cli_steer:say", "tell the proposer an idea", lab=True)
    say.add_argument("text", metavar="TEXT", nargs="+", type=words)
    scope = say.add_mutually_exclusive_group()
    scope.add_argument("--always", action="store_true", help="for every proposal until withdrawn")
    scope.add_argument("--from", dest="from_experiment", metavar="N", type=experiment, help="start from #N")
    submit = command("submit", "cli_steer:submit", "hand in a candidate: the next experiment", lab=True)
    submit.add_argument("file", metavar="FILE")
    submit.add_argument("--task", metavar="T", help="the operator (default: by the file's entry function)")
    submit.add_argument("--what", metavar="TEXT", type=words, help="one sentence: what it tries")
    submit.add_argument("--idea", metavar="IDEA", type=whole(1), action="append", help="idea that it answers")
    approve = command("approve", "cli_steer:approve", "say yes to what an experiment asks", lab=True)
    approve.add_argument("experiment", metavar="N", type=experiment)
    approve.add_argument("--with", dest="edited", metavar="FILE", help="approve this text in its place")
    reject = command("reject", "cli_steer:reject", "say no to what an experiment asks", lab=True)
    reject.add_argument("experiment", metavar="N", type=experiment)
    reject.add_argument("--why", metavar="TEXT", type=words, required=True, help="reason, for the proposer")
    keep = command("keep", "cli_steer:keep", "keep a win that is held, or was vetoed or rejected", lab=True)
    keep.add_argument("experiment", metavar="N", type=experiment)
    veto = command("veto", "cli_steer:veto", "take a kept win back", lab=True)
    veto.add_argument("experiment", metavar="N", type=experiment)
    veto.add_argument("--why", metavar="TEXT", type=words, required=True, help="reason, for the proposer")
    veto.add_argument("--category", choices=VETO_CATEGORIES, default="other", help="kind of reason")
    veto.add_argument(
        "--probe",
        metavar="CODE",
        type=words,
        help="code that describes the cheat: what it fits is turned down",
    )
    remeasure = command(
        "remeasure", "cli_steer:remeasure", "judge an experiment again, with fresh seeds", lab=True
    )
    remeasure.add_argument("experiment", metavar="N", type=experiment)
    answer = command("answer", "cli_steer:answer", "answer an agent's question", lab=True)
    answer.add_argument("question", metavar="Q", type=whole(1), help="the question's number")
    answer.add_argument("text", metavar="TEXT", nargs="+", type=words)
    mode = command("mode", "cli_steer:mode", "say what waits for you", lab=True)
    mode.add_argument("mode", metavar="ask|wins|auto", choices=MODES)
    command("pause", "cli_steer:pause", "wait after the running experiment", lab=True)
    command("resume", "cli_steer:resume", "go on after a pause", lab=True)
    command("kill", "cli_steer:kill", "end the running experiment now, and go on", lab=True)
    stop = command("stop", "cli_steer:stop", "end the engine after the running experiment", lab=True)
    stop.add_argument("--now", action="store_true", help="at once; the experiment is resumed later")


def _add_judging(command: Command) -> None:
    check = command("check", "cli_judge:check", "put a candidate file through every gate")
    check.add_argument("file", metavar="FILE")
    bench = command("bench", "cli_judge:bench", "the speed of a candidate file, or of a task's seed kernel")
    bench.add_argument("file", metavar="FILE", nargs="?")
    for sub in (check, bench):
        sub.add_argument("--task", metavar="T", help="the operator (default: by the file's entry function)")
        sub.add_argument("--gpu", metavar="auto|NAME", type=name, help="GPU to judge for (default: auto)")
        sub.add_argument(
            "--model", metavar="M", type=name, help="model whose shapes count (default: llama-3.1-8b)"
        )
    check.add_argument(
        "--seed", metavar="S", type=whole(0), default=0, help="seed of the inputs (default: 0)"
    )

    selftest = command("selftest", "cli_selftest:selftest", "try the judge with cheats and honest kernels")
    selftest.add_argument("--quick", action="store_true", help="a part of the files, in seconds")
    selftest.add_argument("--task", metavar="T,…", type=names, help="operators (default: all that ship)")
    selftest.add_argument("--gpu", metavar="auto|NAME", type=name, help="GPU to judge for (default: auto)")

    verify = command("verify", "cli_verify:verify", "re-check what a lab kept, or one receipt")
    verify.add_argument(
        "lab", metavar="LAB|FILE", nargs="?", help="a lab or a receipt (default: the last lab)"
    )
    verify.add_argument(
        "--gpu", metavar="auto|NAME", type=name, help="GPU to judge for (default: the recorded one)"
    )
    verify.add_argument(
        "--model", metavar="M", type=name, help="model whose shapes count (default: the recorded one)"
    )
    verify.add_argument("--seed", metavar="S", type=whole(0), help="seed of the inputs (default: drawn anew)")


def _add_machine(command: Command) -> None:
    command("doctor", "doctor:doctor", "what this machine has, lacks, and how to mend it")
    profiles = command("profiles", "cli_read:profiles", "GPU and model profiles: list, show, validate")
    profiles.add_argument("action", choices=("list", "show", "validate"), nargs="?", default="list")
    profiles.add_argument("name", metavar="NAME|FILE", nargs="?", help="one profile, or a profile's file")
    command("paths", "cli_read:paths", "where kernel-lab keeps its files")
