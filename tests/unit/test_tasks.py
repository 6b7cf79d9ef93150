"""Task folders and the shapes that they give for a model on a card."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from kernel_lab.engine import tasks
from kernel_lab.engine.errors import ProfileError, TaskError
from kernel_lab.engine.profiles import GpuProfile, ModelProfile, list_models, load_gpu, load_model

SHIPPED = ("gqa_decode", "gqa_prefill")

OWN_TASK = """
name = "mine"
title = "Mine"
entry = "decode"
summary = "A decode task."

[[bucket]]
name = "few"
doc = "Few sequences."
when = { B_max = 4 }

[[bucket]]
name = "long"
doc = "Long caches."
when = { Sk_min = 4096 }

[[bucket]]
name = "rest"
doc = "Whatever is left."
when = {}

[[workload]]
id = "b1"
B = 1
Sq = 1
Sk = 32768
causal = true
seq_lens = "full"
weight = 1.0

[[workload]]
id = "b64"
B = 64
Sq = 1
Sk = 8192
causal = true
seq_lens = "ragged"
weight = 3.0

[tolerance.fp16]
factor = 2.0
floor_abs = 2e-5
floor_rel = 1e-3

[tolerance.bf16]
factor = 2.0
floor_abs = 1e-4
floor_rel = 8e-3

[hidden]
B = { min = 1, max = 24 }
Hkv = [1, 2]
group = [1, 5, 16]
Sq = [1, 4]
Sk = { min = 1, max = 5000 }
D = [64, 80]
causal = [true]
layout = ["contiguous"]
distribution = ["normal"]

[hidden.static]
Sk = { min = 1, max = 160 }

[[static_case]]
id = "ragged"
B = 2
Hq = 8
Hkv = 2
Sq = 1
Sk = 200
D = 128
causal = true
distribution = "normal"
seq_lens = [200, 77]

[[baseline]]
name = "fa2"
title = "FlashAttention-2"

[baseline.call]
single = "sdpa(...)"
"""


@pytest.fixture
def rtx3060(own_world: Path) -> GpuProfile:
    return load_gpu("rtx3060")


@pytest.fixture
def llama(own_world: Path) -> ModelProfile:
    return load_model("llama-3.1-8b")


@pytest.fixture
def own_task(tmp_path: Path) -> Path:
    """A small task folder of the user's own."""
    folder = tmp_path / "tasks" / "mine"
    folder.mkdir(parents=True)
    (folder / "task.toml").write_text(OWN_TASK, encoding="utf-8")
    (folder / "candidate.py").write_text("SPACE = {}\nCONFIG = {}\n", encoding="utf-8")
    (folder / "reference.py").write_text("", encoding="utf-8")
    return folder


def shapes(workloads: list[dict[str, Any]]) -> dict[str, tuple[Any, ...]]:
    keys = ("B", "Hq", "Hkv", "Sq", "Sk", "D", "dtype", "causal", "bucket")
    return {w["id"]: tuple(w[key] for key in keys) for w in workloads}


# ---- what ships --------------------------------------------------------------------------------------


def test_both_tasks_ship_and_are_found_beside_the_package() -> None:
    assert tasks.shipped_tasks() == SHIPPED
    for name in SHIPPED:
        task = tasks.load_task(name)
        assert task.folder == Path(tasks.__file__).parent.parent / "kernels" / name
        assert task.name == name
        assert "SPACE" in task.seed_source and "CONFIG" in task.seed_source
        assert set(task.tolerances) == {"fp16", "bf16"}
        assert all(rule["factor"] == 2.0 for rule in task.tolerances.values())
        assert [baseline.name for baseline in task.baselines] == ["fa2", "cudnn"]
        assert sum(template.weight for template in task.workloads) == pytest.approx(1.0)


def test_static_cases_are_fp16_and_ready_for_the_host() -> None:
    decode, prefill = (tasks.load_task(name) for name in SHIPPED)
    for case in (*decode.static_cases, *prefill.static_cases):
        assert json.loads(json.dumps(case)) == case
        assert case["dtype"] == "fp16" and case["layout"] in ("contiguous", "strided", "offset")
    assert all(len(case["seq_lens"]) == case["B"] for case in decode.static_cases)
    assert all("seq_lens" not in case for case in prefill.static_cases)
    groups = {case["Hq"] // case["Hkv"] for case in (*decode.static_cases, *prefill.static_cases)}
    assert {1, 4, 5, 6, 7, 8, 16} <= groups


def test_hidden_ranges_keep_their_two_forms() -> None:
    hidden = tasks.load_task("gqa_decode").hidden
    assert set(hidden["Sk"]) == {"min", "max"} and isinstance(hidden["group"], list)
    assert hidden["static"]["Sk"]["max"] < hidden["Sk"]["max"]


# ---- the matrix --------------------------------------------------------------------------------------


def test_decode_matrix_of_llama_on_an_rtx_3060(rtx3060: GpuProfile, llama: ModelProfile) -> None:
    matrix, left_out = tasks.workload_matrix(tasks.load_task("gqa_decode"), llama, rtx3060)
    assert left_out == []
    assert shapes(matrix) == {
        "decode-b1-s1k": (1, 32, 8, 1, 1024, 128, "bf16", True, "few_short"),
        "decode-b1-s8k": (1, 32, 8, 1, 8192, 128, "bf16", True, "few_long"),
        "decode-b1-s32k": (1, 32, 8, 1, 32_768, 128, "bf16", True, "few_long"),
        "decode-b8-s8k": (8, 32, 8, 1, 8192, 128, "bf16", True, "many"),
        "decode-b32-s2k": (32, 32, 8, 1, 2048, 128, "bf16", True, "many"),
        "decode-b16-s8k-ragged": (16, 32, 8, 1, 8192, 128, "bf16", True, "many"),
        "decode-b4-q4-s8k": (4, 32, 8, 4, 8192, 128, "bf16", True, "multi"),
    }
    assert [w["weight"] for w in matrix] == [0.1, 0.2, 0.15, 0.2, 0.15, 0.1, 0.1]
    ragged = next(w for w in matrix if w["id"] == "decode-b16-s8k-ragged")
    assert (
        len(ragged["seq_lens"]) == 16
        and max(ragged["seq_lens"]) <= 8192
        and len(set(ragged["seq_lens"])) == 16
    )
    assert all(w["seq_lens"] is None for w in matrix if w is not ragged)
    assert json.loads(json.dumps(matrix)) == matrix


def test_prefill_matrix_of_llama_on_an_rtx_3060(rtx3060: GpuProfile, llama: ModelProfile) -> None:
    matrix, left_out = tasks.workload_matrix(tasks.load_task("gqa_prefill"), llama, rtx3060)
    assert left_out == []
    assert shapes(matrix) == {
        "prefill-causal-s512": (32, 32, 8, 512, 512, 128, "bf16", True, "short"),
        "prefill-causal-s2k": (8, 32, 8, 2048, 2048, 128, "bf16", True, "long"),
        "prefill-causal-s8k": (2, 32, 8, 8192, 8192, 128, "bf16", True, "long"),
        "prefill-chunk-q512-s8k": (1, 32, 8, 512, 8192, 128, "bf16", True, "chunk"),
        "prefill-full-s4k": (4, 32, 8, 4096, 4096, 128, "bf16", False, "full"),
    }
    assert all("seq_lens" not in w and "scale" not in w and w["task"] == "gqa_prefill" for w in matrix)


@pytest.mark.parametrize("name", SHIPPED)
def test_every_covered_model_gets_a_matrix_on_every_size_of_card(name: str, rtx3060: GpuProfile) -> None:
    task = tasks.load_task(name)
    small = dataclasses.replace(rtx3060, memory_bytes=6 * 2**30)
    for entry in list_models():
        model = load_model(entry.name)
        if not model.layers:
            continue
        for gpu in (small, rtx3060):
            matrix, left_out = tasks.workload_matrix(task, model, gpu)
            assert sum(w["weight"] for w in matrix) == pytest.approx(1.0)
            assert all(tasks.tensor_bytes(w) <= gpu.memory_bytes / 4 for w in matrix)
            assert {w["Hq"] for w in matrix} == {model.Hq} and {w["D"] for w in matrix} == {model.D}
            assert any(model.title in line for line in left_out) is bool(model.not_covered)


def test_what_does_not_fit_a_small_card_is_left_out_by_name_and_the_rest_weighs_one(
    own_task: Path, rtx3060: GpuProfile, llama: ModelProfile
) -> None:
    task = tasks.load_task(own_task)
    whole, nothing = tasks.workload_matrix(task, llama, rtx3060)
    assert nothing == [] and [(w["id"], w["weight"]) for w in whole] == [("b1", 0.25), ("b64", 0.75)]
    small = dataclasses.replace(rtx3060, memory_bytes=6 * 2**30)
    matrix, left_out = tasks.workload_matrix(task, llama, small)
    assert [(w["id"], w["weight"]) for w in matrix] == [("b1", 1.0)]
    assert left_out == ["b64: 2.0 GiB of tensors, above the 1.5 GiB that one shape may take on RTX 3060"]
    tiny = dataclasses.replace(rtx3060, memory_bytes=2**24)
    with pytest.raises(ProfileError, match="fits RTX 3060; choose a smaller model or a card"):
        tasks.workload_matrix(task, llama, tiny)


def test_a_shape_may_ask_for_a_larger_card(own_task: Path, rtx3060: GpuProfile, llama: ModelProfile) -> None:
    path = own_task / "task.toml"
    path.write_text(OWN_TASK.replace("B = 64", "B = 64\nmin_memory_bytes = 25769803776"), encoding="utf-8")
    matrix, left_out = tasks.workload_matrix(tasks.load_task(own_task), llama, rtx3060)
    assert len(matrix) == 1 and left_out == ["b64: meant for cards of 24 GiB"]


def test_uncovered_layers_are_left_out_and_an_uncovered_model_is_refused(rtx3060: GpuProfile) -> None:
    task = tasks.load_task("gqa_decode")
    matrix, left_out = tasks.workload_matrix(task, load_model("gemma-3-27b"), rtx3060)
    assert left_out[0].startswith("Gemma 3 27B: 52 of 62 layers: local layers with a window of 1024")
    assert all(w["scale"] == pytest.approx(168**-0.5) for w in matrix)
    with pytest.raises(ProfileError, match=r"DeepSeek V3\.2 cannot drive a lab"):
        tasks.workload_matrix(task, load_model("deepseek-v3.2"), rtx3060)


def test_head_dims_above_128_are_a_bucket_of_their_own(rtx3060: GpuProfile) -> None:
    for name in SHIPPED:
        matrix, _ = tasks.workload_matrix(tasks.load_task(name), load_model("qwen3.5-27b"), rtx3060)
        assert {w["bucket"] for w in matrix} == {"wide"}


def test_ragged_lengths_are_fixed_spread_and_never_empty() -> None:
    lengths = tasks.ragged_lengths(16, 8192)
    assert lengths == tasks.ragged_lengths(16, 8192)
    assert min(lengths) < 1500 and max(lengths) > 7500 and lengths != sorted(lengths)
    assert tasks.ragged_lengths(3, 1) == [1, 1, 1]


# ---- buckets -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("task", "dims", "bucket"),
    [
        ("gqa_prefill", {"D": 256}, "wide"),
        ("gqa_prefill", {"causal": False}, "full"),
        ("gqa_prefill", {"causal": False, "Sq": 10, "Sk": 20}, "full"),
        ("gqa_prefill", {"Sq": 1023, "Sk": 1024}, "chunk"),
        ("gqa_prefill", {"Sq": 1024, "Sk": 1023}, "short"),
        ("gqa_prefill", {"Sq": 1025, "Sk": 1025}, "long"),
        ("gqa_decode", {"Sq": 2}, "multi"),
        ("gqa_decode", {"Sq": 1, "B": 4, "Sk": 2048}, "few_short"),
        ("gqa_decode", {"Sq": 1, "B": 4, "Sk": 2049}, "few_long"),
        ("gqa_decode", {"Sq": 1, "B": 5, "Sk": 2048}, "many"),
    ],
)
def test_the_first_bucket_whose_bounds_hold_is_taken(task: str, dims: dict[str, Any], bucket: str) -> None:
    shape = {"id": "x", "B": 1, "Hq": 8, "Hkv": 2, "Sq": 128, "Sk": 128, "D": 128, "causal": True, **dims}
    assert tasks.bucket_of(tasks.load_task(task), shape) == bucket


# ---- finding and wrong folders -----------------------------------------------------------------------


def test_an_unknown_task_gets_the_nearest_name() -> None:
    with pytest.raises(
        TaskError, match='unknown task "gqa-decode" \\(did you mean "gqa_decode"\\?\\); choose'
    ):
        tasks.load_task("gqa-decode")
    with pytest.raises(TaskError, match="no such folder; give the folder of a task"):
        tasks.load_task("nowhere/at/all")


def test_a_folder_of_ones_own_is_loaded_by_path(own_task: Path, tmp_path: Path) -> None:
    task = tasks.load_task(str(own_task))
    assert (task.name, task.folder, task.notes) == ("mine", own_task, "")
    assert task.buckets[0] == tasks.Bucket("few", "Few sequences.", {"B_max": 4})
    assert task.static_cases[0]["seq_lens"] == [200, 77]
    copy = tmp_path / "gqa_decode"
    shutil.copytree(tasks.load_task("gqa_decode").folder, copy)
    assert tasks.load_task(copy) == dataclasses.replace(tasks.load_task("gqa_decode"), folder=copy)


@pytest.mark.parametrize("missing", ["task.toml", "candidate.py", "reference.py"])
def test_a_folder_without_its_files_is_refused_by_name(own_task: Path, missing: str) -> None:
    (own_task / missing).unlink()
    with pytest.raises(TaskError, match=missing.replace(".", r"\.")):
        tasks.load_task(own_task)


def test_notes_are_optional_and_a_seed_kernel_must_be_text(own_task: Path) -> None:
    (own_task / "notes.md").unlink(missing_ok=True)
    assert tasks.load_task(own_task).notes == ""
    (own_task / "candidate.py").write_bytes(b"\xff\xfe")
    with pytest.raises(TaskError, match=r"candidate\.py: not UTF-8; save the file as UTF-8"):
        tasks.load_task(own_task)


@pytest.mark.parametrize(
    ("change", "line_of", "says"),
    [
        (
            ('entry = "decode"', 'entry = "encode"'),
            "entry",
            '"encode" (did you mean "decode"?); use "attention" or',
        ),
        (('name = "mine"', 'name = "other"'), "name", "in a folder called mine; give both one name"),
        (("B_max = 4", "B_high = 4"), "when", 'unknown bound "B_high"'),
        (("B_max = 4", "B_min = 9, B_max = 4"), "when", "B cannot be above its maximum"),
        (
            ("when = {}", "when = { B_min = 5 }"),
            "when",
            "the last bucket, and only that, holds whatever is left",
        ),
        (("{ Sk_min = 4096 }", "{}"), "when", "the last bucket, and only that, holds whatever is left"),
        (('name = "long"', 'name = "few"'), 'name = "few"', '"few" is there twice'),
        (('name = "long"', 'name = "a b"'), 'name = "a b"', '"a b" is no name'),
        (("weight = 1.0", "weight = 0"), "weight", '"weight" is 0, which cannot be'),
        (
            ("weight = 1.0", "wait = 1.0"),
            "[[workload]]",
            '"weight" is missing in [workload]; add weight = a number',
        ),
        (("Sq = 1\n", "Sq = 9\n"), "Sq = 9", "decode takes 1 to 8 queries"),
        (("causal = true", "causal = false"), "causal = false", "decode is causal among its queries"),
        (('seq_lens = "ragged"', 'seq_lens = "torn"'), "seq_lens", 'use "full" or "ragged"'),
        (("factor = 2.0", "factor = 200"), "factor", "use a number of at most 10"),
        (("[200, 77]", "[201, 77]"), "seq_lens", "it must be 2 whole numbers from 0 to 200"),
        (("[200, 77]", "[200]"), "seq_lens", "it must be 2 whole numbers from 0 to 200"),
        (("Hkv = 2", "Hkv = 3"), "Hkv = 3", "it must divide Hq, which is 8"),
        (("[1, 5, 16]", "[0]"), "group", "use whole numbers of at least 1"),
        (("group =", "groups ="), "groups", 'unknown range "groups" (did you mean "group"?)'),
        (("layout =", "#"), "[hidden]", '"layout" is missing in [hidden]'),
        (("min = 1, max = 24", "min = 4, max = 2"), "B = {", "use a whole number of at least 4"),
        (("[[baseline]]", "[[base]]\nx = 1\n[[baseline]]"), "[[base]]", 'unknown key "base"'),
        (("[tolerance.bf16]", "[tolerance.bf8]"), "[tolerance.fp16]", '"bf16" is missing in [tolerance]'),
    ],
)
def test_a_wrong_task_file_is_named_with_line_and_remedy(
    own_task: Path, change: tuple[str, str], line_of: str, says: str
) -> None:
    assert change[0] in OWN_TASK
    text = OWN_TASK.replace(*change, 1)
    path = own_task / "task.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(TaskError) as refused:
        tasks.load_task(own_task)
    message = str(refused.value)
    assert says in message, message
    wanted = [number for number, line in enumerate(text.splitlines(), 1) if line.startswith(line_of)]
    assert any(message.startswith(f"{path}, line {number}: ") for number in wanted), message
    assert "\n" not in message
