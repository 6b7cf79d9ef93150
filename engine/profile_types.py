"""What GPU and model profiles hold. Sizes are bytes, times µs, rates GB/s and TFLOP/s (10^9, 10^12)."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

Origin = Literal["shipped", "user"]

FIGURE_KINDS = ("measured", "published", "scaled")
"""How a figure of FlashAttention-2 was come by: `scaled` ones are carried over from another card."""

CONFIDENCE = ("published", "measured", "computed", "inferred", "memory")
"""How well a fact is founded, best first; `memory` was not checked against a source."""

FEATURES = {
    "cp_async": "asynchronous copies from global to shared memory, 16 bytes a thread",
    "mma_sync": "tensor cores through warp-wide mma.sync",
    "fp8_mma": "FP8 operands in mma.sync",
    "fp4_mma": "FP4 operands in mma.sync",
    "tma": "bulk tensor copies by descriptor",
    "clusters": "CTAs of a cluster share their shared memory",
    "wgmma": "tensor cores through asynchronous warp-group instructions",
    "setmaxnreg": "registers moved between warp groups",
    "tmem": "256 KB of tensor memory per SM for accumulators",
    "tcgen05": "tensor cores issued by one thread, operands in shared or tensor memory",
    "cta_pair_mma": "one matrix instruction over two CTAs",
    "nvfp4": "block-scaled FP4 operands at full rate",
}

DTYPES = ("bf16", "fp16")
TENSOR_RATES = ("fp16", "bf16", "fp16_acc16", "fp8", "fp8_acc16", "fp4")


@dataclass(frozen=True, slots=True)
class Fa2Curve:
    """FlashAttention-2's forward rate at one head dim, causal or not, on grids that fill the card.

    `points` are (sequence length, TFLOP/s), lengths ascending; causal rates count the unmasked half.
    """

    D: int
    causal: bool
    kind: str
    points: tuple[tuple[int, float], ...]
    source: str


@dataclass(frozen=True, slots=True)
class Fa2Decode:
    """What FlashAttention-2's decode times are made of; `fa2.py` says how."""

    fixed_us: float
    """One kernel from launch to end, without its work."""
    combine_us: float
    """The second kernel, where the keys were split."""
    per_split_us: float
    read_fraction: float
    """Share of `dram_gbs` that its split-KV kernel sustains."""
    kind: str
    source: str


@dataclass(frozen=True, slots=True)
class Fa2Profile:
    prefill: tuple[Fa2Curve, ...]
    decode: Fa2Decode


@dataclass(frozen=True, slots=True)
class GpuProfile:
    """Facts of one card. `tensor_tflops` are dense rates with fp32 accumulation unless the key says not."""

    name: str
    title: str
    arch: int
    sms: int
    boost_ghz: float
    dram_gbs: float
    dram_measured_gbs: float | None
    l2_bytes: int
    memory_bytes: int
    smem_sm_bytes: int
    smem_block_bytes: int
    registers_sm: int
    warps_sm: int
    ctas_sm: int
    tensor_tflops: dict[str, float]
    fp32_tflops: float
    features: tuple[str, ...]
    fa2: Fa2Profile
    confidence: dict[str, str]
    """Fact to one of CONFIDENCE."""
    sources: tuple[str, ...]
    nvml_names: tuple[str, ...]
    """How the driver names this very card; variants with other clocks or memory are other cards."""
    notes: str
    origin: Origin = "shipped"

    def to_target(self) -> dict[str, Any]:
        """The facts that the host compiles and estimates for, as plain JSON values."""
        left_out = {"fa2", "confidence", "sources", "nvml_names", "notes", "origin"}
        facts = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in left_out}
        return {**facts, "tensor_tflops": dict(self.tensor_tflops), "features": list(self.features)}


@dataclass(frozen=True, slots=True)
class ModelProfile:
    """One model's attention: the heads of the layers that the two operators can express, and the rest.

    `layers` counts the layers that are covered; with none the model cannot drive a lab.
    """

    name: str
    title: str
    Hq: int
    Hkv: int
    D: int
    dtype: str
    scale: float | None
    """Softmax scale where it is not 1/sqrt(D)."""
    layers: int
    layers_total: int
    not_covered: tuple[str, ...]
    confidence: str
    sources: tuple[str, ...]
    notes: str
    origin: Origin = "shipped"

    @property
    def group(self) -> int:
        """Query heads that share one KV head."""
        return self.Hq // self.Hkv


@dataclass(frozen=True, slots=True)
class ProfileEntry:
    """One line of a listing; `problem` is set instead of `detail` when the file is wrong."""

    name: str
    title: str
    origin: Origin
    path: Path
    detail: str = ""
    problem: str | None = None
