"""Reading one profile file: TOML to dataclasses, every wrong value refused with file, line and remedy."""

from __future__ import annotations

import re
from pathlib import Path

from kernel_lab.engine.errors import ProfileError
from kernel_lab.engine.profile_types import (
    CONFIDENCE,
    DTYPES,
    FEATURES,
    FIGURE_KINDS,
    TENSOR_RATES,
    Fa2Curve,
    Fa2Decode,
    Fa2Profile,
    GpuProfile,
    ModelProfile,
    Origin,
)
from kernel_lab.engine.tomlread import Table, TomlFile, near

_NAME = re.compile(r"[a-z0-9][a-z0-9.-]*")


def _head(root: Table) -> tuple[str, str]:
    """Name and title; the name must be the file's own, since it is found by that."""
    name = root.text("name")
    stem = root.file.path.stem
    if name != stem or not _NAME.fullmatch(name):
        root.fail("name", f'"name" is "{name}" in a file called {stem}.toml', "give both one lower-case name")
    return name, root.text("title")


def _founded(table: Table, levels: dict[str, str], facts: tuple[str, ...]) -> str:
    """Read a group's source and confidence, noting the confidence of each fact; the source comes back."""
    level = table.text("confidence", one_of=CONFIDENCE)
    levels.update(dict.fromkeys(facts, level))
    if table.has("uncertain"):
        exceptions = table.table("uncertain")
        for fact in exceptions.names():
            if fact not in facts:
                table.fail(
                    "uncertain", f'"{fact}" is no fact of this group', f"use one of {', '.join(facts)}"
                )
            levels[fact] = exceptions.text(fact, one_of=CONFIDENCE)
    group = ".".join(part for part in table.where if isinstance(part, str))
    return f"{group}: {table.text('source')}"


def read_gpu(path: Path, origin: Origin, notes: str) -> GpuProfile:
    root = TomlFile(path, ProfileError).root()
    name, title = _head(root)
    arch = root.integer("arch", low=10, high=200)
    if arch < 80:
        root.fail("arch", f"sm_{arch} has no tensor cores in Triton", "use a card of sm_80 or later")
    levels: dict[str, str] = {}
    compute = root.table("compute")
    rates = compute.table("tensor_tflops")
    tensor_tflops = {key: rates.number(key, high=100_000) for key in rates.names() if key in TENSOR_RATES}
    rates.done()
    for needed in DTYPES:
        rates.value(needed, "TFLOP/s, dense, fp32 accumulation")
    features = compute.texts("features")
    for feature in features:
        if feature not in FEATURES:
            remedy = f"known: {', '.join(FEATURES)}"
            compute.fail("features", f'unknown feature "{feature}"{near(feature, FEATURES)}', remedy)
    compute_facts = ("sms", "boost_ghz", "tensor_tflops", "fp32_tflops", "features")
    sources = [_founded(compute, levels, compute_facts)]
    sm = root.table("sm")
    smem_sm_bytes = sm.integer("smem_sm_bytes", high=2**24)
    smem_block_bytes = sm.integer("smem_block_bytes", high=2**24)
    if smem_block_bytes > smem_sm_bytes:
        what = f'"smem_block_bytes" is {smem_block_bytes:,}, more than the {smem_sm_bytes:,} of the whole SM'
        sm.fail("smem_block_bytes", what, "a block gets at most what an SM has")
    sm_facts = ("smem_sm_bytes", "smem_block_bytes", "registers_sm", "warps_sm", "ctas_sm")
    sources.append(_founded(sm, levels, sm_facts))
    memory = root.table("memory")
    dram_gbs = memory.number("dram_gbs", high=100_000)
    measured = memory.number("dram_measured_gbs", high=dram_gbs) if memory.has("dram_measured_gbs") else None
    l2_bytes = memory.integer("l2_bytes", high=2**34)
    memory_bytes = memory.integer("memory_bytes", low=2**30, high=2**44)
    if l2_bytes >= memory_bytes:
        memory.fail("l2_bytes", "L2 is not smaller than the memory", "check the units: both are bytes")
    memory_facts = ("dram_gbs", "dram_measured_gbs", "l2_bytes", "memory_bytes")
    sources.append(_founded(memory, levels, memory_facts))
    fa2 = _read_fa2(root.table("fa2"), roof_tflops=tensor_tflops["bf16"])
    sources += [f"fa2 prefill d{c.D} ({c.kind}): {c.source}" for c in fa2.prefill]
    sources.append(f"fa2 decode ({fa2.decode.kind}): {fa2.decode.source}")
    profile = GpuProfile(
        name=name,
        title=title,
        arch=arch,
        sms=compute.integer("sms", high=4096),
        boost_ghz=compute.number("boost_ghz", high=10),
        dram_gbs=dram_gbs,
        dram_measured_gbs=measured,
        l2_bytes=l2_bytes,
        memory_bytes=memory_bytes,
        smem_sm_bytes=smem_sm_bytes,
        smem_block_bytes=smem_block_bytes,
        registers_sm=sm.integer("registers_sm", high=2**24),
        warps_sm=sm.integer("warps_sm", high=1024),
        ctas_sm=sm.integer("ctas_sm", high=1024),
        tensor_tflops=tensor_tflops,
        fp32_tflops=compute.number("fp32_tflops", high=100_000),
        features=features,
        fa2=fa2,
        confidence=levels,
        sources=tuple(dict.fromkeys(sources)),
        nvml_names=root.texts("nvml_names"),
        notes=notes,
        origin=origin,
    )
    for table in (compute, sm, memory, root):
        table.done()
    return profile


def _read_fa2(table: Table, roof_tflops: float) -> Fa2Profile:
    curves = tuple(_read_curve(entry, roof_tflops) for entry in table.tables("prefill"))
    for causal in (False, True):
        if not any(curve.causal is causal and curve.D == 128 for curve in curves):
            which = "causal" if causal else "full"
            table.fail("prefill", f"no {which} figures for D = 128", "add a [[fa2.prefill]] section for them")
    decode = table.table("decode")
    figures = Fa2Decode(
        fixed_us=decode.number("fixed_us", high=1000),
        combine_us=decode.number("combine_us", high=1000),
        per_split_us=decode.number("per_split_us", high=100),
        read_fraction=decode.number("read_fraction", high=1.0),
        kind=decode.text("kind", one_of=FIGURE_KINDS),
        source=decode.text("source"),
    )
    decode.done()
    table.done()
    return Fa2Profile(curves, figures)


def _read_curve(entry: Table, roof_tflops: float) -> Fa2Curve:
    shape = "[[length, TFLOP/s], …], lengths ascending"
    rows = entry.value("points", shape)
    if not isinstance(rows, list) or not rows or not all(isinstance(r, list) and len(r) == 2 for r in rows):
        entry.fail("points", '"points" has another shape', f"it must be {shape}")
    points: list[tuple[int, float]] = []
    for length, tflops in rows:
        if not isinstance(length, int) or isinstance(length, bool) or length < 1:
            entry.fail("points", f"{length!r} is no sequence length", f"it must be {shape}")
        if points and length <= points[-1][0]:
            entry.fail("points", f"length {length} follows {points[-1][0]}", f"it must be {shape}")
        # Cards may boost past their rated clock, so the rated roof is no hard limit.
        points.append((length, entry.checked_number("points", tflops, above=0, high=1.1 * roof_tflops)))
    curve = Fa2Curve(
        D=entry.integer("D", high=256),
        causal=entry.boolean("causal"),
        kind=entry.text("kind", one_of=FIGURE_KINDS),
        points=tuple(points),
        source=entry.text("source"),
    )
    entry.done()
    return curve


def read_model(path: Path, origin: Origin, notes: str) -> ModelProfile:
    root = TomlFile(path, ProfileError).root()
    name, title = _head(root)
    attention = root.table("attention")
    heads = attention.integer("Hq", high=1024)
    kv_heads = attention.integer("Hkv", high=1024)
    if heads % kv_heads:
        what = f'"Hkv" is {kv_heads}, which does not divide the {heads} query heads'
        attention.fail("Hkv", what, "use the number of KV heads of the whole model")
    layers = attention.integer("layers", low=0, high=10_000)
    total = attention.integer("layers_total", high=10_000)
    missing = root.tables("not_covered", required=False)
    counts = [entry.integer("layers", high=10_000) for entry in missing]
    if layers + sum(counts) != total:
        what = f"{layers} covered and {sum(counts)} not covered layers are not the {total} of the model"
        attention.fail("layers_total", what, "name every layer that is not covered in [[not_covered]]")
    not_covered = tuple(
        f"{count} of {total} layers: {entry.text('what')} ({entry.text('why')})"
        for count, entry in zip(counts, missing, strict=True)
    )
    levels: dict[str, str] = {}
    source = _founded(attention, levels, ("Hq", "Hkv", "D", "dtype", "scale", "layers", "layers_total"))
    dim = attention.integer("D", low=8, high=1024)
    if layers and (dim > 256 or dim % 8):
        attention.fail("D", f'"D" is {dim}', "covered layers have a multiple of 8 up to 256")
    model = ModelProfile(
        name=name,
        title=title,
        Hq=heads,
        Hkv=kv_heads,
        D=dim,
        dtype=attention.text("dtype", one_of=DTYPES),
        scale=attention.number("scale", high=10) if attention.has("scale") else None,
        layers=layers,
        layers_total=total,
        not_covered=not_covered,
        confidence=max(levels.values(), key=CONFIDENCE.index),
        sources=(source,),
        notes=notes,
        origin=origin,
    )
    for table in (*missing, attention, root):
        table.done()
    return model
