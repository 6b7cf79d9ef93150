"""Estimates for a card that is not there, beside what one H200 measured.

Here five of the ten plain tilings of the naive table are compiled, those with EXP2, which the clock prefers
on every row; `tests/gpu/model_agreement.py` takes all of them, and the 320 drawn configurations.
"""

from __future__ import annotations

import importlib.util
import math
import sys
from pathlib import Path
from types import ModuleType

import pytest
from kernel_lab.engine.hostlink import HostLink

SCRIPT = Path(__file__).parents[1] / "gpu" / "model_agreement.py"
FURTHEST_OFF = 0.20


@pytest.fixture(scope="module")
def agreement() -> ModuleType:
    spec = importlib.util.spec_from_file_location("model_agreement", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the host needs Linux")
async def test_the_naive_table_of_an_h200_is_reproduced_within_20_percent(
    agreement: ModuleType, tmp_path: Path
) -> None:
    host = HostLink(sys.executable, tmp_path / "cache", tmp_path / "scratch")
    try:
        rows = await agreement.naive(agreement.Estimator(host), lambda config: config["EXP2"])
    finally:
        await host.close()
    assert len(rows) == 12
    off = {row.workload: round(row.ratio, 3) for row in rows if abs(row.ratio - 1) > FURTHEST_OFF}
    assert off == {}


def test_equal_values_share_their_rank_and_order_alone_decides(agreement: ModuleType) -> None:
    assert agreement.ranks([3.0, 1.0, 3.0]) == [1.5, 0.0, 1.5]
    assert agreement.spearman([1, 2, 3, 4], [10, 20, 30, 1000]) == pytest.approx(1.0)
    assert agreement.spearman([1, 2, 3, 4], [4, 3, 2, 1]) == pytest.approx(-1.0)
    assert math.isnan(agreement.spearman([1, 2, 3], [5, 5, 5]))


def test_regret_is_what_the_clock_says_of_the_model_s_choice(agreement: ModuleType) -> None:
    row = agreement.space_row("w", [100.0, 110.0, 130.0, 200.0], [95.0, 90.0, 140.0, 210.0])
    assert (row.configs, row.regret) == (4, pytest.approx(0.1))
    assert row.spearman == pytest.approx(0.8)
    assert row.ratio == pytest.approx((0.95 + 1.05) / 2)


def test_a_naive_row_takes_the_best_of_each_side(agreement: ModuleType) -> None:
    row = agreement.naive_row("w", [100.0, 90.0], [80.0, 120.0])
    assert (row.ratio, row.chosen_us) == (pytest.approx(80 / 90), 100.0)
