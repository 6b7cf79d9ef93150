"""The command line against a real engine, host and kernels, as a person without a GPU would use it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kernel_lab.engine.lab import engine_pid
from kernel_lab.engine.tasks import load_task

Cli = Callable[..., subprocess.CompletedProcess[str]]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def test_a_lab_is_detached_joined_interrupted_and_resumed(cli: Cli, tmp_path: Path) -> None:
    lab = tmp_path / "lab"
    started = cli(
        *"run --detach --task gqa_decode --trials 2 --budget 1 --seed 0 --lab".split(), lab, timeout=120
    )
    assert started.returncode == 0, started.stderr
    assert started.stdout.strip() == str(lab)
    pid = engine_pid(lab)
    assert pid is not None
    try:
        second = cli("run", "--headless", "--lab", lab, "--gpu", "h200")
        assert second.returncode == 2 and "is a lab with --gpu rtx3060" in second.stderr
        said = cli("say", "fold the scale into exp2", "--json")
        assert json.loads(said.stdout)["state"] in ("obeyed", "queued"), said.stderr

        joined = subprocess.Popen(
            [
                sys.executable,
                "-P",
                "-m",
                "kernel_lab.tui.cli",
                "run",
                "--headless",
                "--json",
                "--lab",
                str(lab),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        time.sleep(3)
        joined.send_signal(signal.SIGINT)
        time.sleep(1)
        joined.send_signal(signal.SIGINT)
        out, err = joined.communicate(timeout=120)
        assert joined.returncode == 0, err
        assert "stopping after the running experiment" in err and "stopping now" in err
        assert json.loads(out.splitlines()[-1])["type"] == "engine_stopped"
        assert engine_pid(lab) is None
    finally:
        if engine_pid(lab) == pid:
            os.kill(pid, signal.SIGKILL)

    resumed = cli("run", "--headless", "--json", "--lab", lab, timeout=800)
    assert resumed.returncode == 0, resumed.stderr
    events = [json.loads(line) for line in resumed.stdout.splitlines()]
    assert events[0]["type"] == "engine_started"
    assert (events[-1]["type"], events[-1]["reason"]) == ("engine_stopped", "budget")
    assert [event["seq"] for event in events] == list(range(events[0]["seq"], events[-1]["seq"] + 1))
    assert all(set(event) >= {"seq", "time", "type"} for event in events)

    found = json.loads(cli("results", "--json", "--lab", lab).stdout)
    assert found["experiments"][0]["status"] == "seed"
    assert found["champions"]["gqa_decode"] in {row["id"] for row in found["experiments"]}
    assert cli("diff", "2", "--against", "seed", "--lab", lab).returncode == 0
    shown = json.loads(cli("show", "1", "--json", "--lab", lab).stdout)
    assert {check["status"] for check in shown["checks"]} <= {"pass", "unproven"}
    ideas = json.loads(cli("ideas", "--json", "--lab", lab).stdout)["ideas"]
    assert [idea["text"] for idea in ideas] == ["fold the scale into exp2"]


def test_check_passes_an_honest_kernel_and_turns_down_a_wrong_one(cli: Cli, tmp_path: Path) -> None:
    task = load_task("gqa_decode")
    honest, wrong = tmp_path / "honest.py", tmp_path / "wrong.py"
    honest.write_text(task.seed_source)
    begin = task.seed_source.index("    B, Hq, Sq, D = q.shape", task.seed_source.index("def decode("))
    wrong.write_text(task.seed_source[:begin] + "    scale = scale * 1.05\n" + task.seed_source[begin:])

    passed = cli("check", honest, "--task", task.name, "--json", timeout=400)
    assert passed.returncode == 0, passed.stderr + passed.stdout[-2000:]
    report: dict[str, Any] = json.loads(passed.stdout)
    assert report["verdict"] == "pass" and report["reasons"] == []
    assert {check["gate"] for check in report["checks"]} == {"correctness", "integrity", "confirm"}
    assert all(launch["spill_bytes"] == 0 for launch in report["launches"])
    assert report["speed"]["kind"] == "estimated"
    assert report["speed"]["vs"]["seed"]["score"] == pytest.approx(1.0)
    assert report["environment"]["torch"]

    failed = cli("check", wrong, "--task", task.name, "--json", timeout=400)
    assert failed.returncode == 1, failed.stderr
    report = json.loads(failed.stdout)
    assert report["verdict"] == "incorrect"
    assert report["reasons"][0]["gate"] == "correctness"
    assert any(check["status"] == "fail" and check["error"] > check["limit"] for check in report["checks"])


def test_bench_estimates_the_seed_of_a_task(cli: Cli) -> None:
    done = cli("bench", "--task", "gqa_prefill", "--gpu", "rtx3060", "--json", timeout=300)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["speed"]["kind"] == "estimated"
    shapes = report["speed"]["vs"]["fa2"]["per_shape"]
    assert shapes and all(
        shape["time_us"] > 0 and shape["rate_unit"] == "TFLOP/s" for shape in shapes.values()
    )


def test_doctor_asks_the_host_for_its_layers(cli: Cli) -> None:
    done = cli("doctor", "--json", timeout=180)
    assert done.returncode == 0, done.stdout
    names = [finding["name"] for finding in json.loads(done.stdout)["findings"]]
    assert "host" in names and any(name.startswith("sandbox: ") for name in names)
