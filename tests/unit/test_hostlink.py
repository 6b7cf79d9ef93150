"""The engine's side of the host, against small hosts that are told what to do wrong."""

from __future__ import annotations

import asyncio
import os
import stat
import sys
import time
from pathlib import Path

import pytest
from kernel_lab.engine.errors import EnvironmentProblem, HostDied
from kernel_lab.engine.hostlink import HostLink, JobResult

# Stands in for the interpreter that runs the host's script: jobs are named after what becomes of them.
FAKE_HOST = """#!{python}
import json, os, sys, threading, time
facts = {{"python": "3", "torch": {torch!r}, "triton": {triton!r}, "layers": {{}}}}
slow = {{}}
def say(**message):
    sys.stdout.write(json.dumps(message) + "\\n")
    sys.stdout.flush()
def finish(number, outcome, **more):
    say(id=number, done=True, outcome=outcome, detail="", facts=more, output="")
for line in sys.stdin:
    request = json.loads(line)
    number, job = request["id"], request["job"]
    if job == "hello":
        finish(number, "ok", **facts)
    elif job == "echo":
        for n in range(3):
            say(id=number, progress={{"n": n}})
        finish(number, "ok", said=request["text"])
    elif job == "slow":
        slow[number] = True
    elif job == "cancel":
        if slow.pop(request["target"], None):
            finish(request["target"], "cancelled")
        finish(number, "ok")
    elif job == "noise":
        sys.stdout.write("not json\\n[1]\\n" + json.dumps({{"id": 9999, "done": True}}) + "\\n")
        finish(number, "ok")
    elif job == "die":
        os._exit(3)
    elif job == "count":
        finish(number, "ok", cancelled=0, pid=os.getpid())
"""


def fake_python(folder: Path, torch: str | None = "2.13", triton: str | None = "3.9") -> str:
    path = folder / "python"
    path.write_text(FAKE_HOST.format(python=sys.executable, torch=torch, triton=triton))
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def link_to(folder: Path, python: str) -> HostLink:
    return HostLink(python, folder / "cache", folder / "scratch")


async def test_a_call_hands_on_progress_and_the_result(tmp_path: Path) -> None:
    link = link_to(tmp_path, fake_python(tmp_path))
    seen: list[dict[str, int]] = []
    result = await link.call("echo", on_progress=seen.append, text="[bold]\x1b[31m")
    assert result == JobResult("ok", "", {"said": "[bold]\x1b[31m"}, "")
    assert seen == [{"n": 0}, {"n": 1}, {"n": 2}]
    await link.close()


async def test_jobs_overlap(tmp_path: Path) -> None:
    link = link_to(tmp_path, fake_python(tmp_path))
    slow = asyncio.create_task(link.call("slow"))
    await asyncio.sleep(0)
    assert (await link.call("echo", text="x")).outcome == "ok"
    assert not slow.done()
    await link.kill_job()
    assert (await slow).outcome == "cancelled"
    await link.close()


async def test_cancelling_the_caller_kills_the_job(tmp_path: Path) -> None:
    link = link_to(tmp_path, fake_python(tmp_path))
    slow = asyncio.create_task(link.call("slow"))
    await link.start()
    await asyncio.sleep(0.1)
    slow.cancel()
    with pytest.raises(asyncio.CancelledError):
        await slow
    # The host has said that the job is over, so that nothing is pending.
    assert link._pending == {}
    await link.close()


async def test_a_host_that_dies_fails_its_jobs_and_is_started_again(tmp_path: Path) -> None:
    link = link_to(tmp_path, fake_python(tmp_path))
    first = (await link.call("count")).facts["pid"]
    slow = asyncio.create_task(link.call("slow"))
    await asyncio.sleep(0)
    with pytest.raises(HostDied, match="try again"):
        await link.call("die")
    with pytest.raises(HostDied):
        await slow
    assert (await link.call("count")).facts["pid"] != first
    await link.close()


async def test_lines_that_are_no_answers_are_passed_over(tmp_path: Path) -> None:
    link = link_to(tmp_path, fake_python(tmp_path))
    assert (await link.call("noise")).outcome == "ok"
    assert (await link.call("echo", text="x")).outcome == "ok"
    await link.close()


@pytest.mark.parametrize(
    ("torch", "triton", "words"),
    [(None, None, "torch and triton"), ("2.13", None, "triton"), (None, "3.9", "torch")],
)
async def test_a_missing_package_is_named_with_its_remedy(
    tmp_path: Path, torch: str | None, triton: str | None, words: str
) -> None:
    link = link_to(tmp_path, fake_python(tmp_path, torch, triton))
    with pytest.raises(EnvironmentProblem, match=rf"^{words} not found .*make lab.*kernel-lab\[gpu\]'$"):
        await link.start()
    assert link.pid is None


async def test_an_interpreter_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentProblem, match=r"cannot start .*nowhere"):
        await link_to(tmp_path, str(tmp_path / "nowhere")).start()


async def test_closing_ends_the_host(tmp_path: Path) -> None:
    link = link_to(tmp_path, fake_python(tmp_path))
    await link.start()
    pid = link.pid
    assert pid is not None
    await link.close()
    assert link.pid is None
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    await link.close()


@pytest.mark.skipif(sys.platform != "linux", reason="the host needs Linux")
async def test_the_real_host_says_hello_before_torch_is_imported(tmp_path: Path) -> None:
    link = link_to(tmp_path, sys.executable)
    pytest.importorskip("triton")
    began = time.monotonic()
    facts = await link.start()
    took = time.monotonic() - began
    assert facts["torch"] and facts["triton"]
    assert all(state == "active" or state.startswith("off: ") for state in facts["layers"].values())
    again = time.monotonic()
    assert (await link.call("nonsense")).outcome == "error"
    assert time.monotonic() - again < took + 1.0
    await link.close()
