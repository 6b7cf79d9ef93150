"""What the interpreter tells of that a card would do in another way."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

ROOT = Path(__file__).parents[2]

KERNELS = """
import json, os, sys
os.environ["TRITON_INTERPRET"] = "1"
sys.path.append("HARNESS")
import torch, triton, triton.language as tl
import hazards, interpreting
from triton.runtime.interpreter import InterpretedFunction

watch = hazards.Hazards()
interpreting.warm()
watch.install()
run = InterpretedFunction.run

def watched(fn, *args, **kwargs):
    plain = {k: v for k, v in kwargs.items() if k not in ("grid", "warmup")}
    watch.launching(fn.arg_names, args, plain)
    return run(fn, *args, **kwargs)

InterpretedFunction.run = watched

@triton.jit
def read(x, out, n, first, FILL: tl.constexpr):
    at = tl.arange(0, 16)
    inside = at < n
    if FILL:
        got = tl.load(x + first + at, mask=inside, other=0.0)
    else:
        got = tl.load(x + first + at, mask=inside)
    tl.store(out + at, got)

@triton.jit
def arithmetic(x, out, numbers, zero, far):
    tl.store(out + 0, 7 // zero + 1)
    tl.store(out + 1, 7 % zero)
    tl.store(out + 2, (zero * 0 + 1) << far)
    tl.store(out + 3, (zero * 0 + 8) >> far)
    tl.store(out + 4, tl.load(numbers).to(tl.int32))
    tl.store(x, tl.math.exp2(tl.load(numbers + 1)))
    tl.store(x + 1, tl.exp(tl.load(numbers + 1) * 0.69))

@triton.jit
def hints(out, begin, stride, GROUP: tl.constexpr, MULTIPLE: tl.constexpr, EQUAL: tl.constexpr):
    at = tl.max_contiguous(tl.multiple_of(begin + tl.arange(0, 16), MULTIPLE), GROUP)
    same = tl.max_constancy(at // 4, EQUAL)
    step = tl.multiple_of(stride, 8)
    tl.store(out + at, same + step)

def call(kernel, *args, varied=False, **kwargs):
    watch.begin(varied=varied)
    kernel[(1,)](*args, **kwargs)
    return watch.end()

def bits(t):
    return ["nan" if v != v else v for v in t.tolist()]

room, out = torch.ones(64), torch.zeros(16)
x = room[:20]
own = torch.ones(20)
ints, far = torch.zeros(64, dtype=torch.int32), 40
told = {}
told["masked"] = call(read, own, out, 10, 0, FILL=False), bits(out)
told["masked_varied"] = call(read, own, out, 10, 0, FILL=False, varied=True), bits(out)
told["filled"] = call(read, own, out, 10, 0, FILL=True), bits(out)
told["beyond"] = call(read, own, out, 16, 5, FILL=True), bits(out)
told["before"] = call(read, own, out, 16, -1, FILL=True), bits(out)
told["last"] = call(read, own, out, 16, 4, FILL=True), bits(out)
told["view"] = call(read, x, out, 16, 16, FILL=True), bits(out)
told["written"] = call(read, own, torch.zeros(12), 16, 0, FILL=True), []
two = torch.zeros(2)
told["sound"] = call(arithmetic, two, ints, torch.tensor([5.0, -3.0]), 1, 3), bits(two)
told["flushed"] = call(arithmetic, two, ints, torch.tensor([5.0, -140.0]), 1, 3), bits(two)
told["kept"] = call(arithmetic, two, ints, torch.tensor([5.0, -140.0]), 1, 3, varied=True), bits(two)
told["zero"] = call(arithmetic, two, ints, torch.tensor([5.0, 1.0]), 0, 3), []
told["far"] = call(arithmetic, two, ints, torch.tensor([5.0, 1.0]), 1, 32), []
told["large"] = call(arithmetic, two, ints, torch.tensor([3e9, 1.0]), 1, 3), []
told["nan"] = call(arithmetic, two, ints, torch.tensor([float("nan"), 1.0]), 1, 3), []
told["hints"] = call(hints, ints, 16, 24, GROUP=16, MULTIPLE=16, EQUAL=4), []
told["multiple"] = call(hints, ints, 8, 24, GROUP=16, MULTIPLE=16, EQUAL=4), []
told["constancy"] = call(hints, ints, 16, 24, GROUP=16, MULTIPLE=16, EQUAL=8), []
told["stride"] = call(hints, ints, 16, 20, GROUP=16, MULTIPLE=16, EQUAL=4), []
print(json.dumps(told))
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    path = tmp_path_factory.mktemp("hazards") / "kernels.py"
    path.write_text(KERNELS.replace("HARNESS", str(ROOT / "engine" / "harness")))
    ended = subprocess.run(
        [sys.executable, str(path)], capture_output=True, text=True, check=False, timeout=120,
        env={**os.environ, "TRITON_INTERPRET": "1"},
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr[-2000:]
    found: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return found


def test_lanes_masked_off_without_a_value_hold_something_else_each_time(told: dict[str, Any]) -> None:
    assert told["masked"] == [{}, [1.0] * 10 + ["nan"] * 6]
    found, values = told["masked_varied"]
    assert found == {} and values[:10] == [1.0] * 10 and min(values[10:]) > 1e38
    assert told["filled"] == [{}, [1.0] * 10 + [0.0] * 6]


def test_an_address_outside_the_memory_of_a_launch_is_told_with_its_tensor(told: dict[str, Any]) -> None:
    assert told["beyond"][0] == {"out_of_bounds": ["reads x at byte 80, of which there are 80"]}
    assert told["before"][0] == {"out_of_bounds": ["reads x at byte -4, of which there are 80"]}
    assert told["written"][0] == {"out_of_bounds": ["writes out at byte 48, of which there are 48"]}
    assert told["last"] == [{}, [1.0] * 16]
    assert told["view"] == [{}, [1.0] * 16], "memory beside a view may be read"


def test_exponentials_below_the_normal_numbers_are_zero_in_one_call_alone(told: dict[str, Any]) -> None:
    assert told["sound"][0] == {} and told["sound"][1][0] == 0.125
    assert told["flushed"] == [{}, [0.0, 0.0]]
    assert told["kept"][0] == {} and 0 < told["kept"][1][0] < 1e-38 and 0 < told["kept"][1][1] < 1e-38


@pytest.mark.parametrize(
    ("call", "texts"),
    [
        ("zero", ["divides an integer by zero"]),
        ("far", ["shifts 32 bits by 32"]),
        ("large", ["converts 3e+09 to int32"]),
        ("nan", ["converts nan to int32"]),
    ],
)
def test_an_operation_without_a_defined_result_is_told(
    told: dict[str, Any], call: str, texts: list[str]
) -> None:
    assert told[call][0] == {"undefined_operation": texts}


def test_a_hint_is_held_against_the_values(told: dict[str, Any]) -> None:
    assert told["hints"][0] == {}
    hint = {name: told[name][0]["false_hint"] for name in ("multiple", "constancy", "stride")}
    assert hint == {
        "multiple": ["multiple_of [16] is not true of the values"],
        "constancy": ["max_constancy [8] is not true of the values"],
        "stride": ["multiple_of [8] is not true of the values"],
    }
