"""The lint against a corpus: every cheat is caught by its rule, no honest kernel raises an alarm."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_lab.engine.candidate import parse
from kernel_lab.engine.facts import Reason
from kernel_lab.engine.judge.lint import RULES, lint, lint_verdict

CORPUS = Path(__file__).parents[1] / "lint_corpus"
CHEATS = sorted((CORPUS / "cheats").glob("*.py"))
HONEST = sorted((CORPUS / "honest").glob("*.py"))
SHIPPED = sorted((Path(__file__).parents[2] / "kernels").glob("*/candidate.py"))


def entry_of(source: str) -> str:
    return "decode" if "\ndef decode(" in source else "attention"


def found(source: str) -> list[Reason]:
    return lint(source, entry_of(source))


def rule_of(source: str) -> str:
    return source.splitlines()[0].removeprefix("# rule: ")


@pytest.mark.parametrize("path", CHEATS, ids=lambda path: path.stem)
def test_a_cheat_is_caught_by_its_rule(path: Path) -> None:
    source = path.read_text()
    parse(source, entry_of(source))  # turned down for what it does, not for being no candidate
    reasons = found(source)
    rule = rule_of(source)
    assert rule in [reason.probe for reason in reasons]
    if RULES[rule].kind == "cheat":
        assert lint_verdict(reasons) == "cheat"
    for reason in reasons:
        assert reason.gate == "lint"
        what = re.fullmatch(r"line (\d+): (.+)", reason.detail)
        assert what is not None
        assert 1 <= int(what[1]) <= len(source.splitlines())
        assert what[2].endswith(RULES[reason.probe].instead)


@pytest.mark.parametrize("path", [*HONEST, *SHIPPED], ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_an_honest_kernel_raises_no_alarm(path: Path) -> None:
    source = path.read_text()
    parse(source, entry_of(source))
    assert found(source) == []


def test_the_corpus_covers_every_rule() -> None:
    assert len(CHEATS) >= 90
    assert len(HONEST) >= 15
    assert len(SHIPPED) == 2
    assert {rule_of(path.read_text()) for path in CHEATS} == set(RULES)


def test_what_is_merely_not_allowed_is_invalid_and_no_cheat() -> None:
    for path in CHEATS:
        source = path.read_text()
        if RULES[rule_of(source)].kind == "invalid":
            assert lint_verdict(found(source)) == "invalid", path.stem


def test_a_finding_names_line_reason_and_remedy() -> None:
    source = next(path for path in CHEATS if path.stem == "torch_matmul").read_text()
    line = next(n for n, text in enumerate(source.splitlines(), 1) if "softmax" in text)
    reason = found(source)[0]
    assert reason.probe == "torch_compute"
    assert reason.detail.startswith(f"line {line}: torch.")
    assert "torch is for allocation, views, shapes and layout copies" in reason.detail
    assert reason.detail.endswith("compute it in a @triton.jit kernel")


def test_every_rule_says_why_and_what_to_write_instead() -> None:
    for rule in RULES.values():
        assert rule.kind in ("cheat", "invalid")
        assert rule.summary
        assert rule.instead
        assert not rule.summary.endswith(".")


def test_text_that_cannot_be_parsed_is_out_of_scope_and_invalid() -> None:
    for source in ("", "def (", "\0", "x = " + "-" * 50_000 + "1", "x = " + "[1]" + "[0]" * 500):
        reasons = lint(source, "attention")
        assert [reason.gate for reason in reasons] == ["scope"]
        assert lint_verdict(reasons) == "invalid"


# ---- variations of one candidate: what a person may change, and what a cheat would -----------------

BASE = """import functools
import torch
import triton
import triton.language as tl

SPACE = {"BLOCK": [64]}
CONFIG = {"*": {"BLOCK": 64}}
STORE = {}


@triton.jit
def kernel(q, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + offsets, tl.load(q + offsets, mask=offsets < n), mask=offsets < n)


@functools.cache
def cached(n):
    return torch.empty(n)


def helper(x, n=3):
    return x


def attention(q, k, v, *, causal, scale):
    B, H, S, D = q.shape
    n = q.numel()
    out = torch.empty_like(q)
    kernel[(triton.cdiv(n, 64),)](q, out, n, BLOCK=64)
    {line}
    return out
"""


def with_line(line: str) -> list[str]:
    return [reason.probe for reason in lint(BASE.replace("{line}", line), "attention")]


@pytest.mark.parametrize(
    "line",
    [
        "pass",
        "out = out.view(B, H, S, D).transpose(1, 2).contiguous().transpose(1, 2)",
        "scratch = cached(4 * n)[:n].view(-1)",
        "scratch = cached(n); kernel[(1,)](scratch, out, scratch.stride(0), BLOCK=64)",
        "STORE[n] = torch.empty(n)",
        "STORE.setdefault((n, q.device), torch.empty(n, device=q.device))",
        "a = (q if n > 4 else k).stride(0) * 2 + len(q.shape)",
        "pieces = [t.stride(0) for t in (q, k, v) if t is not None]",
        "x, *rest = q.stride(); y = sum(rest) + max(q.shape)",
        "cfg = {**CONFIG['*'], 'BLOCK': 128}; cfg['BLOCK'] = 64; cfg.update(num_warps=4)",
        "assert q.dtype in (torch.float16, torch.bfloat16) and q.stride(-1) == 1, f'{q.dtype} {q.stride()}'",
        "waves = float(scale) * 2 if scale is not None else D**-0.5",
        "both = torch.cat([q, k], dim=2); q = both.narrow(2, 0, S).to(torch.float32)",
        "sms = torch.cuda.get_device_properties(q.device).multi_processor_count // 2",
        "arch = triton.runtime.driver.active.get_current_target().arch // 10",
        "out[:, :, :1] = q[:, :, :1]",
        "grid = lambda meta: (triton.cdiv(n, meta['BLOCK']),); kernel[grid](q, out, n, BLOCK=64)",
        "new = hasattr(tl, 'make_tensor_descriptor')",
        "for index, t in enumerate((q, k)): kernel[(1,)](t, out, index, BLOCK=64)",
        "helper(q, n=n).view(-1)",
        "limit = torch.finfo(q.dtype).max; name = f'{B}-{q.dtype}'",
        "q, k = (t.contiguous() for t in (q, k)); mine = q.clone(); mine.zero_()",
        "q = q.clone() if S > 3 else q.contiguous(); out.copy_(q)",
        "same = q.dtype == k.dtype and q.device == k.device",
        "with torch.cuda.device(q.device): kernel[(1,)](q, out, n, BLOCK=64)",
    ],
)
def test_lines_of_honest_host_code_pass(line: str) -> None:
    assert with_line(line) == []


@pytest.mark.parametrize(
    "kind", ["torch.LongTensor | None", '"torch.Tensor"', "list[int]", "Optional[torch.Size]", "tl.dtype"]
)
def test_annotations_that_name_types_pass(kind: str) -> None:
    source = BASE.replace("{line}", "pass").replace("n=3):", f"n=3, y: {kind} = None):")
    assert lint(f"from typing import Optional\n{source}", "attention") == []


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("out = q * scale", "torch_compute"),
        ("out = -q", "torch_compute"),
        ("out += 1", "torch_compute"),
        ("out = helper(q) + helper(k)", "torch_compute"),
        ("out = (lambda x: x)(q) * 2", "torch_compute"),
        ("out = [q, k][0] - k", "torch_compute"),
        ("out = sum([q, k])", "torch_compute"),
        ("out = torch.where(q > 0, q, k)", "torch_compute"),
        ("out = max(q, k)", "torch_compute"),
        ("out = q.new_empty(3).uniform_()", "torch_compute"),
        ("out = q[k]", "torch_compute"),
        ("out = torch.empty_like(q, out=k)", "torch_compute"),
        ("out = {**{'a': q}}['a'] * 2", "torch_compute"),
        ("for t in (q, k): out = t * 2", "torch_compute"),
        ("(a, b), c = (q, k), v; out = b / 2", "torch_compute"),
        ("out = (z := q) ** 2", "torch_compute"),
        ("out = q if q.sum() else k", "torch_compute"),
        ("n = int(q[0, 0, 0, 0])", "host_sync"),
        ("n = 1 if q else 2", "host_sync"),
        ("n = [x for x in range(3) if q]", "host_sync"),
        ("n = not q", "host_sync"),
        ("assert q", "host_sync"),
        ("n = q.shape[k:]", "host_sync"),
        ("n = q.item()", "host_sync"),
        ("n = torch.tensor([1], device=q.device)", "host_sync"),
        ("STORE[q] = torch.empty(n)", "pointer_key"),
        ("n = {q: 1}", "pointer_key"),
        ("n = q.data_ptr() // 16", "pointer_key"),
        ("n = q.data_ptr() % 4096", "pointer_key"),
        ("n = q is k", "pointer_key"),
        ("n = q.untyped_storage()", "pointer_key"),
        ("STORE[n] = out", "state"),
        ("STORE[n] = q.clone()", "state"),
        ("STORE[n] = n", "state"),
        ("STORE[n] = STORE.get(n, 0) + 1", "state"),
        ("STORE.clear()", "state"),
        ("STORE[n] = torch.empty(n); other = STORE", "state"),
        ("STORE[n] = torch.empty(n); n = len(STORE)", "state"),
        ("STORE[n] = torch.empty(n); n = 1 if n in STORE else 2", "state"),
        ("STORE[n] = torch.empty(n); out = STORE[n]", "state"),
        ("STORE[n] = torch.empty(n); out.copy_(STORE[n])", "state"),
        ("STORE[n] = torch.empty(n); out = STORE[n].clone()", "state"),
        ("STORE[n] = torch.empty(n); out[0] = STORE[n]", "state"),
        ("out = cached(n)", "state"),
        ("out = cached(q)", "state"),
        ("out = helper(cached(n).view(-1))", "state"),
        ("CONFIG['*']['BLOCK'] = 128", "state"),
        ("CONFIG.get('*').update(BLOCK=128)", "state"),
        ("twice = enumerate([1, 2])", "state"),
        ("twice = (x for x in [1, 2])", "state"),
        ("attention.calls = 1", "monkeypatch"),
        ("kernel.cache = None", "monkeypatch"),
        ("torch = None", "construct"),
        ("n = [tl for tl in range(3)]", "construct"),
        ("torch.set_default_dtype(torch.float16)", "monkeypatch"),
        ("n = helper.__defaults__", "introspection"),
        ("n = q._base", "introspection"),
        ("n = kernel.fn", "introspection"),
        ("n = torch._C", "introspection"),
        ("n = type(q)", "introspection"),
        ("n = hasattr(q, 'fake_mode')", "introspection"),
        ("n = torch.utils.data", "library"),
        ("out = torch.ops.aten.mm(q, k)", "library"),
        ("out = torch.nn.functional.softmax(q, -1)", "library"),
        ("torch.cuda.synchronize()", "stream"),
        ("n = torch.cuda.current_stream()", "stream"),
        ("kernel[(1,)](q, out, n, BLOCK=64, stream=3)", "dry_launch"),
        ("n = kernel[(1,)](q, out, n, BLOCK=64)", "mode"),
        ("n = torch.compiler.is_compiling()", "mode"),
        ("n = 'TRITON_INTERPRET'", "mode"),
        ("n = triton.testing", "mode"),
        ("n = q.device.type", "device_branch"),
        ("n = torch.empty(3, device='cuda')", "device_branch"),
        ("import os", "import"),
        ("n = [0] * 3; n[0] = yes", "name"),
        ("class X: pass", "construct"),
        ("n = yield", "state"),
        ("n = list(map(len, [q.shape]))", "construct"),
        ("q.zero_()", "inputs"),
        ("k.view(-1).copy_(out.view(-1))", "inputs"),
        ("q[:] = out", "inputs"),
        ("return v.transpose(1, 2)", "inputs"),
        ("STORE[n] = torch.cat([q, k])", "state"),
        ("n = chr(98)", "obfuscation"),
        ("n = tl.exp2(scale)", "attribute"),
    ],
)
def test_lines_of_cheating_host_code_are_refused(line: str, rule: str) -> None:
    assert rule in with_line(line)


RUN = "kernel[(1,)](q, out, n, BLOCK=64)"
HELPERS = """

def run(x, out, n):
    kernel[(1,)](x, out, n, BLOCK=64)
    return out


def skip(x, out, n):
    if n > 10:
        return out
    return run(x, out, n)
"""


@pytest.mark.parametrize(
    ("lines", "refused"),
    [
        (["if S == 0:", "    return out", RUN, "return out"], False),
        (["if not n or k.size(2) == 0:", "    return out.zero_()", RUN, "return out"], False),
        (["if 0 in q.shape or B * H == 0:", "    return out", RUN, "return out"], False),
        (["if S > 9:", f"    {RUN}", "else:", f"    {RUN}", "return out"], False),
        (["if S > 9:", "    raise ValueError('no')", RUN, "return out"], False),
        (["if S > 9:", "    return run(q, out, n)", "return run(k, out, n)"], False),
        (["if S > 9:", f"    {RUN}", "    return out", "run(q, out, n)", "return out"], False),
        (["for t in (q, k):", f"    {RUN}", "return out"], False),
        (["if S == 512:", "    return out", RUN, "return out"], True),
        (["if S % 512 == 0:", "    return out", RUN, "return out"], True),
        (["if S == 0 or S == 512:", "    return out", RUN, "return out"], True),
        (["if S > 9:", f"    {RUN}", "return out"], True),
        (["if S > 9:", "    return run(q, out, n)", "return skip(q, out, n)"], True),
        (["z = S - 512", "if z == 0:", "    return out", RUN, "return out"], True),
    ],
)
def test_every_way_through_the_entry_launches(lines: list[str], refused: bool) -> None:
    head, _, _ = BASE.partition("    kernel[(triton.cdiv(n, 64),)]")
    body = "\n".join(f"    {line}" for line in lines)
    reasons = lint(f"{head}{body}\n{HELPERS}", "attention")
    assert [reason.probe for reason in reasons] == (["skipped_work"] if refused else [])


# ---- bounds ---------------------------------------------------------------------------------------


def test_reasons_are_bounded_in_number_and_length() -> None:
    line = "\n    ".join(f"x{i} = q * {'9' * 15}{i}" for i in range(300))
    reasons = lint(BASE.replace("{line}", line), "attention")
    assert len(reasons) == 50
    assert max(len(reason.detail) for reason in reasons) < 400


def test_long_and_deep_code_is_read_in_seconds() -> None:
    host = (f"x{i} = helper(q.view(-1), n={i}); y{i} = x{i}.stride(0) + len(CONFIG)" for i in range(300))
    chain = "x = q" + ".view(-1)" * 70
    nest = "x = " + "(" * 70 + "q" + ",)" * 70
    started = time.monotonic()
    for line in ("\n    ".join(host), chain, nest):
        lint(BASE.replace("{line}", line), "attention")
    lint("".join(f"x{i} = {i}\n" for i in range(6_000)), "attention")
    assert time.monotonic() - started < 20
    assert "far too long" in lint("x = 1\n" * 20_000, "attention")[0].detail


SNIPPETS = st.sampled_from(
    """q.shape torch.empty(n) STORE[n] lambda:q (yield) [*q] {**CONFIG} q@k f"{q}" x:=q kernel[n](q) del
    global STORE nonlocal n try:pass assert with q:pass async return raise q import os match q: class X:pass
    q[k:v] (x for x in q) {q:q} q.data_ptr()%16 1_0 "TRITON_" b"" ... helper(*q,**q) not""".split()
)


@settings(max_examples=200, deadline=None)
@given(st.lists(SNIPPETS, min_size=1, max_size=4).map("\n    ".join))
def test_any_code_is_judged_without_an_error(line: str) -> None:
    for reason in lint(BASE.replace("{line}", line), "attention"):
        assert reason.probe in RULES or reason.gate == "scope"


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 10**6), st.sampled_from([*HONEST, *SHIPPED]))
def test_any_cut_of_a_kernel_is_judged_without_an_error(start: int, length: int, path: Path) -> None:
    source = path.read_text()
    at = start % len(source)
    lint(source[:at] + source[at + length % 200 :], entry_of(source))


# ---- constant expressions -------------------------------------------------------------------------

EXPLODING = [
    "X = 9**9**9",
    "X = 1 << 10**8",
    "X = 'a' * 10**10",
    "X = [0] * (1 << 30)",
    "X = (1, 2) * 500_000",
    "X = [i for i in range(10**9)]",
    "X = [0 for i in range(1000) for j in range(1000)]",
    "X = max(range(10**9))",
    "N = 10**9\nX = 3**N",
    "N = 'ab'\nM = N * 1000\nX = M * 1000",
    "X = f'{1:1000000000}'",
    "X = '%1000000000d' % 1",
    "X = 7 if 2**100_000_000 else 8",
]
SMALL = [
    "X = 2**31 - 1",
    "X = 1.4426950408889634**2",
    "X = -(2**63) // 3 % 5",
    "X = [0] * 64",
    "X = (64, 128) * 2 + (32,)",
    "X = [2**i for i in range(5, 9)]",
    "X = 1e308 * 10",
    "X = 2.0**0.5",
    "X = 1 << 40",
    "X = 10**-3",
    "X = 1 // 0",
    "X = X",
]


@pytest.mark.parametrize("line", EXPLODING)
def test_a_constant_expression_that_explodes_is_refused_and_not_evaluated(line: str) -> None:
    started = time.monotonic()
    reasons = lint(line + "\n" + BASE.replace("{line}", "pass"), "attention")
    assert "size" in [reason.probe for reason in reasons]
    assert time.monotonic() - started < 2


@pytest.mark.parametrize("line", SMALL)
def test_small_constant_expressions_raise_no_alarm_of_their_size(line: str) -> None:
    reasons = lint(line + "\n" + BASE.replace("{line}", "pass"), "attention")
    assert "size" not in [reason.probe for reason in reasons]


def test_a_size_is_refused_inside_functions_and_kernels_too() -> None:
    assert "size" in with_line("n = 3**10**9")
    inside = BASE.replace("    tl.store", "    x = 'a' * 99999999\n    tl.store").replace("{line}", "pass")
    assert "size" in [reason.probe for reason in lint(inside, "attention")]
