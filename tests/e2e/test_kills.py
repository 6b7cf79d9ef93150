"""SIGKILL for every process of a running lab in turn: nothing is lost, doubled or left behind."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pexpect
import psutil
import pytest
from kernel_lab.engine import session
from kernel_lab.engine.errors import LabBusy
from kernel_lab.engine.events import encode
from kernel_lab.engine.judge import static
from kernel_lab.engine.lab import LabConfig, create_lab, open_lab
from kernel_lab.engine.session import Reader
from tiny_task import tiny_task

STEPS = (
    {"config": {"*": {"SKIP": True}}, "description": "Skip blocks behind the diagonal."},
    {"config": {"*": {"BLOCK_M": 64}}, "description": "Narrow tiles.", "text": ["…"] * 2, "delay_s": 1.0},
    {"config": {"*": {"BLOCK_N": 32}}, "description": "Short tiles.", "text": ["…"] * 2, "delay_s": 1.0},
)
WAIT_S = 120.0
OF_ONE_ENGINE = ("engine_started", "engine_stopped", "selftest_judged", "notice")
"""Events that an engine's start and end add."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(400),
    pytest.mark.skipif(sys.platform != "linux", reason="the host needs Linux"),
]


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_task(tmp_path_factory.mktemp("task"))


@pytest.fixture(scope="module")
def make_lab(task: Path) -> Callable[[Path], Path]:
    """A lab of a scripted proposer in a folder; no engine runs yet."""
    script = task.parent / "script.json"
    script.write_text(json.dumps(STEPS))

    def make(folder: Path) -> Path:
        config = LabConfig(
            gpu="rtx3060", tasks=(str(task),), proposer=f"scripted:{script}", mode="auto", budget=len(STEPS)
        )
        create_lab(folder, config).close()
        return folder

    return make


def until(condition: Callable[[], Any], what: str, seconds: float = WAIT_S) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"still not so: {what}"
        time.sleep(0.05)


def story(lab: Path) -> list[tuple[str, Any]]:
    """What happened, without when and without what a death adds; the chain must hold."""
    with closing(open_lab(lab, readonly=True)) as opened:
        opened.ledger.verify()
        told = []
        for record in opened.ledger.records():
            if record.event is None or record.type in OF_ONE_ENGINE:
                continue
            name, fields = encode(record.event)
            fields.pop("lab", None)
            fields.pop("config", None)
            told.append((name, _timeless(fields)))
    return told


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _timeless(item) for key, item in value.items() if key not in ("seconds", "output")}
    return [_timeless(item) for item in value] if isinstance(value, list | tuple) else value


def finished(lab: Path) -> bool:
    return session.engine_pid(lab) is None


def gone(processes: list[psutil.Process]) -> bool:
    """Dead: reaped or not, and the number not given to another process."""
    return not any(one.is_running() and one.status() != psutil.STATUS_ZOMBIE for one in processes)


def refs(lab: Path) -> str:
    command = ["git", "-C", str(lab / "repo"), "for-each-ref"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def names(lab: Path) -> list[str]:
    return [line.split()[-1] for line in refs(lab).splitlines()]


@pytest.fixture(scope="module")
def whole(make_lab: Callable[[Path], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lab that ran to its end undisturbed."""
    lab = make_lab(tmp_path_factory.mktemp("whole") / "lab")
    session.start_engine(lab)
    until(lambda: finished(lab), "the undisturbed lab ends")
    return lab


def test_each_process_of_a_running_lab_may_be_killed(
    make_lab: Callable[[Path], Path], whole: Path, tmp_path: Path
) -> None:
    lab = make_lab(tmp_path / "lab")
    pid = session.start_engine(lab)
    engine = psutil.Process(pid)
    family: set[psutil.Process] = {engine}
    reader, second = Reader(lab), Reader(lab)

    def at(experiment: int, phase: str) -> bool:
        family.update(engine.children(recursive=True))
        now = reader.now()
        return (now.get("experiment"), now.get("phase")) == (experiment, phase)

    # The zygotes, while they serve a check of the seed, and then their parent.
    until(lambda: at(1, "correctness"), "the seed is checked")
    (host,) = engine.children()
    nest = min(host.children(), key=lambda one: one.create_time())
    for zygote in nest.children():
        zygote.kill()
    until(lambda: at(2, "quick check") or at(2, "correctness"), "the first candidate is checked")
    min(host.children(), key=lambda one: one.create_time()).kill()

    # The host.
    until(lambda: at(3, "propose"), "the second proposal is on its way")
    host.kill()

    # A terminal: it was a reader, so that its end changes nothing.
    screen = pexpect.spawn(
        sys.executable, ["-P", "-m", "kernel_lab.tui.cli", "open", str(lab)], dimensions=(24, 80), timeout=60
    )
    screen.expect("running|proposing|needs you")
    terminal = psutil.Process(screen.pid)
    below = [terminal, *terminal.children(recursive=True)]
    os.kill(screen.pid, signal.SIGKILL)
    screen.expect(pexpect.EOF)
    screen.close(force=True)
    until(lambda: gone(below), "the screen left nothing", 10)
    assert session.engine_pid(lab) == pid

    # A second engine is refused by name; readers are welcome.
    with pytest.raises(LabBusy, match=f"already run by process {pid}"):
        session.start_engine(lab)
    done = subprocess.run(
        [*session.ENGINE_COMMAND, str(lab)], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 2
    assert done.stderr.startswith(f"kernel-lab: lab lab is already run by process {pid}: open it with")
    first, other = ([one.seq for one in each.records()] for each in (reader, second))
    assert first == list(range(1, len(first) + 1)) and other[: len(first)] == first

    # The engine.
    until(lambda: at(3, "quick check") or at(4, "propose"), "the engine is in the middle of something")
    family.update(engine.children(recursive=True))
    os.kill(pid, signal.SIGKILL)
    until(lambda: gone(list(family)), "nothing survives its engine", 10)
    assert finished(lab)
    with closing(open_lab(lab, readonly=True)) as opened:
        assert opened.ledger.verify() == opened.ledger.last_seq()

    session.start_engine(lab)
    until(lambda: finished(lab), "the lab goes on to its end")
    assert story(lab) == story(whole)
    assert [row.status for row in _rows(lab)] == ["seed", "keep", "discard", "discard"]
    assert names(lab) == names(whole)


def _rows(lab: Path) -> list[Any]:
    with closing(open_lab(lab, readonly=True)) as opened:
        return opened.ledger.experiments()


def test_a_deleted_repository_comes_back_with_equal_refs(whole: Path, tmp_path: Path) -> None:
    lab = tmp_path / "lab"
    shutil.copytree(whole, lab)
    shutil.rmtree(lab / "repo")
    session.start_engine(lab)  # its budget is spent: it mends what is missing and ends
    until(lambda: finished(lab), "the engine ends")
    assert refs(lab) == refs(whole) and "refs/experiments/3" in refs(lab)
    assert story(lab) == story(whole)


ENDLESS = "    while True:\n        pass\n"
MEMORY = "    taken = []\n    while True:\n        taken.append(torch.empty(1 << 28))\n"
LEAVE = "    os._exit(0)\n"
FORK = "    while True:\n        os.fork()\n"


@pytest.mark.parametrize(
    ("body", "head", "verdict"),
    [
        (LEAVE, "import os\n", "cheat"),
        (FORK, "import os\n", "cheat"),
        (MEMORY, "", "oom"),
        (ENDLESS, "", "timeout"),
    ],
    ids=["exit", "fork", "memory", "endless"],
)
def test_check_turns_down_what_misbehaves_and_nothing_survives(
    body: str,
    head: str,
    verdict: str,
    task: Path,
    kernel_lab: Callable[..., Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(static, "SCREEN_DEADLINE_S", {"load": 3.0, "compile": 3.0})
    seed = (task / "candidate.py").read_text()
    source = re.sub(r"(?m)^import torch$", f"{head}import torch", seed, count=1)
    source = re.sub(r"(?ms)^(def attention\(.*?:\n)", lambda match: match[1] + body, source, count=1)
    (tmp_path / "candidate.py").write_text(source)
    before = set(psutil.Process().children(recursive=True))
    answer = kernel_lab("check", tmp_path / "candidate.py", "--task", task, "--json")
    assert answer.status == 1, answer.err
    assert json.loads(answer.out)["verdict"] == verdict
    left = set(psutil.Process().children(recursive=True)) - before
    until(lambda: gone(list(left)), "nothing survives", 5)
