"""Candidates that misbehave, cheat or try to escape: each ends its own job, in time, and leaves nothing.

One host serves all tests. A job may take its deadline and two seconds more.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from kernel_lab.engine.errors import HostDied
from kernel_lab.engine.hostlink import HostLink, JobResult

ROOT = Path(__file__).parents[2]
CANDIDATES = ROOT / "tests" / "candidates"
TASK = ROOT / "kernels" / "gqa_prefill"
TOLERANCE = {"factor": 2.0, "floor_abs": 2e-5, "floor_rel": 1e-3}
DEADLINE_S = 3.0
GRACE_S = 2.0
SMALL = {
    "B": 1, "Hq": 2, "Hkv": 1, "Sq": 9, "Sk": 40, "D": 64, "dtype": "fp16", "causal": True, "seq_lens": None,
    "task": "gqa_prefill",
}  # fmt: skip
CASES = [
    {**SMALL, "case": "small", "seed": 11},
    {**SMALL, "case": "square", "Sq": 16, "Sk": 16, "seed": 12},
    {**SMALL, "case": "full", "causal": False, "seed": 13},
]
TARGET = {
    "name": "rtx3060", "title": "RTX 3060", "arch": 86, "sms": 28, "boost_ghz": 1.777, "dram_gbs": 360.0,
    "dram_measured_gbs": None, "l2_bytes": 3 << 20, "memory_bytes": 12 << 30, "smem_sm_bytes": 102400,
    "smem_block_bytes": 101376, "registers_sm": 65536, "warps_sm": 48, "ctas_sm": 16,
    "tensor_tflops": {"fp16": 51.2, "bf16": 51.2, "fp16_acc16": 102.4}, "fp32_tflops": 12.7,
    "features": ["cp_async", "mma_sync"],
}  # fmt: skip

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(sys.platform != "linux", reason="the host needs Linux"),
]


def misbehaving(name: str) -> str:
    if name == "syntax_error":
        return "def attention(q, k, v, *, causal, scale)\n    return q\n"
    return (CANDIDATES / "misbehaving" / f"{name}.py").read_text()


def honest() -> str:
    return (CANDIDATES / "honest" / "plain.py").read_text()


def cheat(name: str) -> str:
    """The honest kernel under another name, and the cheat that uses it."""
    own = (CANDIDATES / "cheats" / f"{name}.py").read_text()
    return honest().replace("def attention(", "def HONEST(") + own


@contextlib.asynccontextmanager
async def started(folder: Path, without: tuple[str, ...] = ()) -> AsyncIterator[HostLink]:
    """A host that is warm."""
    host = HostLink(sys.executable, folder / "cache", folder / "scratch", without=without)
    try:
        await host.start()
        warm = await check(host, honest(), CASES[:1])
        assert warm.outcome == "ok", warm.detail
        yield host
    finally:
        await host.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def link(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[HostLink]:
    folder = tmp_path_factory.mktemp("host")
    os.environ["KERNEL_LAB_TEST_KEY"] = "secret"
    try:
        async with started(folder) as host:
            yield host
    finally:
        del os.environ["KERNEL_LAB_TEST_KEY"]


async def need(link: HostLink, *layers: str) -> None:
    """Skip where this system does not offer a layer."""
    found = (await link.start())["layers"]
    if missing := [name for name in layers or found if found[name] != "active"]:
        pytest.skip(f"not offered here: {', '.join(missing)}")


async def check(
    link: HostLink, source: str, cases: list[dict[str, Any]], *, probes: bool = False, **more: Any
) -> JobResult:
    return await link.call(
        "check", source=source, entry="attention", task_dir=str(TASK), gate="correctness", cases=cases,
        seed=3, tolerance=TOLERANCE, probes=probes, target=TARGET, **more,
    )  # fmt: skip


async def screen(link: HostLink, source: str, **more: Any) -> JobResult:
    workload = {**SMALL, "id": "w", "bucket": "b", "weight": 1.0, "Sq": 1024, "Sk": 2048, "Hq": 8, "Hkv": 2}
    return await link.call(
        "screen", source=source, entry="attention", task_dir=str(TASK), target=TARGET, workloads=[workload],
        **more,
    )  # fmt: skip


def below(pid: int) -> list[int]:
    """Living processes below a process."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            if fields[0] != "Z":
                parents.setdefault(int(fields[1]), []).append(int(entry.name))
    found, queue = [], [pid]
    while queue:
        children = parents.get(queue.pop(), [])
        found += children
        queue += children
    return sorted(found)


async def in_time(link: HostLink, began: float) -> None:
    """The job that just ended took its deadline and two seconds at most, beside what any job takes here."""
    took = time.monotonic() - began
    if took >= DEADLINE_S + GRACE_S:
        again = time.monotonic()
        await check(link, honest(), CASES[:1])
        assert took < DEADLINE_S + GRACE_S + time.monotonic() - again


async def nothing_left(link: HostLink, resident: list[int]) -> None:
    assert link.pid is not None
    assert below(link.pid) == resident
    scratch = link.log_path.parent
    assert [path.name for path in scratch.glob("host-*/job*")] == []


LIMITS = {"load": DEADLINE_S, "case": DEADLINE_S, "compile": DEADLINE_S}

MISBEHAVIOUR = [
    ("exit_zero", "crash", "status 0"),
    ("sys_exit", "crash", "SystemExit"),
    ("fake_result", "crash", "status 0"),
    ("forged_channel", "cheat", "result channel"),
    ("closed_descriptors", "crash", "closed its result channel"),
    ("endless_call", "timeout", "case"),
    ("endless_load", "timeout", "load"),
    ("segfault", "crash", "SIGSEGV"),
    ("abort", "crash", "SIGABRT"),
    ("fork_bomb", "crash", "PermissionError"),
    ("patient_fork_bomb", "timeout", "case"),
    ("daemon", "crash", "PermissionError"),
    ("stubborn_child", "crash", "PermissionError"),
    ("memory_eater", "oom", "Memory"),
    ("tensor_eater", "oom", "memory"),
    ("flood", "crash", "File too large"),
    ("stray_exception", "crash", "ValueError: [bold red]no[/] [31m second line (line 6)"),
    ("syntax_error", "invalid", "SyntaxError"),
    ("no_entry", "invalid", "no function attention"),
]


@pytest.mark.parametrize(("name", "outcome", "words"), MISBEHAVIOUR)
async def test_a_misbehaving_candidate_ends_its_own_job(
    link: HostLink, name: str, outcome: str, words: str
) -> None:
    if words == "PermissionError":
        await need(link, "seccomp")
    assert link.pid is not None
    resident = below(link.pid)
    began = time.monotonic()
    result = await check(link, misbehaving(name), CASES[:1], deadline_s=LIMITS, memory_bytes=256 << 20)
    assert (result.outcome, words in result.detail) == (outcome, True), result.detail
    await in_time(link, began)
    assert "\n" not in result.detail and "\x1b" not in result.detail
    assert len(result.output) <= 8192
    await nothing_left(link, resident)


async def test_a_read_far_outside_of_the_tensors_is_named_and_crashes_nothing(link: HostLink) -> None:
    result = await check(link, misbehaving("out_of_bounds"), CASES[:1], deadline_s=LIMITS)
    assert result.outcome == "ok", result.detail
    [found] = [one for one in result.facts["checks"] if one["probe"] == "out_of_bounds"]
    assert found["status"] == "fail" and "reads q at byte" in found["detail"]


@pytest.mark.parametrize(
    ("name", "outcome"),
    [
        ("endless_call", "timeout"),
        ("exit_zero", "crash"),
        ("forged_channel", "cheat"),
        ("endless_compile", "timeout"),
    ],
)
async def test_the_same_holds_while_a_candidate_is_screened(link: HostLink, name: str, outcome: str) -> None:
    assert link.pid is not None
    resident = below(link.pid)
    began = time.monotonic()
    result = await screen(link, misbehaving(name), deadline_s=LIMITS)
    assert result.outcome == outcome, result.detail
    await in_time(link, began)
    await nothing_left(link, resident)


async def test_other_jobs_go_on_beside_a_misbehaving_one(link: HostLink) -> None:
    bad = [
        check(link, misbehaving(name), CASES[:1], deadline_s=LIMITS) for name in ("endless_call", "fork_bomb")
    ]
    good, *rest = await asyncio.gather(check(link, honest(), CASES), *bad)
    assert good.outcome == "ok"
    assert {one["status"] for one in good.facts["checks"]} == {"pass"}
    assert [result.outcome for result in rest] == ["timeout", "crash"]


async def test_no_door_of_the_sandbox_is_open(link: HostLink) -> None:
    await need(link)
    cache = link.log_path.parent.parent / "cache"
    source = misbehaving("escape").replace("TASK", str(TASK)).replace("CACHE", str(cache))
    source = source.replace("FOLDER", str(cache.parent))
    result = await check(link, source, CASES[:1])
    assert result.outcome == "crash"
    assert result.detail.startswith("RuntimeError: open doors: [] (line")


async def test_an_honest_candidate_passes_every_case_and_probe(link: HostLink) -> None:
    result = await check(link, honest(), CASES, probes=True)
    assert result.outcome == "ok", result.detail
    checks = result.facts["checks"]
    assert [one for one in checks if one["status"] != "pass"] == []
    assert {one["probe"] for one in checks} >= {
        "compare", "inputs_unchanged", "same_bits", "output_memory", "held_output", "new_contents",
        "one_element", "aten_census", "launch_census", "process_census", "functions_unchanged",
        "poisoned_memory",
    }  # fmt: skip


CHEATS = [
    ("cached_by_address", "cheat", "new_contents"),
    ("cached_by_shape", "cheat", "new_contents"),
    ("counts_calls", "cheat", "new_contents"),
    ("torch_computes", "cheat", "aten_census"),
    ("no_launch", "cheat", "launch_census"),
    ("thread_left", "cheat", "process_census"),
    ("patches_torch", "cheat", "functions_unchanged"),
    ("other_kernel_on_a_card", "cheat", "same_launches"),
    ("foreign_kernel", "cheat", ""),
    ("lazy_tensor", "invalid", ""),
    ("one_buffer", "ok", "held_output"),
    ("writes_input", "ok", "inputs_unchanged"),
    ("host_sync", "ok", "host_sync"),
    ("random_bits", "ok", "same_bits"),
    ("unwritten_tail", "ok", "compare"),
    ("last_window", "ok", "compare"),
]


@pytest.mark.parametrize(("name", "outcome", "probe"), CHEATS)
async def test_a_cheat_is_caught_by_its_probe(link: HostLink, name: str, outcome: str, probe: str) -> None:
    cases = [{**case, "Sk": 100} for case in CASES[:2]]
    result = await check(link, cheat(name), cases, probes=True)
    assert result.outcome == outcome, result.detail
    failed = {one["probe"] for one in result.facts.get("checks", ()) if one["status"] == "fail"}
    assert not probe or probe in failed, failed


@pytest.mark.parametrize("name", ["torch_computes", "falls_back_on_large", "no_launch", "foreign_kernel"])
async def test_screening_sees_at_the_timed_shape_who_does_the_work(link: HostLink, name: str) -> None:
    result = await screen(link, cheat(name))
    assert result.outcome == "cheat", result.detail


FALLBACKS = [
    # With no filter of system calls, the namespace takes what is left behind with it. Processes without
    # number may leave a warm process none to start with: an error of the host's, and it starts another.
    (("seccomp",), "daemon", "cheat"),
    (("seccomp",), "many_children", "crash or timeout or error"),
    # With no namespaces either, the subreaper does.
    (("seccomp", "pid_namespace", "mount_namespace", "network_namespace"), "daemon", "cheat"),
    (
        ("seccomp", "pid_namespace", "mount_namespace", "network_namespace"),
        "many_children",
        "crash or timeout or error",
    ),
    (("seccomp", "pid_namespace", "mount_namespace", "landlock"), "stubborn_child", "timeout"),
    (("seccomp", "pid_namespace", "mount_namespace", "landlock"), "endless_call", "timeout"),
]


async def test_nothing_outlives_a_job_where_layers_are_missing(tmp_path: Path) -> None:
    for number, layers in enumerate(dict.fromkeys(layers for layers, _, _ in FALLBACKS)):
        async with started(tmp_path / str(number), layers) as host:
            assert host.pid is not None
            facts = await host.start()
            off = {name for name, state in facts["layers"].items() if state == "off: switched off"}
            assert off >= set(layers)
            resident = below(host.pid)
            for name, outcome in [(name, outcome) for of, name, outcome in FALLBACKS if of == layers]:
                began = time.monotonic()
                result = await check(host, misbehaving(name), CASES[:1], deadline_s=LIMITS)
                assert result.outcome in outcome.split(" or "), f"{name}: {result.outcome}: {result.detail}"
                await in_time(host, began)
                await nothing_left(host, resident)


async def gone(pids: list[int], seconds: float = 3.0) -> bool:
    """Whether all of these processes end in time."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if all(zombie(pid) for pid in pids):
            return True
        await asyncio.sleep(0.05)
    return False


def zombie(pid: int) -> bool:
    """Dead: reaped or not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


@pytest.mark.parametrize("layers", [(), ("seccomp", "pid_namespace", "mount_namespace")])
async def test_a_killed_host_takes_everything_with_it(tmp_path: Path, layers: tuple[str, ...]) -> None:
    async with started(tmp_path, layers) as host:
        assert host.pid is not None
        job = asyncio.create_task(check(host, misbehaving("endless_call"), CASES[:1]))
        await asyncio.sleep(1.0)
        running = [host.pid, *below(host.pid)]
        os.kill(host.pid, signal.SIGKILL)
        with pytest.raises(HostDied):
            await job
        assert await gone(running)
        # The next call starts a host, which clears away what the dead one left.
        await host.start()
        assert [path.name for path in host.log_path.parent.glob("host-*")] == [f"host-{host.pid}"]


@pytest.mark.parametrize("oldest", [True, False])
async def test_a_zygote_that_dies_is_replaced(link: HostLink, oldest: bool) -> None:
    assert link.pid is not None
    nest = min(below(link.pid))
    for pid in [nest] if oldest else below(nest):
        os.kill(pid, signal.SIGKILL)
    await asyncio.sleep(0.2)
    result = await check(link, honest(), CASES[:1])
    assert result.outcome == "ok", result.detail


async def test_a_job_that_is_killed_while_it_starts_leaves_nothing(link: HostLink) -> None:
    assert link.pid is not None
    resident = below(link.pid)
    for delay in (0.0, 0.005, 0.02, 0.05, 0.1, 0.2):
        job = asyncio.create_task(check(link, misbehaving("endless_call"), CASES[:1]))
        await asyncio.sleep(delay)
        await link.kill_job()
        assert (await job).outcome == "cancelled"
        assert (await check(link, honest(), CASES[:1])).outcome == "ok"
    await asyncio.sleep(0.5)
    await nothing_left(link, resident)


async def test_a_killed_engine_takes_its_host_with_it(tmp_path: Path) -> None:
    program = (
        "import asyncio, sys, time\n"
        "from kernel_lab.engine.hostlink import HostLink\n"
        "async def main():\n"
        f"    host = HostLink(sys.executable, {str(tmp_path / 'c')!r}, {str(tmp_path / 's')!r})\n"
        "    await host.start()\n"
        "    print(host.pid, flush=True)\n"
        "    await asyncio.sleep(60)\n"
        "asyncio.run(main())\n"
    )
    engine = subprocess.Popen(  # noqa: ASYNC220 (two processes, nothing else runs)
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True
    )
    assert engine.stdout is not None
    pid = int(await asyncio.to_thread(engine.stdout.readline))
    running = [pid, *below(pid)]
    engine.kill()
    engine.wait()
    assert await gone(running)
