"""GPU and model profiles: what ships is right, what a person adds overrides, what is wrong is named."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from kernel_lab.engine import profiles
from kernel_lab.engine.errors import ProfileError
from kernel_lab.engine.profile_types import FIGURE_KINDS

GPUS = ["a100", "b200", "h100", "h200", "l40s", "rtx-pro-6000", "rtx3060", "rtx3090", "rtx4090", "rtx5090"]
MODELS = [
    "deepseek-v3.2",
    "deepseek-v4-flash",
    "gemma-3-12b",
    "gemma-3-27b",
    "gemma-3-4b",
    "gpt-oss-20b",
    "llama-3.1-70b",
    "llama-3.1-8b",
    "llama-3.2-3b",
    "qwen3-235b",
    "qwen3-30b-a3b",
    "qwen3-8b",
    "qwen3.5-27b",
]
SHIPPED = Path(profiles.__file__).parent.parent / "profiles"


def own(world: Path, kind: str, name: str, text: str) -> Path:
    """A profile of the user's own."""
    folder = world / "xdg_config_home" / "kernel-lab" / "profiles" / kind
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.toml"
    path.write_text(text, encoding="utf-8")
    return path


def shipped_text(kind: str, name: str) -> str:
    return (SHIPPED / kind / f"{name}.toml").read_text(encoding="utf-8")


# ---- what ships --------------------------------------------------------------------------------------


def test_every_gpu_and_model_named_in_the_readme_of_the_field_ships(own_world: Path) -> None:
    assert [entry.name for entry in profiles.list_gpus()] == GPUS
    assert [entry.name for entry in profiles.list_models()] == MODELS
    listed = (*profiles.list_gpus(), *profiles.list_models())
    assert all(entry.origin == "shipped" and entry.problem is None and entry.detail for entry in listed)


@pytest.mark.parametrize("name", GPUS)
def test_a_shipped_gpu_is_complete(name: str, own_world: Path) -> None:
    gpu = profiles.load_gpu(name)
    assert gpu.smem_block_bytes == gpu.smem_sm_bytes - 1024
    assert gpu.registers_sm == 65_536
    assert gpu.nvml_names and all(profiles.match_gpu_name(card) == name for card in gpu.nvml_names)
    assert len(gpu.notes) > 1000 and gpu.notes.count("[") > 5, "notes with sources"
    assert all(source for source in gpu.sources)
    covered = {(curve.D, curve.causal) for curve in gpu.fa2.prefill}
    assert covered == {(dim, causal) for dim in (64, 128, 256) for causal in (False, True)}
    assert all(curve.kind in FIGURE_KINDS and curve.source for curve in gpu.fa2.prefill)
    assert {"cp_async", "mma_sync"} <= set(gpu.features)


@pytest.mark.parametrize(
    ("name", "facts"),
    [
        ("rtx3060", (86, 28, 25.5, 360.0, 3 * 2**20, 101_376, 48, 16)),
        ("rtx3090", (86, 82, 71.2, 936.0, 6 * 2**20, 101_376, 48, 16)),
        ("rtx4090", (89, 128, 165.2, 1008.0, 72 * 2**20, 101_376, 48, 24)),
        ("rtx5090", (120, 170, 209.5, 1792.0, 96 * 2**20, 101_376, 48, 24)),
        ("a100", (80, 108, 312.0, 2039.0, 40 * 2**20, 166_912, 64, 32)),
        ("l40s", (89, 142, 362.0, 864.0, 96 * 2**20, 101_376, 48, 24)),
        ("h100", (90, 132, 989.0, 3350.0, 50 * 2**20, 232_448, 64, 32)),
        ("h200", (90, 132, 989.0, 4800.0, 60 * 2**20, 232_448, 64, 32)),
        ("b200", (100, 148, 2250.0, 8000.0, 132_644_864, 232_448, 64, 32)),
        ("rtx-pro-6000", (120, 188, 500.0, 1792.0, 128 * 2**20, 101_376, 48, 24)),
    ],
)
def test_the_figures_that_matter_are_the_published_ones(
    name: str, facts: tuple[float, ...], own_world: Path
) -> None:
    gpu = profiles.load_gpu(name)
    rate = gpu.tensor_tflops["bf16"]
    read = (
        gpu.arch,
        gpu.sms,
        rate,
        gpu.dram_gbs,
        gpu.l2_bytes,
        gpu.smem_block_bytes,
        gpu.warps_sm,
        gpu.ctas_sm,
    )
    assert read == facts


def test_geforce_rates_follow_from_sms_and_clock(own_world: Path) -> None:
    for name in ("rtx3060", "rtx3090", "rtx4090", "rtx5090"):
        gpu = profiles.load_gpu(name)
        fp16_accumulating = gpu.sms * 512 * 2 * gpu.boost_ghz / 1000
        assert gpu.tensor_tflops["bf16"] == pytest.approx(fp16_accumulating / 2, rel=0.01)
        assert gpu.tensor_tflops["fp16_acc16"] == pytest.approx(fp16_accumulating, rel=0.01)
        assert gpu.fp32_tflops == pytest.approx(gpu.sms * 128 * 2 * gpu.boost_ghz / 1000, rel=0.01)


def test_features_follow_the_generations(own_world: Path) -> None:
    features = {name: set(profiles.load_gpu(name).features) for name in GPUS}
    assert {name for name in GPUS if "tma" in features[name]} == {
        "h100",
        "h200",
        "b200",
        "rtx5090",
        "rtx-pro-6000",
    }
    assert {name for name in GPUS if "wgmma" in features[name]} == {"h100", "h200"}
    assert {name for name in GPUS if "tmem" in features[name]} == {"b200"}
    assert {name for name in GPUS if "fp8_mma" not in features[name]} == {"rtx3060", "rtx3090", "a100"}


def test_doubtful_facts_stay_marked(own_world: Path) -> None:
    assert profiles.load_gpu("rtx-pro-6000").confidence["tensor_tflops"] == "inferred"
    assert profiles.load_gpu("l40s").confidence["l2_bytes"] == "memory"
    h200 = profiles.load_gpu("h200")
    assert (h200.confidence["l2_bytes"], h200.confidence["dram_gbs"]) == ("measured", "published")
    assert {curve.kind for curve in h200.fa2.prefill} == {"measured"}
    assert {curve.kind for curve in profiles.load_gpu("rtx3060").fa2.prefill} == {"scaled"}


def test_the_target_for_the_host_is_plain_json_with_the_field_names(own_world: Path) -> None:
    target = profiles.load_gpu("rtx3060").to_target()
    assert json.loads(json.dumps(target)) == target
    assert target["smem_block_bytes"] == 101_376
    assert target["tensor_tflops"] == {"fp16": 25.5, "bf16": 25.5, "fp16_acc16": 51.0}
    assert {"name", "arch", "sms", "boost_ghz", "dram_gbs", "dram_measured_gbs", "features"} <= set(target)
    assert not {"notes", "fa2", "sources"} & set(target)


@pytest.mark.parametrize(
    ("name", "heads", "layers"),
    [
        ("llama-3.1-8b", (32, 8, 128), (32, 32)),
        ("llama-3.1-70b", (64, 8, 128), (80, 80)),
        ("llama-3.2-3b", (24, 8, 128), (28, 28)),
        ("qwen3-8b", (32, 8, 128), (36, 36)),
        ("qwen3-30b-a3b", (32, 4, 128), (48, 48)),
        ("qwen3-235b", (64, 4, 128), (94, 94)),
        ("qwen3.5-27b", (24, 4, 256), (16, 64)),
        ("gemma-3-4b", (8, 4, 256), (5, 34)),
        ("gemma-3-12b", (16, 8, 256), (8, 48)),
        ("gemma-3-27b", (32, 16, 128), (10, 62)),
        ("gpt-oss-20b", (64, 8, 64), (0, 24)),
        ("deepseek-v3.2", (128, 1, 576), (0, 61)),
        ("deepseek-v4-flash", (64, 1, 512), (0, 43)),
    ],
)
def test_models_have_their_heads_and_say_what_is_not_covered(
    name: str, heads: tuple[int, ...], layers: tuple[int, int], own_world: Path
) -> None:
    model = profiles.load_model(name)
    assert (model.Hq, model.Hkv, model.D) == heads
    assert (model.layers, model.layers_total) == layers
    assert bool(model.not_covered) is (model.layers < model.layers_total)
    assert model.dtype == "bf16" and len(model.notes) > 200


def test_a_model_with_its_own_softmax_scale_keeps_it(own_world: Path) -> None:
    assert profiles.load_model("gemma-3-27b").scale == pytest.approx(168**-0.5)
    assert profiles.load_model("gemma-3-4b").scale is None


@pytest.mark.parametrize(
    ("name", "why"),
    [("deepseek-v3.2", "latent"), ("deepseek-v4-flash", "compressed"), ("gpt-oss-20b", "sinks")],
)
def test_a_model_without_a_covered_layer_is_refused_in_one_line(name: str, why: str, own_world: Path) -> None:
    with pytest.raises(ProfileError, match=why) as refused:
        profiles.require_covered(profiles.load_model(name))
    assert "\n" not in str(refused.value)
    assert "choose another model" in str(refused.value)
    profiles.require_covered(profiles.load_model("qwen3.5-27b"))


# ---- finding -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "suggested"),
    [("rtx3061", "rtx3060"), ("RTX 4090", "rtx4090"), ("h20", "h200"), ("rtx-pro6000", "rtx-pro-6000")],
)
def test_an_unknown_gpu_gets_the_nearest_name(asked: str, suggested: str, own_world: Path) -> None:
    with pytest.raises(ProfileError, match=f'unknown GPU "{asked}" \\(did you mean "{suggested}"\\?\\)'):
        profiles.load_gpu(asked)


def test_an_unknown_model_gets_the_nearest_name_and_the_list(own_world: Path) -> None:
    with pytest.raises(ProfileError) as refused:
        profiles.load_model("llama-3.1-8")
    assert 'did you mean "llama-3.1-8b"?' in str(refused.value)
    assert "choose one of deepseek-v3.2, " in str(refused.value)
    with pytest.raises(ProfileError, match=r'unknown model "\.\./gpus/h200"'):
        profiles.load_model("../gpus/h200")


def test_names_are_found_whatever_their_case(own_world: Path) -> None:
    assert profiles.load_gpu(" RTX3060 ").name == "rtx3060"


@pytest.mark.parametrize(
    ("card", "name"),
    [
        ("NVIDIA GeForce RTX 3060", "rtx3060"),
        ("GeForce RTX 3060", "rtx3060"),
        ("NVIDIA H200", "h200"),
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("NVIDIA A100-SXM4-80GB", "a100"),
        ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "rtx-pro-6000"),
        ("NVIDIA GeForce RTX 3060 Ti", None),
        ("NVIDIA GeForce RTX 3060 Laptop GPU", None),
        ("NVIDIA GeForce RTX 4090 D", None),
        ("NVIDIA A100-SXM4-40GB", None),
        ("NVIDIA H100 PCIe", None),
        ("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", None),
        ("Tesla T4", None),
        ("", None),
    ],
)
def test_a_driver_name_maps_to_that_very_card_or_to_none(
    card: str, name: str | None, own_world: Path
) -> None:
    assert profiles.match_gpu_name(card) == name


# ---- the user's own ----------------------------------------------------------------------------------


def test_a_users_file_takes_the_place_of_a_shipped_one(own_world: Path) -> None:
    text = shipped_text("gpus", "rtx3060").replace("boost_ghz = 1.777", "boost_ghz = 1.9")
    path = own(own_world, "gpus", "rtx3060", text)
    gpu = profiles.load_gpu("rtx3060")
    assert (gpu.boost_ghz, gpu.origin) == (1.9, "user")
    assert gpu.notes.startswith("# RTX 3060"), "the shipped notes serve it"
    entry = next(entry for entry in profiles.list_gpus() if entry.name == "rtx3060")
    assert (entry.origin, entry.path) == ("user", path)
    path.with_suffix(".md").write_text("My card.", encoding="utf-8")
    assert profiles.load_gpu("rtx3060").notes == "My card."
    path.unlink()
    assert profiles.load_gpu("rtx3060").boost_ghz == 1.777


def test_a_users_new_card_and_model_are_found_like_the_others(own_world: Path) -> None:
    card = shipped_text("gpus", "rtx3060").replace('"rtx3060"', '"rtx3060ti"')
    own(own_world, "gpus", "rtx3060ti", card.replace('RTX 3060"', 'RTX 3060 Ti"'))
    own(own_world, "models", "mine", shipped_text("models", "qwen3-8b").replace('"qwen3-8b"', '"mine"'))
    assert profiles.match_gpu_name("NVIDIA GeForce RTX 3060 Ti") == "rtx3060ti"
    assert profiles.match_gpu_name("NVIDIA GeForce RTX 3060") == "rtx3060"
    assert profiles.load_model("mine").notes == ""
    assert "mine" in [entry.name for entry in profiles.list_models()]


def test_a_broken_file_is_listed_with_its_problem_and_disturbs_no_other(own_world: Path) -> None:
    own(own_world, "gpus", "broken", "name = \n")
    entry = next(entry for entry in profiles.list_gpus() if entry.name == "broken")
    assert entry.problem is not None and "broken.toml, line 1: not valid TOML" in entry.problem
    assert profiles.match_gpu_name("NVIDIA H200") == "h200"
    assert profiles.load_gpu("h200").name == "h200"


def test_a_file_anywhere_can_be_validated(tmp_path: Path, own_world: Path) -> None:
    for kind, name in (("gpus", "rtx4090"), ("models", "qwen3-8b")):
        path = tmp_path / f"{name}.toml"
        path.write_text(shipped_text(kind, name), encoding="utf-8")
        found = profiles.read_profile(path)
        shipped = profiles.load_gpu(name) if kind == "gpus" else profiles.load_model(name)
        assert found == dataclasses.replace(shipped, origin="user")  # type: ignore[type-var]


# ---- wrong files -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "line_of", "says"),
    [
        (("sms = 28", "sm = 28"), "[compute]", '"sms" is missing in [compute]; add sms = a whole number'),
        (
            ("ctas_sm = 16", "ctas_sm = 16\nctas = 3"),
            "ctas = 3",
            'unknown key "ctas" (did you mean "ctas_sm"?)',
        ),
        (("sms = 28", 'sms = "28"'), "sms", '"sms" is a text; it must be a whole number'),
        (("sms = 28", "sms = true"), "sms", '"sms" is true/false; it must be a whole number'),
        (("sms = 28", "sms = -28"), "sms", '"sms" is -28, which cannot be; use a whole number of at least 1'),
        (("boost_ghz = 1.777", "boost_ghz = 1777"), "boost_ghz", "use a number of at most 10"),
        (("boost_ghz = 1.777", "boost_ghz = nan"), "boost_ghz", "which cannot be; use a number above 0"),
        (("dram_gbs = 360.0", "dram_gbs = inf"), "dram_gbs", "which cannot be; use a number above 0"),
        (("dram_gbs = 360.0", "dram_gbs = 2024-01-01"), "dram_gbs", "is a date or time; it must be a number"),
        (
            ("smem_block_bytes = 101_376", "smem_block_bytes = 104_000"),
            "smem_block_bytes",
            '"smem_block_bytes" is 104,000, more than the 102,400 of the whole SM',
        ),
        (
            ("arch = 86", "arch = 75"),
            "arch",
            "sm_75 has no tensor cores in Triton; use a card of sm_80 or later",
        ),
        (("l2_bytes = 3_145_728", "l2_bytes = 16_000_000_000"), "l2_bytes", "not smaller than the memory"),
        (('name = "rtx3060"', 'name = "rtx3061"'), "name", "give both one lower-case name"),
        (('"mma_sync"]', '"mma_sinc"]'), "features", 'unknown feature "mma_sinc" (did you mean "mma_sync"?)'),
        (("bf16 = 25.5, ", ""), "tensor_tflops", '"bf16" is missing in [compute.tensor_tflops]'),
        (("bf16 = 25.5, ", "bf16 = 25.5, int8 = 1.0, "), "tensor_tflops", 'unknown key "int8"'),
        (('confidence = "published"', 'confidence = "sure"'), "confidence", 'use "published" or "measured"'),
        (
            ('kind = "scaled"', 'kind = "guessed"'),
            "kind",
            '"guessed"; use "measured" or "published" or "scaled"',
        ),
        (("[8192, 25.0]", "[8192, 250.0]"), "points", "use a number of at most 28.05"),
        (("[8192, 25.0]", "[512, 25.0]"), "points", "length 512 follows 4096"),
        (("[8192, 25.0]", "[8192]"), "points", "it must be [[length, TFLOP/s], …], lengths ascending"),
        (("read_fraction = 0.85", "read_fraction = 1.85"), "read_fraction", "use a number of at most 1"),
        (('source = "sysrqmts.com"', 'source = ""'), 'source = ""', '"source" is an empty text'),
        (("[memory]", "[memry]"), "", '"memory" is missing; add memory = { … } or a section of its own'),
        (("sms = 28", "sms = 28 28"), "sms", "not valid TOML"),
        (("sms = 28", "sms = 28\nsms = 29"), "sms = 29", "not valid TOML"),
    ],
)
def test_a_wrong_gpu_file_is_named_with_line_and_remedy(
    change: tuple[str, str], line_of: str, says: str, own_world: Path
) -> None:
    text = shipped_text("gpus", "rtx3060")
    assert change[0] in text
    text = text.replace(*change, 1)
    path = own(own_world, "gpus", "rtx3060", text)
    with pytest.raises(ProfileError) as refused:
        profiles.load_gpu("rtx3060")
    message = str(refused.value)
    assert says in message, message
    lines = text.splitlines()
    wanted = [number for number, line in enumerate(lines, 1) if line.startswith(line_of)]
    assert any(message.startswith(f"{path}, line {number}: ") for number in wanted), message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("Hkv = 8", "Hkv = 7"), '"Hkv" is 7, which does not divide the 32 query heads'),
        (("layers = 32", "layers = 30"), "name every layer that is not covered in [[not_covered]]"),
        (("D = 128", "D = 320"), "covered layers have a multiple of 8 up to 256"),
        (("D = 128", "D = 100"), "covered layers have a multiple of 8 up to 256"),
        (('dtype = "bf16"', 'dtype = "fp32"'), 'use "bf16" or "fp16"'),
        (("Hq = 32", "hq = 32"), '"Hq" is missing in [attention]'),
        (("[attention]", "[attention]\nscale = 0"), '"scale" is 0, which cannot be'),
    ],
)
def test_a_wrong_model_file_is_named_with_line_and_remedy(
    change: tuple[str, str], says: str, own_world: Path
) -> None:
    text = shipped_text("models", "llama-3.1-8b").replace(*change, 1)
    path = own(own_world, "models", "llama-3.1-8b", text)
    with pytest.raises(ProfileError) as refused:
        profiles.load_model("llama-3.1-8b")
    assert str(refused.value).startswith(f"{path}, line ")
    assert says in str(refused.value)


def test_files_that_are_no_text_or_too_large_are_refused(own_world: Path) -> None:
    path = own(own_world, "gpus", "odd", "")
    path.write_bytes(b"name = 'odd'\n\xff\xfe\n")
    with pytest.raises(ProfileError, match=r"odd\.toml, line 2: not UTF-8; save the file as UTF-8"):
        profiles.load_gpu("odd")
    path.write_bytes(b"#" * 1_000_001)
    with pytest.raises(ProfileError, match="larger than 1,000,000 B"):
        profiles.load_gpu("odd")
    path.write_text("a = " + "[" * 5000, encoding="utf-8")
    with pytest.raises(ProfileError, match="not valid TOML"):
        profiles.load_gpu("odd")
    path.unlink()
    path.mkdir()
    with pytest.raises(ProfileError, match=r"odd\.toml: cannot be read"):
        profiles.load_gpu("odd")
