"""The layers around a candidate: what the filter of system calls lets through, and what is switched off."""

from __future__ import annotations

import struct
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "engine" / "harness"))

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the host needs Linux")

if sys.platform == "linux":
    import sandbox
    import seccomp

ALLOW, DENY, NO_SUCH_CALL, KILL = 0x7FFF0000, 0x00050001, 0x00050026, 0x80000000
ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
CLONE_THREAD, CLONE_VM, SIGCHLD, CLONE_NEWUSER = 0x00010000, 0x100, 17, 0x10000000


def answer(machine: str, number: int, *, programs: bool, first: int = 0, arch: int | None = None) -> int:
    """Run the filter as the kernel does: number and architecture, then the first argument."""
    data = struct.pack("=IIQ6Q", number, ARCH[machine] if arch is None else arch, 0, first, 0, 0, 0, 0, 0)
    code = seccomp.program(programs=programs, machine=machine)
    lines = [struct.unpack_from("=HBBI", code, at) for at in range(0, len(code), 8)]
    at = accumulator = 0
    while True:
        operation, jump_true, jump_false, k = lines[at]
        at += 1
        if operation == 0x20:
            (accumulator,) = struct.unpack_from("=I", data, k)
        elif operation == 0x06:
            return int(k)
        else:
            holds = {0x15: accumulator == k, 0x35: accumulator >= k, 0x45: bool(accumulator & k)}[operation]
            at += jump_true if holds else jump_false


MACHINES = ("x86_64", "aarch64")
READ = {"x86_64": 0, "aarch64": 63}
PTRACE = {"x86_64": 101, "aarch64": 117}
EXECVE = {"x86_64": 59, "aarch64": 221}
CLONE = {"x86_64": 56, "aarch64": 220}
SOCKET = {"x86_64": 41, "aarch64": 198}


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("programs", [False, True])
def test_what_nobody_needs_is_refused_and_the_rest_goes_through(machine: str, programs: bool) -> None:
    assert answer(machine, READ[machine], programs=programs) == ALLOW
    assert answer(machine, PTRACE[machine], programs=programs) == DENY
    assert answer(machine, SOCKET[machine], programs=programs) == DENY
    assert answer(machine, 435, programs=programs) == NO_SUCH_CALL  # clone3
    assert answer(machine, READ[machine], programs=programs, arch=0x40000003) == KILL


@pytest.mark.parametrize("machine", MACHINES)
def test_candidates_start_threads_but_neither_processes_nor_programs(machine: str) -> None:
    assert answer(machine, CLONE[machine], programs=False, first=CLONE_THREAD | CLONE_VM) == ALLOW
    assert answer(machine, CLONE[machine], programs=False, first=SIGCHLD) == DENY
    assert answer(machine, EXECVE[machine], programs=False) == DENY


@pytest.mark.parametrize("machine", MACHINES)
def test_compilers_start_programs_but_no_namespaces(machine: str) -> None:
    assert answer(machine, CLONE[machine], programs=True, first=SIGCHLD) == ALLOW
    assert answer(machine, EXECVE[machine], programs=True) == ALLOW
    assert answer(machine, CLONE[machine], programs=True, first=SIGCHLD | CLONE_NEWUSER) == DENY


def test_numbers_of_the_other_abi_do_not_go_round_the_list() -> None:
    assert answer("x86_64", 0x40000000 | 101, programs=True) == DENY


def test_each_layer_is_active_or_says_why_not(tmp_path: Path) -> None:
    found = sandbox.probe(str(tmp_path), ("network_namespace",))
    assert tuple(found) == sandbox.LAYERS
    assert found["network_namespace"] == "off: switched off"
    assert all(state == "active" or state.startswith("off: ") for state in found.values())
    assert set(sandbox.active(found)) == {name for name, state in found.items() if state == "active"}
    assert list(tmp_path.iterdir()) == []


def test_a_layer_goes_with_the_one_that_it_needs(tmp_path: Path) -> None:
    assert sandbox.probe(str(tmp_path), ("pid_namespace",))["mount_namespace"] == "off: needs pid_namespace"


def test_readable_folders_do_not_lie_in_one_another() -> None:
    paths = sandbox.readable_paths(["/usr/lib/python3", "/usr/lib"])
    assert "/" not in paths
    for path in paths:
        assert not any(path != other and path.startswith(other + "/") for other in paths)
