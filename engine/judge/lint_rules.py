"""The rules of the lint: what each refuses, why, and what to write instead."""

from __future__ import annotations

import ast
import os
from dataclasses import dataclass
from typing import Literal

from kernel_lab.engine.facts import Reason

MAX_REASONS = 50


@dataclass(frozen=True, slots=True)
class Rule:
    """`kind` is the verdict that a finding asks for. `summary` says why it is refused."""

    kind: Literal["cheat", "invalid"]
    summary: str
    instead: str


RULES: dict[str, Rule] = {
    # ---- ways to look faster than one is
    "asm": Rule(
        "cheat",
        "such assembly times, sleeps or pins the L2 cache",
        "use it for arithmetic and conversions only",
    ),
    "dry_launch": Rule(
        "cheat",
        "this option keeps the kernel from running as an ordinary launch",
        "launch with kernel[grid](...)",
    ),
    "escape": Rule(
        "cheat",
        "a candidate has no business with files, processes, threads, devices or the network",
        "remove it",
    ),
    "fallback": Rule(
        "cheat",
        "an error handler can hide that a kernel failed and something else did the work",
        "let errors out",
    ),
    "inputs": Rule(
        "cheat",
        "inputs must be left as they were, and the result must be memory of its own",
        "write into torch.empty and return that",
    ),
    "introspection": Rule(
        "cheat",
        "it looks into the internals of Python, torch, triton or the harness",
        "pass what is needed as an argument",
    ),
    "io": Rule("cheat", "printing and reading can fake results", "remove it"),
    "library": Rule(
        "cheat",
        "a library does the work of the candidate's kernels",
        "write it as a @triton.jit kernel",
    ),
    "mode": Rule(
        "cheat",
        "it tells checks from timed calls",
        "write one path that is the same for everyone",
    ),
    "monkeypatch": Rule(
        "cheat",
        "it changes what others rely on",
        "keep values in local variables",
    ),
    "no_kernel": Rule(
        "cheat",
        "the work must be done by kernels of this file",
        "launch a @triton.jit kernel with kernel[grid](...)",
    ),
    "obfuscation": Rule("cheat", "it hides what the code does", "call things by their plain names"),
    "pointer_key": Rule(
        "cheat",
        "telling calls apart by address or identity lets an old result be replayed",
        "use shapes, strides and dtypes; the contract promises 16-byte alignment",
    ),
    "result_bank": Rule(
        "cheat",
        "data of this size can hold stored answers",
        "compute it in a kernel",
    ),
    "skipped_work": Rule(
        "cheat",
        "it returns without launching a kernel",
        "launch on every path; only an empty input (`if Sk == 0`) may return early",
    ),
    "state": Rule(
        "cheat",
        "only compiled kernels, device facts and scratch of torch.empty may live from call to call",
        "allocate results in each call, and let scratch go to kernels only",
    ),
    "stream": Rule(
        "cheat",
        "streams, events and graphs can hide work from the clock",
        "launch on the current stream",
    ),
    "tensor_class": Rule(
        "cheat",
        "such a class can compute lazily or pretend to be a tensor",
        "write functions and return a plain torch.Tensor",
    ),
    "torch_compute": Rule(
        "cheat",
        "torch is for allocation, views, shapes and layout copies",
        "compute it in a @triton.jit kernel",
    ),
    # ---- what a candidate may not be, without ill will
    "attribute": Rule(
        "invalid",
        "it is not among the attributes that a candidate may use",
        "use shapes, strides, dtypes, views and allocation",
    ),
    "autotune": Rule(
        "invalid",
        "a tuner of its own measures behind the judge's back",
        "list the values in SPACE and read them from CONFIG",
    ),
    "construct": Rule(
        "invalid",
        "this part of Python is not allowed in a candidate",
        "write it with plain functions, loops, ifs, tuples and dicts",
    ),
    "decorator": Rule(
        "invalid",
        "this decorator is not allowed",
        "use triton.jit, gluon.jit, triton.heuristics, aggregate, constexpr_function or functools.lru_cache",
    ),
    "device_branch": Rule(
        "invalid",
        "the same code also runs where tensors are not on a CUDA device",
        "allocate with device=q.device and do not ask for the kind of device",
    ),
    "host_sync": Rule(
        "invalid",
        "it makes the host wait for the card, which a CUDA graph forbids",
        "pass the tensor to the kernel and read it there",
    ),
    "import": Rule(
        "invalid",
        "only torch, triton (Gluon too) and math may be imported, at module level",
        "remove it",
    ),
    "indirect_call": Rule(
        "invalid",
        "what is called with a tensor cannot be seen here",
        "call kernels and functions by their names",
    ),
    "module_level": Rule(
        "invalid",
        "only imports, constants and functions may stand at module level",
        "move it into a function",
    ),
    "name": Rule("invalid", "this name is not defined in the candidate", "define it or remove it"),
    "size": Rule(
        "invalid",
        "its value, or the making of it, would take all memory or time",
        "write a value that fits into 64 bits, or compute it where it is needed",
    ),
    "precision": Rule(
        "invalid",
        "it computes in fewer bits than the task states",
        "keep fp16 or bf16 inputs and accumulate in fp32",
    ),
}


def disabled_guards() -> frozenset[str]:
    """Probes and rules that are switched off, so that the selftest can show that it notices."""
    return frozenset(filter(None, os.environ.get("KERNEL_LAB_DISABLE_PROBE", "").split(",")))


class Report:
    """Findings, each rule at most once a line, in the order of lines."""

    def __init__(self) -> None:
        self._found: dict[tuple[int, str], str] = {}

    def add(self, rule: str, node: ast.AST, what: str) -> None:
        """`what` names the offending piece; the rule says the rest."""
        self._found.setdefault((getattr(node, "lineno", 1), rule), what)

    def reasons(self) -> list[Reason]:
        """At most `MAX_REASONS` reasons, each with its line, why it is refused and what to write instead."""
        off = disabled_guards()
        found = [(at, what) for at, what in sorted(self._found.items()) if at[1] not in off]
        return [
            Reason("lint", rule, f"line {line}: {what}: {RULES[rule].summary}; {RULES[rule].instead}")
            for (line, rule), what in found[:MAX_REASONS]
        ]


def shown(node: ast.AST, limit: int = 60) -> str:
    """The code of a node on one short line."""
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= limit else text[: limit - 1] + "…"
