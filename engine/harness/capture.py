"""A candidate's process without a card: which kernels does it launch, and what do they compile to first?

The candidate is called on tensors of the meta device, which have shapes and no contents, for every
workload. Each launch is recorded with its grid and arguments. A kernel new to this process is brought to
Triton's intermediate form here, where its Python is, and goes to the host as text; all later stages, ptxas
too, run in a trusted child (lower.py), so that this process needs no programs and no shared cache.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import candidatefile
import census
import identity
import launchargs
import standins
import tensors
import torch
import triton
import triton.compiler
from candidatefile import Refused
from triton._C.libtriton import ir
from triton.compiler.compiler import make_backend
from triton.runtime.jit import JITFunction
from wire import Wire, one_line

IR_LIMIT = 8 << 20
UNIT_LIMIT = 256
LAUNCH_LIMIT = 64
"""Launches of one call. A kernel that is launched more often than this is not one operator any more."""

OPTIONS = (
    "num_warps",
    "num_stages",
    "num_ctas",
    "maxnreg",
    "enable_fp_fusion",
    "launch_cooperative_grid",
    "launch_pdl",
    "max_num_imprecise_acc_default",
    "default_dot_input_precision",
)
"""Compile options that a launch may set. All others must stay as they are."""

_FILE_LOCATION = re.compile(r'loc\("(?:[^"\\]|\\.)*":\d+:\d+(?: to (?:\d*:)?:?\d+)?\)')


class Recorder:
    """Stands in for JITFunction.run and triton.compile, and remembers what went through them."""

    def __init__(self, wire: Wire, path: str, *, lowers: bool = True) -> None:
        """`lowers`: bring new kernels to intermediate code; else only who is launched is of interest."""
        self._wire = wire
        self._lowers = lowers
        self._path = path
        self._run = JITFunction.run
        self._sent: set[str] = set()
        self._inputs: dict[int, str] = {}
        self.launches: list[dict[str, Any]] = []
        self.failure: Refused | None = None

    def install(self) -> None:
        recorder = self

        def run(fn: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
            return recorder.run(fn, args, kwargs, grid, warmup)

        JITFunction.run = run
        triton.compiler.compile = self.compile
        triton.compile = self.compile

    def begin(self, inputs: dict[str, torch.Tensor]) -> None:
        self.launches = []
        self._inputs = {tensor.untyped_storage()._cdata: name for name, tensor in inputs.items()}

    def run(self, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any], grid: Any, warmup: bool) -> Any:
        """One launch: compile if new, record."""
        if not candidatefile.is_own(fn.fn, self._path):
            self.fail(
                Refused("cheat", f"launched {one_line(fn.__name__, 80)}, which its file does not define")
            )
        try:
            kernel = self._run(fn, *args, grid=grid, warmup=True, **kwargs)
        except Refused as refused:
            self.fail(refused)
            raise
        except Exception as failure:
            outcome = candidatefile.outcome_of(failure)
            if outcome == "compile_error":
                text = candidatefile.describe_compile(failure, fn.__name__, self._path)
            else:
                text = f"{fn.__name__}: {candidatefile.describe(failure, self._path)}"
            self.fail(Refused(outcome, text))
            raise
        if warmup or kernel is None:
            return kernel
        bound = _bind(fn, args, kwargs)
        if callable(grid):
            grid = grid(bound)
        if len(self.launches) >= LAUNCH_LIMIT:
            self.fail(Refused("invalid", f"launches more than {LAUNCH_LIMIT} kernels in one call"))
        dims = [int(n) for n in grid] + [1] * (3 - len(grid))
        if min(dims) < 1:
            return kernel  # an empty grid launches nothing
        self.launches.append(
            {
                "unit": kernel.unit,
                "kernel": fn.__name__,
                "grid": dims,
                "args": self._arguments(kernel, bound),
                "given": launchargs.described(fn.fn, fn.arg_names, args, kwargs),
            }
        )
        return kernel

    def fail(self, refused: Refused) -> None:
        """Remember the first failure, which counts even if the candidate catches the exception."""
        if self.failure is None:
            self.failure = refused
        if refused.outcome != "compile_error":
            raise refused

    def _arguments(self, kernel: Any, bound: dict[str, Any]) -> list[dict[str, Any]]:
        """The arguments that the compiled kernel has, in its order."""
        described = []
        for name in kernel.parameters:
            value = bound.get(name)
            base = getattr(value, "base", value)
            if isinstance(base, torch.Tensor) and value is not None:
                kind = "ptr" if base is value else "desc"
                described.append({
                    "name": name,
                    "kind": kind,
                    "tensor": base.untyped_storage()._cdata,
                    "shape": [int(n) for n in (value.shape if kind == "desc" else base.shape)],
                    "strides": [int(n) for n in (value.strides if kind == "desc" else base.stride())],
                    "itemsize": base.element_size(),
                    **({"block": [int(n) for n in value.block_shape]} if kind == "desc" else {}),
                })  # fmt: skip
            elif isinstance(value, bool | int):
                described.append({"name": name, "kind": "int", "value": int(value)})
            elif isinstance(value, float):
                described.append(
                    {"name": name, "kind": "float", "value": value if math.isfinite(value) else 0.0}
                )
            else:
                described.append({"name": name, "kind": "other"})
        return described

    def finish(self, out: torch.Tensor) -> list[dict[str, Any]]:
        """The launches of this call, with tensors named: an input, `out`, or `scratch`."""
        names = {**self._inputs, out.untyped_storage()._cdata: "out"}
        for launch in self.launches:
            for argument in launch["args"]:
                if "tensor" in argument:
                    argument["tensor"] = names.get(argument["tensor"], "scratch")
        return self.launches

    def compile(self, src: Any, target: Any = None, options: Any = None, _env_vars: Any = None) -> Any:
        """In place of triton.compile: lower to the first form that is free of Python, and hand it on."""
        backend = make_backend(target)
        given = dict(options or {})
        parsed = backend.parse_options({**given, **src.parse_options()})
        chosen = {name: getattr(parsed, name) for name in OPTIONS if hasattr(parsed, name)}
        _refuse_other_options(backend, given, parsed)
        if not self._lowers:
            return SimpleNamespace(unit="", parameters=[], metadata=SimpleNamespace(**parsed.__dict__))
        text, suffix = _lower(src, target, backend, parsed)
        key = hashlib.sha256(json.dumps([suffix, text, chosen], sort_keys=True).encode()).hexdigest()
        if len(self._sent) >= UNIT_LIMIT:
            raise Refused("invalid", f"compiles more than {UNIT_LIMIT} kernels")
        if key not in self._sent:
            self._sent.add(key)
            unit = {"key": key, "name": src.fn.__name__, "suffix": suffix, "text": text, "options": chosen}
            self._wire.send(unit=unit)
        parameters = [name for name, kind in src.signature.items() if kind != "constexpr"]
        metadata = SimpleNamespace(**parsed.__dict__, name=src.fn.__name__, shared=0)
        return SimpleNamespace(unit=key, parameters=parameters, metadata=metadata)


def _refuse_other_options(backend: Any, given: dict[str, Any], parsed: Any) -> None:
    plain = backend.parse_options({})
    for name in given:
        if name not in OPTIONS and getattr(parsed, name, None) != getattr(plain, name, None):
            raise Refused("invalid", f"sets the compile option {one_line(name, 40)}")


def _lower(src: Any, target: Any, backend: Any, options: Any) -> tuple[str, str]:
    """The kernel as TTIR (Gluon: TTGIR), without file names and lines: equal code is equal text."""
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    stages: dict[str, Callable[[Any, Any], Any]] = {}
    backend.add_stages(stages, options, src.language)
    codegen = backend.get_codegen_implementation(options)
    module = src.make_ir(target, options, codegen, backend.get_module_map(), context)
    suffix = "ttir" if "ttir" in stages else "ttgir"
    metadata = {"target": target, **options.__dict__}
    for stage, step in stages.items():
        module = step(module, metadata)
        if stage == suffix:
            break
    text = _FILE_LOCATION.sub("loc(unknown)", str(module))
    if len(text) > IR_LIMIT:
        raise Refused("compile_error", f"{src.fn.__name__}: its code is larger than {IR_LIMIT >> 20} MB")
    return text, suffix


def _bind(fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Parameter name to value, defaults filled in."""
    bound = {
        name: parameter.default
        for name, parameter in fn.signature.parameters.items()
        if parameter.default is not parameter.empty
    }
    bound.update(zip(fn.arg_names, args, strict=False))
    bound.update({name: value for name, value in kwargs.items() if name in fn.arg_names})
    return bound


def warm() -> None:
    """Load the compiler's libraries once, in the zygote."""
    target = {"arch": 80}
    standins.install_driver(target)
    backend = make_backend(standins.gpu_target(target))
    options = backend.parse_options({})
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "warm.ttir"
        path.write_text(
            "module {\n  tt.func public @warm() attributes {noinline = false} {\n    tt.return\n  }\n}\n"
        )
        context = ir.context()
        ir.load_dialects(context)
        backend.load_dialects(context)
        module = ir.parse_mlir_module(str(path), context)
        module.context = context
        backend.make_ttir(module, {}, options, 80)


def run(wire: Wire, specification: dict[str, Any], descriptors: list[int]) -> int:
    path, target = specification["source_path"], specification["target"]
    standins.install_driver(target)
    standins.install_queries(target)
    recorder = Recorder(wire, path, lowers=specification.get("lowers", True))
    recorder.install()
    snapshot = identity.Snapshot()
    wire.send(phase="load")
    try:
        with standins.DeviceStandIn("meta"):
            entry = candidatefile.load(path, specification["entry"])
            wire.send(phase="compile")
            for index, plan in enumerate(specification["plans"]):
                wire.send(launches=_one(entry, plan, recorder, path), index=index)
            candidatefile.flush()
        if changed := snapshot.changed():
            raise Refused("cheat", f"replaces functions of others: {', '.join(changed[:5])}")
    except Refused as refused:
        candidatefile.print_trace(refused.__cause__ or refused)
        wire.send(refused={"outcome": refused.outcome, "detail": refused.detail})
        return 0
    wire.send(done=True)
    return 0


def _one(
    entry: Callable[..., Any], plan: dict[str, Any], recorder: Recorder, path: str
) -> list[dict[str, Any]]:
    """One workload: the launches of one call."""
    inputs = tensors.meta_from(plan["layout"])
    recorder.begin(inputs)
    counted = census.Census(poison=False)
    try:
        with counted:
            out = tensors.call(entry, plan["call"], inputs)
    except BaseException as failure:
        if recorder.failure is not None:
            raise recorder.failure from failure
        if isinstance(failure, Refused):
            raise
        if counted.foreign():
            raise _foreign(counted) from failure
        text = candidatefile.describe(failure, path)
        if "meta tensor" in text:  # .item(), .tolist(), .cpu(): contents that only the device has
            raise Refused("invalid", f"needs a tensor's contents on the host: {text}") from failure
        raise Refused(candidatefile.outcome_of(failure), text) from failure
    if recorder.failure is not None:
        raise recorder.failure
    if counted.foreign():
        raise _foreign(counted)
    if waiting := counted.synchronising():
        raise Refused("invalid", f"makes the host wait for the device: aten.{', aten.'.join(waiting)}")
    if type(out) is not torch.Tensor:
        raise Refused("invalid", f"returns {type(out).__name__} and not a tensor")
    expected = plan["out"]
    if list(out.shape) != expected["shape"] or str(out.dtype) != "torch." + expected["dtype"]:
        raise Refused(
            "invalid", f"returns {list(out.shape)} {out.dtype}, not {expected['shape']} {expected['dtype']}"
        )
    if not recorder.launches:
        raise Refused("cheat", "no kernel launched")
    return recorder.finish(out)


def _foreign(counted: census.Census) -> Refused:
    return Refused("cheat", f"lets torch compute: aten.{', aten.'.join(counted.foreign()[:5])}")
