"""The compiler child: intermediate code of one kernel to machine code, its resources and its disassembly.

It never sees Python of a candidate. Its answer is filed under the content of what it was given, so no
candidate can put anything into the cache that another one gets.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import machinecode
import model
import standins
import triton
from triton.backends.nvidia.compiler import CUDABackend
from wire import Wire, one_line

TOOLS = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
TOOL_SECONDS = 60
SASS_LIMIT = 16 << 20


class OverShared(Exception):
    """The kernel needs more shared memory than a block of the card has."""

    def __init__(self, smem_bytes: int) -> None:
        super().__init__(str(smem_bytes))
        self.smem_bytes = smem_bytes


def warm() -> None:
    """Ask the assemblers for their versions once: the backend wants them for every compile."""
    from triton.backends.nvidia import compiler

    for arch in (80, 100):
        compiler.get_ptxas_version(arch)
        compiler.get_ptxas(arch)


def run(wire: Wire, specification: dict[str, Any], descriptors: list[int]) -> int:
    unit, target = specification["unit"], specification["target"]
    try:
        wire.send(artifact=compile_unit(unit, target))
    except OverShared as over:
        wire.send(over_shared=over.smem_bytes)
    except Exception as failure:  # noqa: BLE001 (any stage of the compiler may refuse in its own way)
        wire.send(compile_error=one_line(_reason(failure)), trace=str(failure)[-4000:])
    return 0


def compile_unit(unit: dict[str, Any], target: dict[str, Any]) -> dict[str, Any]:
    """All stages from TTIR (or TTGIR) on, and the time model's summary of the machine code.

    Raises OverShared before any machine code is made.
    """
    standins.install_driver(target)
    limit = int(target["smem_block_bytes"])
    make_ptx = CUDABackend.make_ptx

    def checked_ptx(backend: Any, source: Any, metadata: dict[str, Any], *rest: Any) -> Any:
        if metadata["shared"] > limit:
            raise OverShared(int(metadata["shared"]))
        return make_ptx(backend, source, metadata, *rest)

    CUDABackend.make_ptx = checked_ptx
    path = Path(f"unit.{unit['suffix']}")
    path.write_text(unit["text"])
    kernel = triton.compile(str(path), target=standins.gpu_target(target), options=unit["options"])
    cubin = Path("unit.cubin")
    cubin.write_bytes(kernel.asm["cubin"])
    usage = resources(_tool("cuobjdump", "--dump-resource-usage", str(cubin)), kernel.metadata.name)
    metadata = kernel.metadata
    sass = _tool("nvdisasm", "-c", str(cubin))
    artifact = {
        "name": metadata.name,
        "smem_bytes": int(metadata.shared),
        "num_warps": int(metadata.num_warps),
        "num_ctas": int(getattr(metadata, "num_ctas", 1)),
        "tmem_bytes": int(getattr(metadata, "tmem_size", 0) or 0) * 4 * 128,
        **usage,
        "ttir": unit["text"] if unit["suffix"] == "ttir" else "",
        "ttgir": str(kernel.asm.get("ttgir", "")),
        "ptx": str(kernel.asm["ptx"]),
        "sass": sass,
        "tensor_cores": machinecode.tensor_family(machinecode.opcodes(sass)),
    }
    described = {**artifact, "kernel": unit["name"]}
    return {**artifact, "summary": model.parse(described, target)}


def _tool(name: str, *arguments: str) -> str:
    result = subprocess.run(
        [str(TOOLS / name), *arguments], capture_output=True, text=True, timeout=TOOL_SECONDS, check=False
    )
    if result.returncode:
        raise RuntimeError(f"{name}: {result.stderr or result.stdout}")
    return result.stdout[:SASS_LIMIT]


def resources(dump: str, kernel: str) -> dict[str, int]:
    """Registers a thread, and bytes of stack and local memory a thread, from cuobjdump's text."""
    match = re.search(
        rf"Function {re.escape(kernel)}:\s*\n\s*REG:(\d+) STACK:(\d+) SHARED:\d+ LOCAL:(\d+)", dump
    )
    if match is None:
        raise RuntimeError(f"cuobjdump knows no {kernel}: {dump[:200]}")
    registers, stack, local = (int(n) for n in match.groups())
    return {"registers": registers, "spill_bytes": stack + local}


def _reason(failure: Exception) -> str:
    """The line of a compiler's message that says most."""
    text = str(failure)
    for line in text.splitlines():
        if "error" in line.lower():
            return line
    return f"{type(failure).__name__}: {text}"
