"""The parts of the static time model, each against what can be worked out by hand."""

from __future__ import annotations

import random
from typing import Any

import pytest
from kernel_lab.engine.harness.model import (
    arch,
    issue,
    match,
    memory,
    predict,
    program,
    sass,
    schedule,
    trace,
    ttir,
)
from kernel_lab.engine.harness.model.evaluate import Run

AMPERE = arch.ARCHS[86]
HOPPER = arch.ARCHS[90]


def kernel(body: str, args: str = "%n: i32, %p: !tt.ptr<f16>, %lens: !tt.ptr<i32>") -> dict[str, Any]:
    head = f"module {{\n  tt.func public @k({args}) attributes {{noinline = false}} {{\n"
    text = f"{head}{body}\n    tt.return\n  }}\n}}"
    return program.build(ttir.parse(text))


def run_of(built: dict[str, Any], which: str = "control", **args: Any) -> Run:
    tables = {"lens": (args.pop("lens"), 4)} if "lens" in args else {}
    values = {"p": ("p", "p", 0), "lens": ("p", "lens", 0), **args}
    return Run(built[which], built["blocks"], values, tables, {"keys": 1000, "grid": (8, 4, 1)})


LOOP = """
    %c0 = arith.constant 0 : i32
    %c64 = arith.constant 64 : i32
    %pid = tt.get_program_id x : i32
    %end0 = arith.muli %pid, %c64 : i32
    %end = arith.minsi %end0, %n : i32
    scf.for %i = %c0 to %end step %c64  : i32 {
      %x = math.exp2 %y : tensor<16x64xf32>
    }"""


@pytest.mark.parametrize(("pid", "trips"), [(0, 0), (1, 1), (3, 3), (7, 4)])
def test_trip_counts_follow_the_program_id_and_the_arguments(pid: int, trips: int) -> None:
    built = kernel(LOOP)
    assert built["blocks"][1]["exp"] == 16 * 64
    assert run_of(built, n=200).count((pid, 0, 0))[1] == trips


def test_names_that_regions_share_do_not_mix() -> None:
    built = kernel("""
    %c0 = arith.constant 0 : i32
    %c2 = arith.constant 2 : i32
    %r = scf.while (%i = %c0) : (i32) -> (i32) {
      %5 = arith.cmpi slt, %i, %n : i32
      scf.condition(%5) %i : i32
    } do {
    ^bb0(%i: i32):
      %5 = arith.addi %i, %c2 : i32
      scf.yield %5 : i32
    }""")
    run = run_of(built, n=11)
    assert run.count((0, 0, 0))[1] == 6
    assert not run.assumed


def test_a_branch_inside_a_loop_is_counted_by_where_the_loop_stands() -> None:
    built = kernel(
        """
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    scf.for %i = %c0 to %n step %c1  : i32 {
      %late = arith.cmpi sge, %i, %c7 : i32
      scf.if %late {
        %x = math.exp2 %y : tensor<16xf32>
      }
    }""".replace("%c1 = ", "%c7 = arith.constant 7 : i32\n    %c1 = ", 1)
    )
    assert run_of(built, n=10).count((0, 0, 0))[1:3] == [10, 3]
    long = run_of(built, n=1000).count((0, 0, 0))
    assert long[1] == 1000
    assert long[2] == pytest.approx(993, abs=1)


def test_a_persistent_loop_counts_the_inner_trips_of_each_tile() -> None:
    built = kernel("""
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %pid = tt.get_program_id x : i32
    %step = tt.get_num_programs x : i32
    scf.for %tile = %pid to %n step %step  : i32 {
      scf.for %k = %c0 to %tile step %c1  : i32 {
        %x = math.exp2 %y : tensor<16xf32>
      }
    }""")
    counts = run_of(built, n=30).count((2, 0, 0))  # tiles 2, 10, 18, 26 on a grid of 8
    assert counts[1] == 4
    assert counts[2] == 2 + 10 + 18 + 26


def test_loaded_lengths_are_looked_up_and_unknown_ones_bounded_and_named() -> None:
    built = kernel("""
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %b = tt.get_program_id y : i32
    %at = tt.addptr %lens, %b : !tt.ptr<i32>, i32
    %end = tt.load %at : !tt.ptr<i32>
    scf.for %i = %c0 to %end step %c1  : i32 {
      %x = tt.load %q : tensor<64x128x!tt.ptr<f16>>
    }""")
    assert run_of(built, lens=[5, 0, 77]).count((0, 2, 0))[1] == 77
    unknown = run_of(built)
    assert unknown.count((0, 2, 0))[1] == 16  # 1000 keys, 64 at a time
    assert len(unknown.assumed) == 1


def test_a_loop_that_squares_its_counter_ends_quickly() -> None:
    built = kernel("""
    %c0 = arith.constant 0 : i32
    %c3 = arith.constant 3 : i32
    %r = scf.while (%i = %c3) : (i32) -> (i32) {
      %go = arith.cmpi sgt, %i, %c0 : i32
      scf.condition(%go) %i : i32
    } do {
    ^bb0(%i: i32):
      %j = arith.muli %i, %i : i32
      scf.yield %j : i32
    }""")
    assert run_of(built).count((0, 0, 0))[1] >= 1


ADDRESSES = """
    %c0 = arith.constant 0 : i32
    %c64 = arith.constant 64 : i32
    %c4 = arith.constant 4 : i32
    %head = tt.get_program_id x : i32
    %group = arith.divsi %head, %c4 : i32
    %off = arith.muli %group, %n : i32
    %base = tt.addptr %p, %off : !tt.ptr<f16>, i32
    %rows = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32>
    scf.for %i = %c0 to %n step %c64  : i32 {
      %s = tt.addptr %base, %i : !tt.ptr<f16>, i32
      %v = tt.splat %s : !tt.ptr<f16> -> tensor<64x!tt.ptr<f16>>
      %q = tt.addptr %v, %rows : tensor<64x!tt.ptr<f16>>, tensor<64xi32>
      %x = tt.load %q : tensor<64x!tt.ptr<f16>>
    }"""


def test_addresses_reach_from_the_first_tile_to_the_end_of_the_last() -> None:
    run = run_of(kernel(ADDRESSES), "address", n=640)
    [(_, argument, low, high, live)] = run.reach((5, 0, 0))
    assert (argument, low, high, live) == ("p", 1280, 2 * 1280 - 2, 1.0)


def test_heads_of_a_group_share_their_bytes_and_groups_do_not() -> None:
    run = run_of(kernel(ADDRESSES), "address", n=640)
    found = memory.estimate(
        lambda cta: run.reach((cta, 0, 0)), [8 * 1280.0], {0}, 8, 8, 1e6, {"p": 2 * 1280.0}, stored=100.0
    )
    assert found.requested == 8 * 1280
    assert found.dram == pytest.approx(2 * 1280 + 100, rel=0.01)


def test_heads_that_do_not_run_together_read_again_when_l2_is_small() -> None:
    def reach(cta: int) -> list[tuple[int, Any, float, float, float]]:
        return [(0, "k", 0.0, 999_999.0, 1.0)]  # all read the same megabyte

    def dram(l2_bytes: float) -> float:
        return memory.estimate(reach, [32e6], {0}, 32, 4, l2_bytes, {"k": 1e6}, 0.0).dram

    assert dram(60e6) == pytest.approx(1e6, rel=0.01)
    assert dram(0.5e6) == pytest.approx(8e6, rel=0.05)  # eight waves of four


def test_loads_behind_the_end_of_a_sequence_are_not_read() -> None:
    built = kernel(
        ADDRESSES.replace("tt.load %q", "tt.load %q, %m").replace(
            "      %s = ",
            "      %r = arith.addi %i, %c0 : i32\n      %in = arith.cmpi slt, %r, %len : i32\n"
            "      %m = tt.splat %in : i1 -> tensor<64xi1>\n      %s = ",
        ),
        "%n: i32, %p: !tt.ptr<f16>, %len: i32",
    )
    [(*_, live)] = run_of(built, "address", n=6400, len=3200).reach((0, 0, 0))
    assert live == pytest.approx(0.5, abs=0.03)


def listing(*lines: str) -> str:
    out = []
    for line in lines:
        out.append(line if line.startswith(".L") else f"        /*{16 * len(out):04x}*/   {line} ;")
    return "\n".join(out)


def cycles(
    lines: list[str], warps: int, ctas: int = 1, gpu: arch.Arch = AMPERE, latency: float = 230.0
) -> float:
    """Cycles of one pass of a loop over `lines`."""
    code = sass.parse(listing(".L_x_0:", *lines, "@P0 BRA `(.L_x_0)", "STG.E [R2.64], R0", "EXIT"), gpu)
    assert len(code.loops) == 1
    return issue.run(code, trace.build(code, {0}), warps, ctas, 64, gpu, latency).steady[0]


def test_independent_multiply_adds_issue_one_a_clock_and_dependent_ones_wait() -> None:
    free = [f"FFMA R{10 + i}, R1, R2, R3" for i in range(64)]
    chain = ["FFMA R10, R10, R2, R3"] * 64
    assert cycles(free, warps=16) == pytest.approx(4 * 64, rel=0.1)
    assert cycles(chain, warps=4) == pytest.approx(64 * AMPERE.lat_alu, rel=0.1)


def test_special_functions_take_eight_cycles_a_warp() -> None:
    assert cycles([f"MUFU.EX2 R{10 + i}, R1" for i in range(32)], warps=16) == pytest.approx(
        4 * 32 * 8, rel=0.1
    )


def test_more_warps_hide_the_latency_of_loads() -> None:
    body = ["LDG.E.128 R4, [R2.64]", "FADD R8, R4, R5"]
    assert cycles(body, warps=4) > 230
    assert cycles(body, warps=32) / 8 < 0.3 * cycles(body, warps=4)


def test_tensor_instructions_run_at_the_card_s_rate() -> None:
    body = [f"HMMA.16816.F32 R{8 * i}, R200, R204, R{8 * i}" for i in range(16)]
    assert cycles(body, warps=8) == pytest.approx(2 * 16 * 2048 / 64, rel=0.05)


def test_async_copies_of_the_next_block_overlap_and_those_of_this_one_do_not() -> None:
    math_ = ["FFMA R10, R10, R2, R3"] * 120
    copies = ["LDGSTS.E.128 [R4], [R2.64]", "LDGDEPBAR"]
    chain = 120 * AMPERE.lat_alu
    ahead = cycles([*copies, "DEPBAR.LE SB0, 0x1", *math_], warps=4, latency=500)
    now = cycles([*copies, "DEPBAR.LE SB0, 0x0", *math_], warps=4, latency=500)
    assert ahead < chain + 100
    assert now > chain + 480


def test_wgmma_of_one_warpgroup_runs_while_the_other_computes() -> None:
    body = [
        *["HGMMA.64x128x16.F32.BF16 R24, gdesc[UR8], R24"] * 7,
        "HGMMA.64x128x16.F32.BF16 R24, gdesc[UR8], R24, gsb0",
        "WARPGROUP.DEPBAR.LE gsb0, 0x0",
        *["FFMA R10, R10, R2, R3"] * 100,
    ]

    def time(warps: int) -> float:
        code = sass.parse(listing(".L_x_0:", *body, "@P0 BRA `(.L_x_0)", "STG.E [R2.64], R0", "EXIT"), HOPPER)
        return issue.run(code, trace.build(code, {0}), warps, 1, 512, HOPPER, 300.0).steady[0]

    assert time(4) == pytest.approx(8 * 64 + HOPPER.lat_wgmma + 100 * HOPPER.lat_alu, rel=0.1)
    assert time(8) < 1.35 * time(4)


def test_waits_that_spin_and_traps_are_no_loops() -> None:
    code = sass.parse(
        listing(
            "MOV R1, R2",
            ".L_x_1:",
            "HMMA.16816.F32 R8, R200, R204, R8",
            "SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR6], R2",
            "@!P0 BRA `(.L_x_3)",
            ".L_x_2:",
            "@P1 BRA `(.L_x_1)",
            "STG.E [R2.64], R0",
            "EXIT",
            ".L_x_3:",
            "SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR6], R2",
            "@!P0 BRA `(.L_x_3)",
            "BRA `(.L_x_2)",
            ".L_x_4:",
            "BRA `(.L_x_4)",
        ),
        HOPPER,
    )
    assert [(loop.first, loop.last) for loop in code.loops] == [(1, 4)]


def test_an_unrolled_loop_is_matched_with_its_factor() -> None:
    blocks = kernel("""
    scf.for %i = %c0 to %n step %c1  : i32 {
      %d = tt.dot %a, %b, %c : tensor<64x64xf16> * tensor<64x64xf16> -> tensor<64x64xf32>
    }""")["blocks"]
    per_pass = 64 * 64 * 64 // 2048 // 4  # instructions of each of four warps
    lines = ["HMMA.16816.F32 R8, R200, R204, R8"] * (4 * per_pass)
    code = sass.parse(listing(".L_x_0:", *lines, "@P0 BRA `(.L_x_0)", "STG.E [R2.64], R0", "EXIT"), AMPERE)
    found, unroll, flat = match.align(blocks, code, 4)
    assert (found, unroll, flat) == ({1: 0}, {1: 4}, set())


def test_equal_programs_fill_the_sms_in_waves() -> None:
    span, busy = schedule.makespan([10.0] * 9, 9, 4, 1, [1.0])
    assert span == 30
    assert busy == pytest.approx(0.75)


def test_two_programs_on_an_sm_share_its_pace() -> None:
    assert schedule.makespan([10.0] * 4, 4, 2, 2, [1.0, 2.0])[0] == 20
    assert schedule.makespan([10.0] * 4, 4, 2, 2, [1.0, 1.2])[0] == 12
    # The last one runs alone on its SM, at full pace.
    assert schedule.makespan([10.0] * 3, 3, 2, 2, [1.0, 2.0])[0] == 20


def test_long_programs_first_make_a_shorter_tail() -> None:
    works = [float(n) for n in range(1, 33)]
    short_first = schedule.makespan(works, 32, 4, 1, [1.0])[0]
    long_first = schedule.makespan(works[::-1], 32, 4, 1, [1.0])[0]
    assert long_first < short_first
    assert long_first >= sum(works) / 4


def test_a_large_grid_is_sampled_without_a_bias() -> None:
    dice = random.Random(1)
    works = [10.0 + 40.0 * (i % 64) / 64 + dice.random() for i in range(16_384)]
    chosen = schedule.pick(len(works))
    assert len(chosen) == schedule.MAX_CTAS
    exact = schedule.makespan(works, len(works), 132, 2, [1.0, 1.9])[0]
    sampled = schedule.makespan([works[i] for i in chosen], len(works), 132, 2, [1.0, 1.9])[0]
    assert sampled == pytest.approx(exact, rel=0.04)


def test_tensor_rates_follow_from_the_profile() -> None:
    card = {"sms": 28, "boost_ghz": 1.777, "tensor_tflops": {"fp16": 25.5, "fp16_acc16": 51.0, "bf16": 25.5}}
    assert arch.tensor_fma_clk(card, "f16", "f32") == 64
    assert arch.tensor_fma_clk(card, "f16", "f16") == 128
    hopper = {"sms": 132, "boost_ghz": 1.98, "tensor_tflops": {"bf16": 989.0, "fp8": 1979.0}}
    assert arch.tensor_fma_clk(hopper, "bf16", "f32") == 512
    assert arch.tensor_fma_clk(hopper, "f8E4M3FN", "f32") == 1024


def test_bytes_of_masked_loads_count_every_sequence_and_not_only_the_neighbours_looked_at() -> None:
    lengths = [1.0 if i in (4, 5, 10, 11) else 0.1 for i in range(16)]  # sequences of eight programs each

    def reach(cta: int) -> list[tuple[int, str, float, float, float]]:
        return [(0, "k", cta * 1e6, cta * 1e6 + 1e6 - 1, lengths[cta // 8])]

    found = memory.estimate(reach, [128e6], {0}, 128, 112, 3e6, {"k": 128e6}, 0.0)
    assert found.requested == pytest.approx(128e6 * sum(lengths) / 16, rel=0.01)


def test_a_launch_that_waits_longer_than_memory_takes_is_bound_by_latency() -> None:
    parts = {"pipes_us": {"tensor": 20.0}, "schedule_us": 140.0, "dram_us": 100.0, "l2_us": 30.0}
    assert predict._bound(150.0, parts) == "latency"
    assert predict._bound(150.0, {**parts, "dram_us": 130.0}) == "dram"
