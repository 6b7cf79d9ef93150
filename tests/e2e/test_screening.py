"""What the host finds out about a candidate for a card that is not there, and how fast it does it again.

One host serves all tests.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from kernel_lab.engine.hostlink import HostLink, JobResult
from kernel_lab.engine.profiles import load_gpu

ROOT = Path(__file__).parents[2]
HONEST = ROOT / "tests" / "candidates" / "honest"
TASK = ROOT / "kernels" / "gqa_prefill"
RTX_3060 = load_gpu("rtx3060").to_target()
WORKLOAD: dict[str, Any] = {
    "id": "w", "bucket": "b", "weight": 1.0, "task": "gqa_prefill", "B": 2, "Hq": 8, "Hkv": 2, "Sq": 512,
    "Sk": 512, "D": 128, "dtype": "bf16", "causal": True, "seq_lens": None,
}  # fmt: skip
CACHED_S = 0.1

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(sys.platform != "linux", reason="the host needs Linux"),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def link(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[HostLink]:
    folder = tmp_path_factory.mktemp("host")
    host = HostLink(sys.executable, folder / "cache", folder / "scratch")
    await host.start()
    yield host
    await host.close()


def plain(**changes: str) -> str:
    """The plain honest kernel, with pieces of its text replaced."""
    text = (HONEST / "plain.py").read_text()
    for old, new in changes.items():
        old = {"dot": "tl.dot(x, tl.trans(kt))", "block_n": '"BLOCK_N": 32'}[old]
        assert old in text
        text = text.replace(old, new)
    return text


async def screen(
    link: HostLink, source: str, *workloads: dict[str, Any], target: dict[str, Any] = RTX_3060
) -> JobResult:
    return await link.call(
        "screen", source=source, entry="attention", task_dir=str(TASK), target=target,
        workloads=list(workloads or (WORKLOAD,)), deadline_s={"load": 20, "compile": 90},
    )  # fmt: skip


async def test_launches_times_and_limits_of_a_plain_kernel(link: HostLink) -> None:
    result = await screen(link, plain())
    assert (result.outcome, result.detail) == ("ok", "")
    (launch,) = result.facts["launches"]
    assert (launch["workload"], launch["kernel"], launch["grid"]) == ("w", "attention_kernel", [32, 16, 1])
    assert (launch["num_warps"], launch["tensor_cores"]) == (4, "HMMA")
    assert 32 <= launch["registers"] <= 255 and launch["spill_bytes"] == 0
    assert 0 < launch["smem_bytes"] <= 101_376
    assert launch["occupancy"] == min(1.0, launch["ctas_per_sm"] * 4 / 48)
    assert launch["share"] == 1.0
    assert result.facts["time_us"]["w"] >= launch["time_us"] > 0
    # Two products over the visible pairs; q and the result once, k and v once for each KV head.
    assert result.facts["flops"]["w"] == 4 * 2 * 8 * 128 * (512 * 513 / 2)
    assert result.facts["moved_bytes"]["w"] == 2 * 2 * 128 * 2 * (8 * 512 + 2 * 512)
    assert result.facts["parts"]["w"]["bound"]
    assert result.facts["limits"] == []


async def test_a_repeat_comes_from_the_cache(link: HostLink) -> None:
    first = await screen(link, plain())
    began = time.monotonic()
    again = await screen(link, plain())
    took = time.monotonic() - began
    assert again.facts["cached"] is True
    assert {**first.facts, "cached": True} == again.facts
    assert took < CACHED_S


async def test_equal_kernels_compile_once_across_candidates(link: HostLink) -> None:
    """Comments, and shapes that specialise alike, give the same code."""
    await screen(link, plain())
    longer = {**WORKLOAD, "id": "x", "Sq": 1024, "Sk": 1024}
    began = time.monotonic()
    result = await screen(link, "# a comment\n" + plain(), longer)
    assert result.outcome == "ok" and result.facts["cached"] is False
    compiled = await compiled_kernels(link)
    assert compiled == len({"bf16, divisible by 16"})
    assert time.monotonic() - began < 60


async def compiled_kernels(link: HostLink) -> int:
    """Kernels in the cache of the host."""
    folder = link.log_path.parent.parent / "cache" / "unit"
    return await asyncio.to_thread(lambda: len(list(folder.rglob("*.json"))))


async def test_too_much_shared_memory_is_refused_with_the_numbers(link: HostLink) -> None:
    source = plain(block_n='"BLOCK_N": 128').replace("num_warps=config", "num_stages=4, num_warps=config")
    result = await screen(link, source)
    assert result.outcome == "oom"
    assert result.detail.endswith("B of shared memory, an RTX 3060 block has 101,376")
    assert int(result.detail.split()[1].replace(",", "")) > 101_376
    assert result.facts["limits"] == [f"attention_kernel: {result.detail}"]


async def test_a_compile_error_is_one_line_that_names_the_place(link: HostLink) -> None:
    source = plain(dot="tl.dot(x, kt)")
    line = source[: source.index("tl.dot(x, kt)")].count("\n") + 1
    result = await screen(link, source)
    assert result.outcome == "compile_error"
    assert result.detail.startswith("attention_kernel: ") and result.detail.endswith(f"(line {line})")
    assert "CompilationError" in result.output


async def test_a_compile_error_counts_though_the_candidate_catches_it(link: HostLink) -> None:
    """Otherwise a fallback would be timed in place of the kernel that is shown."""
    source = plain(dot="tl.dot(x, kt)").replace("def attention(", "def broken(") + (
        "\n\ndef attention(q, k, v, *, causal, scale):\n"
        "    try:\n"
        "        return broken(q, k, v, causal=causal, scale=scale)\n"
        "    except Exception:\n"
        "        return torch.zeros_like(q)\n"
    )
    assert (await screen(link, source)).outcome == "compile_error"


async def test_device_queries_and_workspaces_answer_for_the_target(link: HostLink) -> None:
    """Several launches, a grid of as many programs as the card has SMs, memory asked for on `cuda`."""
    source = (HONEST / "split_workspace.py").read_text()
    for name in ("rtx3060", "h100"):
        gpu = load_gpu(name)
        result = await screen(link, source, {**WORKLOAD, "Sq": 64}, target=gpu.to_target())
        assert result.outcome == "ok", result.detail
        split, combine = result.facts["launches"]
        assert (split["kernel"], split["grid"]) == ("split_kernel", [gpu.sms, 1, 1])
        assert (combine["kernel"], combine["grid"]) == ("combine_kernel", [2 * 8 * 64, 1, 1])
        assert split["share"] + combine["share"] == pytest.approx(1.0)


async def test_the_same_workspace_kernel_is_right_in_the_interpreter(link: HostLink) -> None:
    case = {**WORKLOAD, "case": "c", "seed": 5, "dtype": "fp16", "B": 1, "Hq": 4, "Sq": 3, "Sk": 70, "D": 80}
    result = await link.call(
        "check", source=(HONEST / "split_workspace.py").read_text(), entry="attention", task_dir=str(TASK),
        gate="integrity", cases=[case, {**case, "case": "bf16", "dtype": "bf16"}], probes=True,
        target=RTX_3060, tolerance={"factor": 2.0, "floor_abs": 2e-5, "floor_rel": 1e-3},
    )  # fmt: skip
    assert result.outcome == "ok", result.detail
    status = {(one["case"], one["status"]) for one in result.facts["checks"]}
    assert ("bf16", "unproven") in status
    assert {one["status"] for one in result.facts["checks"] if one["case"] != "bf16"} == {"pass"}
    assert [launch["kernel"] for launch in result.facts["launches"]["c"]] == [
        "split_kernel",
        "combine_kernel",
    ]


async def test_the_tensor_cores_of_another_generation_are_named(link: HostLink) -> None:
    source = (TASK / "candidate.py").read_text()
    result = await screen(link, source, target=load_gpu("h100").to_target())
    assert result.outcome == "ok", result.detail
    assert {launch["tensor_cores"] for launch in result.facts["launches"]} == {"HGMMA"}


@pytest.mark.parametrize(
    ("change", "outcome", "words"),
    [
        (("    return out\n", "    return out[:, :, 1:]\n"), "invalid", "returns [2, 8, 511, 128]"),
        (("    return out\n", "    return None\n"), "invalid", "NoneType"),
        (("num_warps=config", 'ptx_options="-o x", num_warps=config'), "invalid", "ptx_options"),
        (("num_warps=config", "unheard_of=1, num_warps=config"), "crash", "unheard_of"),
        (("    return out\n", "    return out.float()\n"), "invalid", "float32"),
        (("import torch\n", "import torch\nimport nowhere\n"), "invalid", "nowhere"),
        (("    return out\n", "    out.sum().item()\n    return out\n"), "cheat", "aten.sum"),
        (("    return out\n", "    k[0, 0, 0, 0].item()\n    return out\n"), "invalid", "on the host"),
    ],
)
async def test_what_breaks_the_contract_is_turned_down(
    link: HostLink, change: tuple[str, str], outcome: str, words: str
) -> None:
    assert change[0] in plain()
    result = await screen(link, plain().replace(*change))
    assert (result.outcome, words in result.detail) == (outcome, True), result.detail
