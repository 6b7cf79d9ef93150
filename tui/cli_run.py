"""Commands that open, start, resume or replay a lab. The screen is loaded only where one is shown."""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from kernel_lab.engine import session
from kernel_lab.engine.candidate import parse, read_candidate_file
from kernel_lab.engine.commands import SetMode
from kernel_lab.engine.errors import CandidateInvalid, UsageError
from kernel_lab.engine.lab import (
    RESTORED,
    Lab,
    LabConfig,
    check_free,
    create_lab,
    last_lab,
    new_lab_dir,
    open_lab,
    remember_lab,
    resolve_lab,
)
from kernel_lab.engine.lab import write_config as write_settings
from kernel_lab.engine.ledger.store import Ledger
from kernel_lab.engine.ledger.views import Spending
from kernel_lab.engine.proposers.base import AGENTS, NAMES
from kernel_lab.engine.tasks import TaskSpec, load_task, shipped_tasks, workload_matrix
from kernel_lab.tui import machine, output
from kernel_lab.tui.choices import DEFAULT_PROPOSER, DEFAULT_TASKS, HEADLESS_BUDGET, Device, choose_device
from kernel_lab.tui.sources import recording_named, recordings

LIMITS = ("budget", "trials", "hours", "usd", "tokens")
AGENT = ("agent_model", "agent_url", "agent_key", "agent_env", "agent_uncapped")
SETTINGS = (*LIMITS, *AGENT)
"""Options that a lab may be given anew when it is resumed."""

DEFINING = ("gpu", "model", "task", "proposer", "from_file", "seed")
"""Options that say which lab is meant: with one of them and no `--lab`, a new lab is made."""


def home(options: argparse.Namespace) -> int:
    """The Labs screen."""
    machine.require_terminal()
    return _screen(None)


def run(options: argparse.Namespace) -> int:
    """Start a lab, or resume one."""
    if options.json:
        options.headless = True
    unattended = options.headless or options.detach
    place = _existing(options)
    lab = _create(options, unattended) if place is None else _resume(options, place, unattended)
    with closing(lab):
        path = lab.path
        position = lab.ledger.last_seq()
    remember_lab(path)
    if not unattended:
        return _screen(path, start_engine=True)
    pid = session.engine_pid(path)
    if pid is None:
        pid = session.start_engine(path)
    if options.detach:
        return _detached(options, path, pid)
    from kernel_lab.tui.headless import follow

    line = f"lab {path} (engine: process {pid}); commands without --lab mean this lab now"
    (output.note if options.json else print)(output.clean(line))
    return follow(path, position, as_json=options.json)


def _detached(options: argparse.Namespace, path: Path, pid: int) -> int:
    if options.json:
        output.print_json({"lab": path, "pid": pid})
    else:
        print(path)
        output.note(
            f"the engine runs as process {pid}: `kernel-lab open {path}` shows it, `kernel-lab stop` ends it"
        )
    return 0


def open_lab_screen(options: argparse.Namespace) -> int:
    """Watch and steer a lab; as JSON its events so far, and what comes while its engine runs."""
    path = resolve_lab(options.lab)
    open_lab(path, readonly=True).close()
    if options.json:
        from kernel_lab.tui.headless import watch

        return watch(path)
    machine.require_terminal("`kernel-lab open LAB --json`, or `kernel-lab results`")
    remember_lab(path)
    return _screen(path)


def replay(options: argparse.Namespace) -> int:
    """Play a recorded lab; as JSON every recorded event at once."""
    named = Path(options.lab).expanduser()
    path = named if named.is_file() else recording_named(options.lab) or _to_replay(options.lab)
    if options.json:
        from kernel_lab.engine.ledger.store import DATABASE
        from kernel_lab.tui.headless import print_event

        with closing(Ledger.recording(path if path.is_file() else path / DATABASE)) as ledger:
            position = 0
            while records := ledger.records(after=position, limit=1000):
                for record in records:
                    print_event(record)
                position = records[-1].seq
        return 0
    machine.require_terminal("`kernel-lab replay LAB --json`")
    return _screen(path, replay=True)


def _to_replay(name: str) -> Path:
    try:
        return resolve_lab(name)
    except UsageError as unknown:
        shipped = ", ".join(source.name for source in recordings())
        raise UsageError(f"{unknown}; the recordings are {shipped}" if shipped else str(unknown)) from unknown


def _screen(path: Path | None, *, start_engine: bool = False, replay: bool = False) -> int:
    from kernel_lab.tui.app import run_app

    return run_app(path, start_engine=start_engine, replay=replay) or 0


# ---- which lab -------------------------------------------------------------------------------------


def _existing(options: argparse.Namespace) -> Path | None:
    """The lab to resume; None if a new one is meant."""
    if options.lab is None:
        defining = any(getattr(options, name) is not None for name in DEFINING)
        return None if defining else last_lab()
    try:
        return resolve_lab(options.lab)
    except UsageError:
        return None


def _create(options: argparse.Namespace, unattended: bool) -> Lab:
    """A new lab. Everything that could be wrong is looked at before its folder is made."""
    device = choose_device(options.gpu, options.model)
    tasks = [load_task(name) for name in options.task or DEFAULT_TASKS]
    source = None
    if options.from_file is not None:
        source = str(Path(options.from_file).absolute())
        tasks = _tasks_of(source, tasks, narrow=options.task is None)
    for task in tasks:
        workload_matrix(task, device.model, device.gpu)
    proposer = options.proposer or DEFAULT_PROPOSER
    check_proposer(proposer)
    if options.lab is not None:
        check_free(Path(options.lab).expanduser())
    _require(unattended)
    config = _config(options, device, tasks, proposer, source, unattended)
    check_agreement(config)
    folder = new_lab_dir(config.gpu, config.model) if options.lab is None else Path(options.lab).expanduser()
    output.note(device.line)
    return create_lab(folder, config)


def _require(unattended: bool, *, compiler: bool = True) -> None:
    """Look at the machine last: a wrong word is told first, and nothing has been made yet."""
    if not unattended:
        machine.require_terminal()
    if compiler:
        machine.require_compiler()


def _config(
    options: argparse.Namespace,
    device: Device,
    tasks: list[TaskSpec],
    proposer: str,
    source: str | None,
    unattended: bool,
) -> LabConfig:
    given: dict[str, Any] = {
        name: getattr(options, name) for name in SETTINGS if getattr(options, name) is not None
    }
    if unattended:
        given.setdefault("budget", HEADLESS_BUDGET)
    return LabConfig(
        gpu=device.gpu.name,
        device="measured" if device.measured else "static",
        model=device.model.name,
        tasks=tuple(_task_word(task) for task in tasks),
        proposer=proposer,
        mode=options.mode or ("auto" if unattended else "wins"),
        seed=options.seed or 0,
        from_file=source,
        **given,
    )


def _task_word(task: TaskSpec) -> str:
    """How lab.toml names a task: by name if it is the shipped one, else by its folder."""
    shipped = task.name in shipped_tasks() and load_task(task.name).folder == task.folder
    return task.name if shipped else str(task.folder.absolute())


def _tasks_of(path: str, tasks: list[TaskSpec], *, narrow: bool) -> list[TaskSpec]:
    """Check the user's kernel against the tasks; `narrow` leaves only those that it is one for."""
    source = read_candidate_file(path)
    fitting, problems = [], []
    for task in tasks:
        try:
            parse(source, task.entry)
            fitting.append(task)
        except CandidateInvalid as problem:
            problems.append(problem)
    if not fitting:
        raise problems[0]
    return fitting if narrow else tasks


def check_proposer(name: str) -> None:
    """Raise UsageError for a proposer that does not exist."""
    kind, _, detail = name.partition(":")
    if kind not in NAMES:
        raise UsageError(f"there is no proposer {name!r}: use one of {', '.join(NAMES)}")
    if kind == "command":
        try:
            program = next(iter(shlex.split(detail)), "")
        except ValueError as error:
            raise UsageError(f"the command cannot be read ({error}): quote it as in a shell") from None
        if program and shutil.which(program) is None:
            raise UsageError(f"no program {program!r} can be started: install it or name its path")


def check_agreement(config: LabConfig, spent: Spending | None = None) -> None:
    """Before an agent may start: key, price and agreement to spend, with a forecast for the person to read.

    Raises UsageError where one of them is missing.
    """
    if config.proposer.partition(":")[0] not in AGENTS:
        if config.proposer == DEFAULT_PROPOSER:
            _offer_keys()
        return
    from kernel_lab.engine.proposers.agent.make import check_agent, outlook

    check_agent(config.proposer, config)
    line = outlook(config.proposer, config, spent)
    if line:
        output.note(line)


def _offer_keys() -> None:
    """Say that a key in the environment could be used, and how; it is not."""
    from kernel_lab.engine.proposers.agent.keys import OWN

    for service, names in OWN.items():
        found = next((name for name in names if os.environ.get(name, "").strip()), None)
        if found is not None:
            offer = f"`--proposer {service}+search --usd 5` would have a model propose"
            output.note(f"{found} is set and stays unused: {offer}, up to 5 USD")
            return


# ---- resuming --------------------------------------------------------------------------------------


def _resume(options: argparse.Namespace, path: Path, unattended: bool) -> Lab:
    """The lab with its limits as given now. What a lab is about cannot be changed."""
    lab = open_lab(path)
    try:
        if lab.restored:
            options.beside.append(RESTORED)
        _same_lab(options, lab)
        running = session.engine_pid(path)
        wanted = {name: getattr(options, name) for name in SETTINGS if getattr(options, name) is not None}
        if options.proposer is not None and options.proposer != lab.config.proposer:
            check_proposer(options.proposer)
            wanted["proposer"] = options.proposer
        if not unattended and options.budget is None and _used_up(lab):
            wanted["budget"] = None
        if running is not None and wanted:
            names = ", ".join(f"--{name.replace('_', '-')}" for name in wanted)
            raise UsageError(f"process {running} runs {path}: `kernel-lab stop` it before you change {names}")
        _require(unattended, compiler=running is None)
        output.note(f"{'joining' if running else 'resuming'} {path}")
        if running is None:
            check_agreement(replace(lab.config, **wanted), lab.ledger.spending())
        if wanted:
            lab = replace(lab, config=replace(lab.config, **wanted))
            write_settings(path, lab.config)
        if options.mode is not None and options.mode != (lab.ledger.view().mode or lab.config.mode):
            session.send(path, SetMode(options.mode), output.PERSON)
    except BaseException:
        lab.close()
        raise
    return lab


def _same_lab(options: argparse.Namespace, lab: Lab) -> None:
    """Raise UsageError if an option asks for another lab than this one."""
    config = lab.config
    asked: list[tuple[str, str, str]] = []
    if options.gpu not in (None, "auto") or options.model is not None:
        gpu = None if options.gpu == "auto" else options.gpu
        device = choose_device(gpu or config.gpu, options.model or config.model)
        asked.append(("--gpu", device.gpu.name, config.gpu))
        asked.append(("--model", device.model.name, config.model))
    if options.task is not None:
        names = sorted(_task_word(load_task(name)) for name in options.task)
        asked.append(("--task", ",".join(names), ",".join(sorted(config.tasks))))
    if options.seed is not None:
        asked.append(("--seed", str(options.seed), str(config.seed)))
    if options.from_file is not None:
        asked.append(("--from", str(Path(options.from_file).absolute()), str(config.from_file)))
    for name, new, old in asked:
        if new != old:
            raise UsageError(
                f"{lab.path} is a lab with {name} {old}, not {new}: start another with --lab and a new folder"
            )


def _used_up(lab: Lab) -> bool:
    """Whether the lab's budget of experiments is spent."""
    done = sum(1 for row in lab.ledger.experiments() if row.parent is not None and row.status != "running")
    return lab.config.budget is not None and done >= lab.config.budget
