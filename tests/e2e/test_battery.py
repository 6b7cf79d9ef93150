"""The battery through the real host: a dozen files with what catches each, and all of them."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from kernel_lab.engine.hostlink import HostLink
from kernel_lab.engine.judge.battery_files import load_battery
from kernel_lab.engine.judge.cases import frozen_seed
from kernel_lab.engine.judge.judge import Judge
from kernel_lab.engine.judge.selftest import remembered, run_battery, try_file
from kernel_lab.engine.judge.static import StaticDevice
from kernel_lab.engine.profiles import load_gpu, load_model
from kernel_lab.engine.tasks import load_task, shipped_tasks, workload_matrix

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(sys.platform != "linux", reason="the host needs Linux"),
]
FILES = {file.id: file for file in load_battery()}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def judges(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[dict[str, Judge]]:
    folder = tmp_path_factory.mktemp("host")
    link = HostLink(sys.executable, folder / "cache", folder / "scratch")
    gpu, model = load_gpu("rtx3060"), load_model("llama-3.1-8b")
    try:
        await link.start()
        tasks = [load_task(name) for name in shipped_tasks()]
        yield {t.name: Judge(StaticDevice(link, gpu), t, workload_matrix(t, model, gpu)[0]) for t in tasks}
    finally:
        await link.close()


@pytest.mark.parametrize(
    ("name", "gate", "probes"),
    [
        ("launches_for_show", "integrity", {"new_contents", "idle_kernels"}),
        ("numpy_computes", "integrity", {"idle_kernels", "host_sync"}),
        ("pauses_the_census", "integrity", {"idle_kernels"}),
        ("two_result_buffers", "integrity", {"output_memory"}),
        ("reads_beyond_the_end", "integrity", {"out_of_bounds"}),
        ("by_a_division_by_zero", "integrity", {"undefined_operation"}),
        ("promises_what_is_not", "integrity", {"false_hint"}),
        ("trusts_masked_lanes", "integrity", {"compare"}),
        ("by_a_tiny_exponential_kept", "integrity", {"same_bits", "compare"}),
        ("without_the_interpreter", "integrity", {"same_launches"}),
        ("two_kernels_of_one_name", "integrity", {"same_launches"}),
        ("by_the_callers", "integrity", {"same_launches"}),
        ("patches_the_clock", "integrity", {"functions_unchanged"}),
        ("exit_as_if_done", "integrity", {"crash"}),
        ("reads_its_parent", "integrity", {"crash"}),
        ("wrong_beyond_4096", "correctness", {"compare"}),
        ("falls_back_on_large", "integrity", {"same_launches"}),
        ("by_the_size_of_the_grid", "correctness", {"compare"}),
        ("nothing_from_large_grids", "correctness", {"real_launch"}),
        ("by_the_strides", "correctness", {"compare"}),
    ],
)
async def test_a_cheat_is_caught_while_it_runs_with_the_lint_off(
    judges: dict[str, Judge], name: str, gate: str, probes: set[str]
) -> None:
    file = FILES[name]
    result = await try_file(judges[file.task], file, frozen_seed(0, "selftest", name))
    assert result.outcome == "caught", result
    assert (result.gate, result.probe in probes) == (gate, True), result


async def test_an_honest_kernel_passes_every_gate(judges: dict[str, Judge]) -> None:
    file = FILES["splits_by_sequence"]
    result = await try_file(judges[file.task], file, frozen_seed(0, "selftest", file.id))
    assert result.outcome == "clean", result


async def test_a_probe_that_is_switched_off_is_missing_from_the_checks_and_named_by_the_host(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KERNEL_LAB_DISABLE_PROBE", "compare,launch_census,idle_kernels")
    folder = tmp_path_factory.mktemp("blind")
    link = HostLink(sys.executable, folder / "cache", folder / "scratch")
    file = FILES["launches_for_show"]
    task = load_task(file.task)
    try:
        assert (await link.start())["guards_off"] == ["compare", "idle_kernels", "launch_census"]
        gate = await Judge(StaticDevice(link, load_gpu("rtx3060")), task, []).integrity(file.source, 1)
    finally:
        await link.close()
    assert not gate.passed
    seen = {check.probe for check in gate.checks}
    assert "new_contents" in seen and not seen & {"compare", "launch_census", "idle_kernels"}


async def test_the_quick_part_catches_all_and_alarms_on_nothing(judges: dict[str, Judge]) -> None:
    report = await run_battery(judges.__getitem__, quick=True)
    assert [result for result in report.results if result.outcome not in ("caught", "clean")] == []
    assert report.green and report.caught >= 12 and report.honest >= 3
    assert remembered(report.environment, quick=True) == report


@pytest.mark.slow
@pytest.mark.timeout(3000)
async def test_the_whole_battery_is_caught_without_a_false_alarm(judges: dict[str, Judge]) -> None:
    report = await run_battery(judges.__getitem__)
    assert [result for result in report.results if result.outcome in ("missed", "alarm", "error")] == []
    assert report.green
    assert report.caught == report.cheats >= 100
