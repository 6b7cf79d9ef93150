"""Runs a seed kernel in a process of its own: in the interpreter, or compiled for a card that is not there.

    python kernels_runner.py interpret REQUEST.json     TRITON_INTERPRET=1 has to be set
    python kernels_runner.py compile REQUEST.json

A request names the task and what to run; the answer is one JSON line on standard output.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

# Cases are tiny: threads would only wait for one another.
torch.set_num_threads(1)

KERNELS = Path(__file__).parents[2] / "kernels"
ENTRIES = {"gqa_prefill": "attention", "gqa_decode": "decode"}


def load(task: str, name: str) -> ModuleType:
    """kernels/TASK/NAME.py as a module."""
    spec = importlib.util.spec_from_file_location(f"{task}_{name}", KERNELS / task / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def answer_for_card(sms: int, arch: int) -> None:
    """What a candidate may ask torch about the card."""
    properties = type("Properties", (), {"multi_processor_count": sms})
    torch.cuda.get_device_properties = lambda _device=None: properties
    torch.cuda.get_device_capability = lambda _device=None: divmod(arch, 10)


def configure(module: ModuleType, original: dict[str, Any], values: dict[str, Any]) -> None:
    """Every bucket gets `values` over what the seed has for it."""
    module.CONFIG = {name: {**entry, **values} for name, entry in original.items()}


def interpret(request: dict[str, Any]) -> list[dict[str, Any]]:
    """One row for each (setting, workload): what went wrong, or an empty string.

    A setting holds tunables and, besides, sms and arch of the card, and first and step among the workloads.
    """
    from kernel_lab.engine.harness.compare import compare, tolerance_for

    task = request["task"]
    module, reference = load(task, "candidate"), load(task, "reference")
    original = dict(module.CONFIG)
    cases = []
    for workload in request["workloads"]:
        inputs = reference.make_inputs(workload, seed=7, device="cpu")
        right = reference.reference(inputs, workload)
        cases.append((workload, inputs, right, reference.baseline_emulation(inputs, workload)))
    rows = []
    for setting in request["settings"]:
        values = {name: value for name, value in setting.items() if name in module.SPACE}
        answer_for_card(setting.get("sms", 28), setting.get("arch", 86))
        configure(module, original, values)
        entry = getattr(module, ENTRIES[task])
        for workload, inputs, right, baseline in cases[setting.get("first", 0) :: setting.get("step", 1)]:
            before = {name: x.clone() for name, x in inputs.items()}
            out = reference.call(entry, inputs, workload)
            again = reference.call(entry, inputs, workload) if workload["Sk"] < 70 else out.clone()
            counts = reference.row_key_counts(workload)
            tolerance = tolerance_for(request["tolerance"], workload["dtype"])
            verdict = compare(out, right, baseline, counts, tolerance)
            wrong = "" if verdict.ok else verdict.detail or verdict.rule
            if out.dtype != inputs["q"].dtype or out.shape != inputs["q"].shape:
                wrong = f"{out.dtype} {list(out.shape)}"
            if not torch.equal(out, again) or out.data_ptr() == again.data_ptr():
                wrong = "a second call gave other bits or the same memory"
            if any(not torch.equal(x.nan_to_num(), before[n].nan_to_num()) for n, x in inputs.items()):
                wrong = "an input was changed"
            rows.append({"setting": setting, "case": workload["id"], "wrong": wrong})
    return rows


def compile_for_card(request: dict[str, Any]) -> list[dict[str, Any]]:
    """One row for each launch of each (setting, workload): kernel, shared bytes, registers, stack bytes."""
    import os
    import re
    import subprocess
    import tempfile

    import triton
    from triton.backends.compiler import GPUTarget

    task, arch = request["task"], request["arch"]
    target = GPUTarget("cuda", arch, 32)
    driver = type(
        "Driver",
        (),
        {
            "get_current_target": lambda self: target,
            "get_current_device": lambda self: 0,
            "get_current_stream": lambda self, _device=None: 0,
        },
    )
    triton.runtime.driver.set_active(driver())
    answer_for_card(request["sms"], arch)
    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    rows: list[dict[str, Any]] = []
    jit = triton.runtime.jit.JITFunction
    run = jit.run

    def compile_only(self: Any, *args: Any, **kwargs: Any) -> Any:
        compiled = run(self, *args, **{**kwargs, "warmup": True})
        with tempfile.NamedTemporaryFile(suffix=".cubin") as cubin:
            Path(cubin.name).write_bytes(compiled.asm["cubin"])
            command = [os.fspath(tool), "--dump-resource-usage", cubin.name]
            text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        registers, stack = re.findall(r"REG:(\d+) STACK:(\d+)", text)[0]
        rows.append(
            {
                "kernel": self.fn.__name__,
                "shared_bytes": compiled.metadata.shared,
                "registers": int(registers),
                "stack_bytes": int(stack),
                "tensor_cores": "mma" in compiled.asm["ptx"],
                "tma": "cp.async.bulk.tensor" in compiled.asm["ptx"],
            }
        )
        return compiled

    jit.run = compile_only
    module, reference = load(task, "candidate"), load(task, "reference")
    original = dict(module.CONFIG)
    for setting in request["settings"]:
        configure(module, original, setting)
        for workload in request["workloads"]:
            inputs = meta_inputs(task, workload)
            reference.call(getattr(module, ENTRIES[task]), inputs, workload)
    return rows


def meta_inputs(task: str, w: dict[str, Any]) -> dict[str, torch.Tensor]:
    """Inputs without memory."""
    dtype = {"fp16": torch.float16, "bf16": torch.bfloat16}[w["dtype"]]

    def empty(*shape: int) -> torch.Tensor:
        return torch.empty(shape, dtype=dtype, device="meta")

    q = empty(w["B"], w["Hq"], w["Sq"], w["D"])
    k, v = empty(w["B"], w["Hkv"], w["Sk"], w["D"]), empty(w["B"], w["Hkv"], w["Sk"], w["D"])
    if task == "gqa_prefill":
        return {"q": q, "k": k, "v": v}
    lengths = torch.empty(w["B"], dtype=torch.int32, device="meta")
    return {"q": q, "k_cache": k, "v_cache": v, "seq_lens": lengths}


if __name__ == "__main__":
    work = {"interpret": interpret, "compile": compile_for_card}[sys.argv[1]]
    print(json.dumps(work(json.loads(Path(sys.argv[2]).read_text()))))
