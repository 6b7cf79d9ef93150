"""What the jobs on a card decide without a card: contents, slices, clocks, launches, kept kernels, layers."""

from __future__ import annotations

import random
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("triton")
HARNESS = Path(__file__).parents[2] / "engine" / "harness"
KERNELS = Path(__file__).parents[2] / "kernels"
sys.path.append(str(HARNESS))

import cardcontents  # noqa: E402 (the harness imports its modules by name from its own folder)
import carddevice  # noqa: E402
import cardjobs  # noqa: E402
import cardnvml  # noqa: E402
import cardprobes  # noqa: E402
import cardreport  # noqa: E402
import tensors  # noqa: E402
from compare import Comparison  # noqa: E402

RIGHT = Comparison(True, "whole", 0.001, 0.01, "relative error 0.001, limit 0.01")
WRONG = Comparison(False, "peak", 9.0, 0.01, "largest error 9, limit 0.01")
NODES = [["decode_kernel", [32, 1, 1], 40], ["combine_kernel", [32, 1, 1], 40]]


def test_flipped_signs_are_new_contents_and_flip_back() -> None:
    x = torch.randn(4, 33, 64).to(torch.bfloat16)
    before = x.clone()
    for _ in range(2):
        cardcontents._flip_each(carddevice.raw(x), torch.Generator().manual_seed(3))
        changed = (x != before).float().flatten()
        if changed.any():
            # Each of the four numbers of a random word, and no magnitude.
            assert all(0.4 < float(changed[lane::4].mean()) < 0.6 for lane in range(4))
            assert torch.equal(x.abs(), before.abs())
    assert torch.equal(x, before)


def test_digest_tells_bits_and_places_apart() -> None:
    x = torch.randn(1000).to(torch.float16)
    same, swapped = x.clone(), x.clone()
    swapped[[3, 4]] = swapped[[4, 3]]
    assert torch.equal(carddevice.digest(x), carddevice.digest(same))
    assert not torch.equal(carddevice.digest(x), carddevice.digest(swapped))
    assert not torch.equal(carddevice.digest(x), carddevice.digest(-x))


@pytest.mark.parametrize("task", ["gqa_prefill", "gqa_decode"])
def test_slice_has_the_answer_that_the_whole_has_there(task: str) -> None:
    reference = tensors.load_reference(str(KERNELS / task))
    workload: dict[str, Any] = {
        "id": "x", "task": task, "B": 3, "Hq": 6, "Hkv": 2, "Sq": 4, "Sk": 40, "D": 16, "dtype": "fp16",
        "causal": True, "layout": "strided", "seq_lens": [40, 0, 17],
    }  # fmt: skip
    inputs = reference.make_inputs(workload, seed=1, device="cpu")
    whole = reference.reference(inputs, workload)
    for seed in range(8):
        part = cardcontents.random_slice(inputs, workload, random.Random(seed))
        batch, first, last = part.where
        found = reference.reference(part.inputs, part.workload)
        torch.testing.assert_close(found, whole[batch : batch + 1, first:last])


def report_of(**rows: tuple[float, float]) -> cardreport.Report:
    """One workload; by contestant, the microseconds of a block by device and by host."""
    report = cardreport.Report()
    track: Any = SimpleNamespace(name="w", calls=40)
    for name, (device_us, host_us) in rows.items():
        report.captured(track, name, {"nodes": NODES, "separate": True, "eager_us": 30.0})
        report.block("w", name, device_us, host_us)
        report.renewed("w", name, 2000.0)
        report.fetched("w", name, 300.0)
        report.compared("w", name, RIGHT)
    return report


def failed(report: cardreport.Report, name: str = "candidate") -> set[str]:
    checks = report.facts("speed", [name])["compared"][name]
    return {check["probe"] for check in checks if check["status"] == "fail"}


def test_clocks_that_agree_pass_and_a_slow_device_clock_is_caught() -> None:
    assert failed(report_of(candidate=(5000.0, 5260.0), fa2=(6000.0, 6250.0))) == set()
    assert failed(report_of(candidate=(4500.0, 5260.0), fa2=(6000.0, 6250.0))) == {"two_clocks"}
    assert failed(report_of(candidate=(4500.0, 5260.0))) == {"two_clocks"}


def test_work_put_off_until_somebody_looks_or_begun_early_is_caught() -> None:
    late = report_of(candidate=(5000.0, 5250.0), fa2=(6000.0, 6250.0))
    late.fetched("w", "candidate", 9000.0)
    late.fetched("w", "candidate", 9000.0)
    assert failed(late) == {"late_work"}
    early = report_of(candidate=(5000.0, 5250.0), fa2=(6000.0, 6250.0))
    early.renewed("w", "candidate", 9000.0)
    early.renewed("w", "candidate", 9000.0)
    assert failed(early) == {"late_work"}


def test_one_wrong_timed_answer_fails_the_comparison() -> None:
    report = report_of(candidate=(5000.0, 5250.0), fa2=(6000.0, 6250.0))
    report.compared("w", "candidate", WRONG)
    checks = report.facts("speed", ["candidate"])["compared"]["candidate"]
    assert [c["detail"][:34] for c in checks if c["status"] == "fail"] == [
        "1 of 2 timed answers are wrong: pe"
    ]


def test_graph_that_skips_calls_or_shares_an_answer_is_caught() -> None:
    report = report_of(candidate=(5000.0, 5250.0), fa2=(6000.0, 6250.0))
    track: Any = SimpleNamespace(name="w", calls=40)
    nodes = [["decode_kernel", [32, 1, 1], 1]]
    report.captured(track, "candidate", {"nodes": nodes, "separate": False, "eager_us": 30.0})
    assert failed(report) == {"graph_census", "output_memory"}


def test_launches_are_counted_by_call() -> None:
    facts = report_of(candidate=(5000.0, 5250.0)).facts("speed", ["candidate"])
    assert facts["launches"]["candidate"]["w"][0] == {
        "kernel": "decode_kernel", "grid": [32, 1, 1], "count": 1.0
    }  # fmt: skip


def test_only_torch_s_fills_and_copies_count_as_layout() -> None:
    assert cardprobes.is_layout_node("memset")
    assert cardprobes.is_layout_node("void at::native::vectorized_elementwise_kernel<4, FillFunctor<int>>")
    assert not cardprobes.is_layout_node("decode_kernel")
    assert not cardprobes.is_layout_node("void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128>>")


def test_own_kernels_are_those_that_the_file_defines() -> None:
    source = "@triton.jit\ndef decode_kernel(q):\n    pass\n"
    assert cardjobs.own_kernel("decode_kernel", source)
    assert not cardjobs.own_kernel("decode", source)
    assert not cardjobs.own_kernel("flash_fwd_kernel", source)


def test_kept_kernels_are_found_by_another_process(tmp_path: Path) -> None:
    job: Any = SimpleNamespace(store=SimpleNamespace(folder=tmp_path / "cache"))
    card: Any = SimpleNamespace(reading={"name": "a card", "driver": "1"})
    shapes = [{"layout": {"q": {"shape": [1]}}}, {"layout": {"q": {"shape": [2]}}}]
    first, second = tmp_path / "first", tmp_path / "second"
    for work in (first, second):
        work.mkdir()
    kernels = cardjobs.Kernels(job, card, "source")
    assert kernels.unknown(shapes) == shapes
    assert not kernels.give(first)
    group = first / "triton" / "KEY" / "__grp__k.json"
    group.parent.mkdir(parents=True)
    group.write_text(f'{{"child_paths": {{"k.cubin": "{first}/triton/KEY/k.cubin"}}}}')
    kernels.take(first)
    again = cardjobs.Kernels(job, card, "source")
    assert again.unknown([*shapes, {"layout": {}}]) == [{"layout": {}}]
    assert again.give(second)
    assert f'"{second}/triton/KEY/k.cubin"' in (second / "triton" / "KEY" / "__grp__k.json").read_text()
    assert not cardjobs.Kernels(job, card, "other source").give(second)


def test_layers_on_a_card_say_what_is_left_out() -> None:
    layers = cardjobs.card_layers(("pid_namespace", "limits", "landlock"))
    assert layers["landlock"] == "active"
    assert layers["pid_namespace"].startswith("off")
    assert "address space" in layers["limits"]


def test_throttle_bits_have_names_and_idling_is_none() -> None:
    assert cardnvml.throttles(0x1) == []
    assert cardnvml.throttles(0x24) == ["power_cap", "thermal"]
