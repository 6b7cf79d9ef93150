"""FlashAttention-2's estimated times against what was measured on one H200, and what is scaled from it."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from kernel_lab.engine.fa2 import fa2_time_us, prefill_tflops, split_count
from kernel_lab.engine.profiles import GpuProfile, load_gpu

CHAINED_US = 3.3
"""What a replay of its own costs against graphs that hold several calls, as the second table was timed."""


@pytest.fixture
def h200(own_world: object) -> GpuProfile:
    return load_gpu("h200")


def workload(
    batch: int, heads: tuple[int, int], lengths: tuple[int, int], dim: int, **rest: Any
) -> dict[str, Any]:
    shape = {"B": batch, "Hq": heads[0], "Hkv": heads[1], "Sq": lengths[0], "Sk": lengths[1], "D": dim}
    return {**shape, "dtype": "bf16", "causal": True, **rest}


@pytest.mark.parametrize(
    ("batch", "context", "measured_us"),
    [
        (1, 1024, 13.2),
        (1, 8192, 28.2),
        (1, 65_536, 89.2),
        (1, 131_072, 156),
        (16, 8192, 141),
        (64, 4096, 402),
        (128, 2048, 408),
    ],
)
def test_decode_on_an_h200_is_within_a_tenth_of_the_measured_time(
    h200: GpuProfile, batch: int, context: int, measured_us: float
) -> None:
    assert fa2_time_us(h200, workload(batch, (32, 8), (1, context), 128)) == pytest.approx(
        measured_us, rel=0.1
    )


@pytest.mark.parametrize(
    ("shape", "measured_us"),
    [
        # head dims and groups, decode
        ((1, (64, 8), (1, 32_768), 64), 33.4),
        ((64, (64, 8), (1, 4096), 64), 233.2),
        ((1, (24, 4), (1, 8192), 256), 30.3),
        ((8, (24, 4), (1, 8192), 256), 80.7),
        ((64, (16, 8), (1, 4096), 256), 483.5),
        ((32, (32, 8), (1, 2048), 128), 107.8),
        ((32, (32, 4), (1, 2048), 128), 44.5),
        ((8, (64, 4), (1, 8192), 128), 49.6),
        ((8, (32, 16), (1, 8192), 128), 133.6),
        # several queries: heads are no longer packed
        ((4, (32, 8), (4, 8192), 128), 120.1),
        ((1, (24, 4), (8, 32_768), 256), 186.2),
        ((4, (64, 8), (4, 8192), 64), 230.0),
        # few CTAs, chunks, odd head dims in prefill
        ((1, (32, 8), (512, 512), 128), 21.2),
        ((1, (32, 8), (2048, 2048), 128), 164.8),
        ((1, (32, 8), (512, 8192), 128), 233.8),
        ((1, (32, 8), (2048, 8192), 128), 751.8),
        ((8, (32, 8), (64, 2048), 128), 107.2),
        ((4, (32, 8), (4096, 4096), 80), 1369.0),
        ((4, (32, 8), (4096, 4096), 96), 1295.0),
    ],
)
def test_other_shapes_on_an_h200_are_within_15_percent(
    h200: GpuProfile, shape: tuple[int, tuple[int, int], tuple[int, int], int], measured_us: float
) -> None:
    estimate = fa2_time_us(h200, workload(*shape)) - CHAINED_US
    assert estimate == pytest.approx(measured_us, rel=0.15)


@pytest.mark.parametrize(
    ("length", "tflops"), [(512, 189), (1024, 263), (2048, 304), (8192, 326), (16_384, 331)]
)
def test_full_grids_run_at_the_rate_of_the_curve(h200: GpuProfile, length: int, tflops: float) -> None:
    time_us = fa2_time_us(h200, workload(16_384 // length, (32, 8), (length, length), 128))
    flops = 4 * 16_384 // length * 32 * 128 * length * (length + 1) / 2
    assert flops / time_us / 1e6 == pytest.approx(tflops, rel=0.04)


def test_ragged_lengths_cost_what_the_longest_does_and_not_more_than_full_ones(h200: GpuProfile) -> None:
    lengths = [4352, 1419, 6165, 3232, 7978, 5045, 2111, 6858, 3924, 991, 5737, 2804, 7550, 4617, 1683, 6430]
    ragged = fa2_time_us(h200, workload(16, (32, 8), (1, 8192), 128, seq_lens=lengths)) - CHAINED_US
    full = fa2_time_us(h200, workload(16, (32, 8), (1, 8192), 128, seq_lens=[8192] * 16)) - CHAINED_US
    assert ragged == pytest.approx(131.2, rel=0.1)
    assert full == pytest.approx(145.4, rel=0.1)
    assert ragged < full


def test_empty_sequences_still_cost_a_launch(h200: GpuProfile) -> None:
    empty = fa2_time_us(h200, workload(2, (32, 8), (1, 64), 128, seq_lens=[0, 0]))
    assert 5 < empty < 20


def test_splits_follow_the_rule_of_the_library() -> None:
    assert split_count(512, 264, 32) == 1, "enough units"
    assert split_count(128, 264, 64) == 2
    assert split_count(8, 264, 64) == 32
    assert split_count(8, 264, 512) == 29, "the fewest whose waves are 85 % as full as the best"
    assert split_count(8, 264, 1) == 1, "one block of keys cannot be cut"


def test_curves_are_interpolated_in_the_logarithm_and_level_at_the_end(h200: GpuProfile) -> None:
    between = prefill_tflops(h200, 128, True, 1448)
    assert between == pytest.approx((263 + 304) / 2, rel=0.01)
    assert prefill_tflops(h200, 128, True, 131_072) == 331
    assert prefill_tflops(h200, 128, True, 16) == pytest.approx(128 / 3), "not below a third of the shortest"
    assert prefill_tflops(h200, 80, False, 4096) == pytest.approx(329 * 80 / 96), "runs as head dim 96"


def test_a_measured_point_outweighs_a_scaled_one(h200: GpuProfile) -> None:
    scaled = dataclasses.replace(h200.fa2.prefill[1], kind="scaled", points=((1024, 1.0), (3000, 310.0)))
    fa2 = dataclasses.replace(h200.fa2, prefill=(*h200.fa2.prefill, scaled))
    gpu = dataclasses.replace(h200, fa2=fa2)
    assert prefill_tflops(gpu, 128, True, 1024) == 263
    assert prefill_tflops(gpu, 128, True, 3000) == 310


def test_an_rtx_3060_gets_the_scaled_rates_and_its_own_memory(own_world: object) -> None:
    gpu = load_gpu("rtx3060")
    assert prefill_tflops(gpu, 128, False, 8192) == 25.0
    assert prefill_tflops(gpu, 128, True, 8192) == 22.0
    one = fa2_time_us(gpu, workload(1, (32, 8), (1, 8192), 128))
    assert 93 < one < 140, "the read alone takes 93 µs at 360 GB/s"
    causal = fa2_time_us(gpu, workload(2, (32, 8), (8192, 8192), 128))
    flops = 4 * 2 * 32 * 128 * 8192 * 8193 / 2
    assert flops / causal / 1e6 == pytest.approx(22.0, rel=0.05)


@pytest.mark.parametrize("name", ["rtx3060", "rtx3090", "rtx4090", "rtx5090", "a100", "l40s", "h100", "b200"])
def test_no_estimate_beats_the_card(name: str, own_world: object) -> None:
    gpu = load_gpu(name)
    for batch in (1, 4, 32, 128):
        for queries, keys in ((1, 1024), (1, 8192), (4, 8192), (512, 512), (512, 8192), (4096, 4096)):
            for dim in (64, 80, 96, 128, 192, 256):
                time_us = fa2_time_us(gpu, workload(batch, (32, 8), (queries, keys), dim))
                read_us = 2 * 2 * batch * 8 * keys * dim / (gpu.dram_gbs * 1e9) * 1e6
                scores = queries * (keys - queries) + queries * (queries + 1) / 2
                math_us = 4 * batch * 32 * dim * scores / (1.05 * gpu.tensor_tflops["bf16"] * 1e6)
                assert time_us > max(read_us, math_us)
