"""GPU and model profiles as a person reads them: every fact with its unit and how well it is founded."""

from __future__ import annotations

from kernel_lab.engine.profile_types import FEATURES, Fa2Curve, GpuProfile, ModelProfile

KIB = 1024
WIDTH = 22


def gpu_lines(gpu: GpuProfile) -> list[str]:
    """Facts, tensor rates, FlashAttention-2's curves, sources."""
    facts = [
        ("compute capability", f"{gpu.arch // 10}.{gpu.arch % 10} (sm_{gpu.arch})", ""),
        ("SMs", str(gpu.sms), "sms"),
        ("boost clock", f"{gpu.boost_ghz:g} GHz", "boost_ghz"),
        ("memory", f"{gpu.memory_bytes / KIB**3:g} GiB", "memory_bytes"),
        ("memory bandwidth", f"{gpu.dram_gbs:,g} GB/s", "dram_gbs"),
        ("  measured", f"{gpu.dram_measured_gbs:,g} GB/s", "dram_measured_gbs")
        if gpu.dram_measured_gbs is not None
        else ("  measured", "not known", ""),
        ("L2 cache", _size(gpu.l2_bytes), "l2_bytes"),
        ("shared memory", f"{_size(gpu.smem_sm_bytes)} an SM", "smem_sm_bytes"),
        ("  of one block", f"{gpu.smem_block_bytes:,} B", "smem_block_bytes"),
        ("registers", f"{gpu.registers_sm:,} an SM", "registers_sm"),
        ("warps, blocks", f"{gpu.warps_sm} and {gpu.ctas_sm} an SM", "warps_sm"),
        ("fp32", f"{gpu.fp32_tflops:,g} TFLOP/s", "fp32_tflops"),
        *(
            (f"tensor {name}", f"{rate:,g} TFLOP/s dense", "tensor_tflops")
            for name, rate in gpu.tensor_tflops.items()
        ),
    ]
    lines = [f"{gpu.name}: {gpu.title}{_own(gpu.origin)}", ""]
    for name, value, fact in facts:
        founded = gpu.confidence.get(fact, "")
        lines.append(_line(name, f"{value:<24}{founded}" if founded else value))
    lines.append(_line("known to the driver as", ", ".join(gpu.nvml_names)))
    lines += ["", "features"]
    lines += [_line(name, FEATURES.get(name, "")) for name in gpu.features]
    lines += ["", "FlashAttention-2, prefill: TFLOP/s by sequence length"]
    for curve in gpu.fa2.prefill:
        lines.append(_line(_curve_name(curve), "  ".join(f"{n}: {rate:g}" for n, rate in curve.points)))
    decode = gpu.fa2.decode
    lines += ["", f"FlashAttention-2, decode ({decode.kind})"]
    lines += [
        _line("one kernel", f"{decode.fixed_us:g} µs without its work"),
        _line("combining splits", f"{decode.combine_us:g} µs, and {decode.per_split_us:g} µs a split"),
        _line("reads", f"{decode.read_fraction:.0%} of the memory bandwidth"),
    ]
    return [*lines, *_sources(gpu.sources), "", *gpu.notes.strip().split("\n")]


def model_lines(model: ModelProfile) -> list[str]:
    """Heads, layers, what is not covered, sources."""
    scale = "1/sqrt(head dim)" if model.scale is None else f"{model.scale:g}"
    lines = [
        f"{model.name}: {model.title}{_own(model.origin)}",
        "",
        _line("query heads", str(model.Hq)),
        _line("KV heads", f"{model.Hkv} (groups of {model.group})"),
        _line("head dim", str(model.D)),
        _line("dtype", model.dtype),
        _line("softmax scale", scale),
        _line("layers covered", f"{model.layers} of {model.layers_total}"),
        *(_line("not covered", text) for text in model.not_covered),
        _line("founded on", model.confidence),
    ]
    return [*lines, *_sources(model.sources), "", *model.notes.strip().split("\n")]


def _line(name: str, value: str) -> str:
    return f"  {name:<{WIDTH}}  {value}".rstrip()


def _own(origin: str) -> str:
    return " (your own profile)" if origin == "user" else ""


def _size(size_bytes: int) -> str:
    return f"{size_bytes / KIB**2:g} MiB" if size_bytes >= KIB**2 else f"{size_bytes / KIB:g} KiB"


def _curve_name(curve: Fa2Curve) -> str:
    return f"D {curve.D} {'causal' if curve.causal else 'full'} ({curve.kind})"


def _sources(sources: tuple[str, ...]) -> list[str]:
    return ["", "sources", *(f"  {source}" for source in sources)]
