"""`doctor`: every finding has a state and, where something is to be done, a remedy."""

from __future__ import annotations

import json
import platform
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kernel_lab.tui import doctor, machine

KernelLab = Callable[..., Any]


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves out the host, which takes seconds to answer."""
    monkeypatch.setattr(doctor, "layers", list)


def _found(answer: Any) -> dict[str, dict[str, str]]:
    return {finding["name"]: finding for finding in json.loads(answer.out)["findings"]}


def test_a_whole_machine_is_ready(kernel_lab: KernelLab, quick: None) -> None:
    answer = kernel_lab("doctor", "--json")
    found = _found(answer)
    assert answer.status == 0 and json.loads(answer.out)["ready"] is True
    for name in ("python", "system", "torch", "triton", "compiler", "numpy", "git", "folders", "disk"):
        assert found[name]["state"] in ("ok", "warning"), found[name]
    assert found["python"]["detail"].startswith(platform.python_version())
    assert "ptxas" in found["compiler"]["detail"] and "nvdisasm" in found["compiler"]["detail"]
    assert found["terminal"]["state"] == "note" and "--headless" in found["terminal"]["remedy"]
    assert kernel_lab("doctor").out.splitlines()[-1] == "ready: labs run here"


def test_a_numpy_that_is_too_new_for_tritons_interpreter_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    versions = {"triton": "3.6.0", "numpy": "2.4.1"}
    monkeypatch.setattr(machine, "installed_version", versions.get)
    found = doctor.numpy()
    assert (found.state, "triton-lang/triton#9171" in found.detail) == ("warning", True)
    assert "numpy<2.4" in found.remedy
    versions["triton"] = "3.7.0"
    assert doctor.numpy().state == "ok"


@pytest.mark.parametrize(
    ("name", "spoil", "remedy"),
    [
        ("torch", lambda m: m.setattr(machine, "installed_version", lambda name: None), "kernel-lab[gpu]"),
        (
            "triton",
            lambda m: m.setattr(machine, "installed_version", lambda name: "3.1.0"),
            "kernel-lab[gpu]",
        ),
        ("compiler", lambda m: m.setattr(machine, "triton_tool", lambda name: None), "triton"),
        ("git", lambda m: m.setattr(machine, "tool_output", lambda command: None), "install git"),
        ("folders", lambda m: m.setattr(doctor, "_writable", lambda folder: False), "XDG_DATA_HOME"),
        ("system", lambda m: m.setattr(sys, "platform", "darwin"), "Linux"),
        (
            "disk",
            lambda m: m.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(9, 9, 1000)),  # type: ignore[attr-defined]
            "free some space",
        ),
    ],
)
def test_what_a_lab_needs_and_is_missing_makes_the_status_1(
    name: str,
    spoil: Callable[[pytest.MonkeyPatch], None],
    remedy: str,
    kernel_lab: KernelLab,
    quick: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spoil(monkeypatch)
    answer = kernel_lab("doctor", "--json")
    finding = _found(answer)[name]
    assert answer.status == 1
    assert finding["state"] == "missing" and remedy in finding["remedy"]
    assert "not ready" in kernel_lab("doctor").out.splitlines()[-1]


def test_keys_are_named_and_never_shown(
    kernel_lab: KernelLab, quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-very-secret-value")
    for answer in (kernel_lab("doctor", "--json"), kernel_lab("doctor")):
        assert "ANTHROPIC_API_KEY" in answer.out and "secret" not in answer.out


def test_agent_programs_on_the_path_are_found(
    kernel_lab: KernelLab, quick: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "aider"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert "aider" in _found(kernel_lab("doctor", "--json"))["agents"]["detail"]


def test_gpus_are_read_from_the_drivers_own_tool(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text(
        "#!/bin/sh\necho '0, NVIDIA GeForce RTX 3060, 12288, 570.10'\necho '1, Odd, [N/A], 570.10'\n"
    )
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert machine.gpus() == [
        machine.Gpu(0, "NVIDIA GeForce RTX 3060", 12288, "570.10"),
        machine.Gpu(1, "Odd", 0, "570.10"),
    ]
    assert "RTX 3060 (12 GiB)" in doctor.gpu().detail


@pytest.mark.parametrize("script", ["exit 9", "sleep 30", "printf '\\377\\376 nonsense'"])
def test_a_driver_that_fails_hangs_or_babbles_is_no_gpu(
    script: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text(f"#!/bin/sh\n{script}\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(machine.tool_output, "__defaults__", (0.3,))
    assert machine.gpus() == []


@pytest.mark.parametrize(
    ("version", "enough"),
    [("2.11.0", True), ("2.13.0+cpu", True), ("3.0", True), ("2.9.1", False), ("x", False)],
)
def test_versions_compare_as_numbers(version: str, enough: bool) -> None:
    assert machine.at_least(version, (2, 11)) is enough
