"""What a veto's probe fits: code with holes, looked for in a candidate's syntax tree."""

from __future__ import annotations

import pytest
from kernel_lab.engine.errors import UsageError
from kernel_lab.engine.facts import Reason
from kernel_lab.engine.judge.veto_probe import VetoProbe, lines_of, look, parse_pattern

SOURCE = """\
import torch

def attention(q, k, v, *, causal, scale):
    out = torch.empty_like(q, memory_format=torch.contiguous_format)
    if q.shape[0] == 4:
        last = k[:, :, -64:]
        return out
    kernel[(1, 2)](q, k, v, out, BLOCK=64, num_warps=4)
    return out
"""


@pytest.mark.parametrize(
    ("pattern", "lines"),
    [
        ("torch.empty_like(_)", [4]),
        ("torch.empty_like(_, memory_format=_)", [4]),
        ("torch.empty_like(_, dtype=_)", []),
        ("torch.empty_like()", []),
        ("torch.zeros_like(_)", []),
        ("_[:, :, -64:]", [6]),
        ("_[:, -64:]", []),
        ("if _.shape[0] == _: ...", [5]),
        ("if _.shape[1] == _: ...", []),
        ("kernel[_](..., num_warps=4)", [8]),
        ("kernel[_](q, ..., out)", [8]),
        ("kernel[_](q, ..., q)", []),
        ("_[_](..., BLOCK=64)", [8]),
        ("return out", [7, 9]),
        ("4", [5, 8]),
        ("-64", [6]),
    ],
)
def test_a_pattern_fits_the_code_that_it_describes(pattern: str, lines: list[int]) -> None:
    assert lines_of(pattern, SOURCE) == lines


@pytest.mark.parametrize("pattern", ["", "_", "...", "a; b", "def (", "x" * 501, "\0", "(" * 400])
def test_what_describes_nothing_is_refused_in_one_line(pattern: str) -> None:
    with pytest.raises(UsageError, match="probe"):
        parse_pattern(pattern)


def test_the_reason_names_the_veto_and_the_line() -> None:
    probes = (VetoProbe(7, "torch.empty_like(_)"), VetoProbe(9, "torch.zeros(_)"))
    detail = "line 4: #7 was vetoed for this: torch.empty_like(_)"
    assert look(probes, SOURCE) == (Reason("lint", "veto_probe", detail),)


def test_a_text_that_is_no_candidate_fits_nothing() -> None:
    assert lines_of("a", "def (") == []
    assert lines_of("a", "x = " + "(" * 500) == []
