"""Samples of real launches: lazily mapped inputs, which loops store, and which programs reach an address.

How they catch a kernel that is right on small grids alone is shown with the battery (tests/e2e).
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("triton")
HARNESS = Path(__file__).parents[2] / "engine" / "harness"
sys.path.append(str(HARNESS))

import patterns  # noqa: E402 (the harness imports its modules by name from its own folder)
import samples  # noqa: E402

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the host needs Linux")
LAYOUT: dict[str, dict[str, Any]] = {
    name: {
        "shape": [2, 3, 1000, 64],
        "strides": [192_000, 64_000, 64, 1],
        "offset": 0,
        "dtype": "float16",
        "storage": number,
        "storage_bytes": 768_000,
    }
    for number, name in enumerate("qk")
} | {"lens": {"shape": [2], "strides": [1], "offset": 0, "dtype": "int32", "storage": 2, "storage_bytes": 8}}


@pytest.fixture(scope="module")
def pattern() -> Iterator[int]:
    descriptor = os.memfd_create("pattern")
    os.ftruncate(descriptor, patterns.CHUNKS * patterns.CHUNK_BYTES)
    patterns.fill(descriptor, 5)
    yield descriptor
    os.close(descriptor)


def test_two_processes_map_the_same_inputs_from_an_order_and_writing_stays_private(pattern: int) -> None:
    order = patterns.orders(LAYOUT, random.Random(1))
    ours, theirs = (patterns.Arena(pattern).inputs(LAYOUT, order, {"lens": [7, 900]}) for _ in range(2))
    assert ours["q"].shape == (2, 3, 1000, 64) and ours["lens"].tolist() == [7, 900]
    assert ours["lens"].dtype == torch.int32
    assert all(torch.equal(ours[name], theirs[name]) for name in LAYOUT)
    assert 0.95 < float(ours["q"].float().std()) < 1.05
    ours["q"].zero_()
    assert float(theirs["q"].float().std()) > 0.9
    again = patterns.Arena(pattern).inputs(LAYOUT, order, {"lens": [7, 900]})
    assert torch.equal(again["q"], theirs["q"])


def test_queries_and_keys_share_no_numbers(pattern: int) -> None:
    order = patterns.orders(LAYOUT, random.Random(2))
    assert not set(order["0"]) & set(order["1"])
    assert len(order["0"]) == 3 and len(order["2"]) == 1


def test_inputs_that_do_not_fit_are_told_before_they_are_mapped() -> None:
    assert patterns.room_for(LAYOUT)
    huge = {**LAYOUT, "k": {**LAYOUT["k"], "storage_bytes": patterns.ROOM_BYTES}}
    assert not patterns.room_for(huge)


KERNELS = """
def put(out, x):
    tl.store(out, x)

def load_rows(p):
    return tl.load(p)

def kernel(q, out, n):
    for tile in range(tl.program_id(0), n, 4):
        acc = 0
        for start in range(
            0, n
        ):
            acc += load_rows(q)
        put(out, acc)
    for other in range(3):
        out += 1
"""


def test_loops_that_store_are_told_from_loops_that_do_not(tmp_path: Path) -> None:
    path = tmp_path / "candidate.py"
    path.write_text(KERNELS)
    first = KERNELS.splitlines().index("    for tile in range(tl.program_id(0), n, 4):") + 1
    assert samples._storing_loops(str(path)) == {first}


@pytest.mark.parametrize(
    "digits",
    [[(1, 64, 8)], [(1, 8, 4096), (8, 8, -16)], [(1, 5, 100), (5, 3, 7), (15, 4, 100_000)], [(1, 64, 0)]],
)
def test_the_pattern_of_an_axis_is_found_from_a_few_programs(digits: list[tuple[int, int, int]]) -> None:
    count = digits[-1][0] * digits[-1][1]
    asked = []

    def place(program: tuple[int, int, int]) -> int:
        asked.append(program)
        return 10**6 + sum(program[1] // unit % radix * step for unit, radix, step in digits)

    found = samples.Sampler._along(1, count, 10**6, place)
    assert found is not None
    assert [10**6 + int(n) for n in found] == [place((0, p, 0)) for p in range(count)]
    assert len(asked) - count < 30


INTERPRETED = """
import sys
sys.path.insert(0, sys.argv[1])
import torch, triton, triton.language as tl
import interpreting
plain = "fast" not in sys.argv
if not plain:
    interpreting.warm()

@triton.jit
def double(x):
    return x * 2.0 + tl.sum(x, 1)[:, None]

@triton.jit
def kernel(a, b, out, D: tl.constexpr):
    rows = tl.arange(0, 16)[:, None] * D + tl.arange(0, D)[None, :]
    x, y = tl.load(a + rows), tl.load(b + rows)
    acc = tl.zeros([16, 16], tl.float32)
    for _ in range(2):
        acc = tl.dot(x, tl.trans(y), acc)
    tl.store(out + tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16)[None, :], double(acc))

torch.manual_seed(0)
a, b = (torch.randn(16, 32).half() for _ in range(2))
out = torch.empty(16, 16)
for _ in range(2):
    kernel[(1,)](a, b, out, D=32)
right = 2 * (a.double() @ b.double().T)
print(float((out - (2 * right + right.sum(1, keepdim=True))).abs().max()))
"""


@pytest.mark.parametrize("how", ["plain", "fast"])
def test_the_interpreter_made_fast_gives_the_same_answers(tmp_path: Path, how: str) -> None:
    script = tmp_path / "interpreted.py"
    script.write_text(INTERPRETED)
    done = subprocess.run(
        [sys.executable, str(script), str(HARNESS), how],
        env={**os.environ, "TRITON_INTERPRET": "1"}, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 1e-3
