"""Time configurations drawn uniformly from a seed's SPACE on a real GPU, or plain ones beside FA2 and cuDNN.

    python tests/gpu/measure_space.py --task gqa_prefill --configs 160 --seed 0 --minutes 4 --out space.json
    python tests/gpu/measure_space.py --task gqa_prefill --naive --out naive.json
    python tests/gpu/measure_space.py --task gqa_decode --configs 6 --dry-run --arch 90 --out dry.json

It needs torch and triton alone. The file holds the raw times (microseconds) of every configuration on every
workload, its resources, whether its answer was right, and the environment; a file that exists is continued.
`--dry-run` compiles for `--arch` on a machine without a GPU and measures nothing.

Timing: CUDA graphs of many calls that rotate through input sets larger than L2 together; the time of a call
is the replay's over its calls, and the median over the replays is reported beside all of them.
"""

import argparse
import concurrent.futures
import importlib.util
import itertools
import json
import multiprocessing
import os
import platform
import random
import subprocess
import sys
import time
from pathlib import Path

KERNELS = Path(__file__).resolve().parents[2] / "kernels"
HEADS = {"Hq": 32, "Hkv": 8, "D": 128, "dtype": "bf16"}
RAGGED = [4352, 1419, 6165, 3232, 7978, 5045, 2111, 6858, 3924, 991, 5737, 2804, 7550, 4617, 1683, 6430]
WORKLOADS = {
    "gqa_prefill": [
        {"id": "prefill-causal-s512", "B": 32, "Sq": 512, "Sk": 512, "causal": True},
        {"id": "prefill-causal-s2k", "B": 8, "Sq": 2048, "Sk": 2048, "causal": True},
        {"id": "prefill-causal-s8k", "B": 2, "Sq": 8192, "Sk": 8192, "causal": True},
        {"id": "prefill-chunk-q512-s8k", "B": 1, "Sq": 512, "Sk": 8192, "causal": True},
        {"id": "prefill-full-s4k", "B": 4, "Sq": 4096, "Sk": 4096, "causal": False},
    ],
    "gqa_decode": [
        {"id": "decode-b1-s1k", "B": 1, "Sq": 1, "Sk": 1024},
        {"id": "decode-b1-s8k", "B": 1, "Sq": 1, "Sk": 8192},
        {"id": "decode-b1-s32k", "B": 1, "Sq": 1, "Sk": 32768},
        {"id": "decode-b8-s8k", "B": 8, "Sq": 1, "Sk": 8192},
        {"id": "decode-b32-s2k", "B": 32, "Sq": 1, "Sk": 2048},
        {"id": "decode-b16-s8k-ragged", "B": 16, "Sq": 1, "Sk": 8192, "seq_lens": RAGGED},
        {"id": "decode-b4-q4-s8k", "B": 4, "Sq": 4, "Sk": 8192},
    ],
}
NAIVE_WORKLOADS = {
    "gqa_prefill": [
        {"id": f"d{d}-{kind}-b{b}-s{s}", "B": b, "Sq": s, "Sk": s, "D": d, "causal": kind == "causal"}
        for d in (128, 64)
        for kind in ("causal", "full")
        for b, s in ((8, 1024), (4, 4096), (1, 16384))
    ],
    "gqa_decode": [
        {"id": f"b{b}-s{s}", "B": b, "Sq": 1, "Sk": s}
        for b, s in ((1, 1024), (1, 8192), (1, 65536), (1, 131072), (16, 8192), (64, 4096), (128, 2048))
    ],
}
# Every argument of a small case falls into the same specialisation as the timed ones: multiples of 16.
SMALL = {
    "gqa_prefill": [
        {"B": 2, "Sq": 208, "Sk": 336, "causal": True},
        {"B": 2, "Sq": 272, "Sk": 272, "causal": True},
        {"B": 2, "Sq": 208, "Sk": 336, "causal": False},
    ],
    "gqa_decode": [
        {"B": 3, "Sq": 1, "Sk": 1040, "seq_lens": [0, 77, 1040]},
        {"B": 3, "Sq": 4, "Sk": 1040, "seq_lens": [2, 531, 1039]},
    ],
}
# (BLOCK_M,) BLOCK_N, warps, stages of five plain tilings.
TILINGS = {
    "gqa_prefill": [
        {"BLOCK_M": m, "BLOCK_N": n, "num_warps": w, "num_stages": s}
        for m, n, w, s in (
            (128, 128, 8, 2),
            (128, 64, 8, 3),
            (128, 64, 4, 3),
            (64, 64, 4, 3),
            (64, 128, 4, 2),
        )
    ],
    "gqa_decode": [
        {"BLOCK_N": n, "num_warps": w, "num_stages": s}
        for n, w, s in ((64, 4, 2), (64, 4, 3), (128, 4, 2), (128, 8, 3), (32, 4, 4))
    ],
}
TOLERANCE = {"factor": 2.0, "floor_abs": 1e-4, "floor_rel": 8e-3}
CHIPS = {
    80: (108, 166912),
    86: (28, 101376),
    89: (128, 101376),
    90: (132, 232448),
    100: (148, 232448),
    120: (170, 101376),
}
"""By architecture: SMs and shared memory of a block in bytes, for the dry run alone."""


def load(path):
    spec = importlib.util.spec_from_file_location(f"{path.parent.name}_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def complete(task, workload):
    """A workload dict with heads, dtype and task."""
    return {**HEADS, "task": task, "causal": True, "id": "small", **workload}


def label_of(config):
    return json.dumps(config, sort_keys=True)


def entry_of(task, module):
    return module.attention if task == "gqa_prefill" else module.decode


def draw(space, seed, first):
    """Endless configurations, uniform over SPACE without repeats; `first` comes first."""
    rng = random.Random(seed)
    seen = {label_of(first)}
    yield first
    size = 1
    for values in space.values():
        size *= len(values)
    while len(seen) < size:
        config = {name: rng.choice(values) for name, values in space.items()}
        if label_of(config) not in seen:
            seen.add(label_of(config))
            yield config


def compile_config(task, config, workloads, arch, sms):
    """In a process of its own, without CUDA: compile every launch of a configuration into Triton's cache.

    Returns (config, shared bytes of the largest launch, error or "").
    """
    import torch
    import triton
    from triton.backends.compiler import GPUTarget

    class Driver:
        def get_current_target(self):
            return GPUTarget("cuda", arch, 32)

        def get_current_device(self):
            return 0

        def get_current_stream(self, _device=None):
            return 0

    class Properties:
        multi_processor_count = sms

    triton.runtime.driver.set_active(Driver())
    torch.cuda.get_device_properties = lambda _device=None: Properties
    torch.cuda.get_device_capability = lambda _device=None: divmod(arch, 10)
    shared = [0]
    jit = triton.runtime.jit.JITFunction
    run = getattr(jit, "kernel_lab_run", jit.run)
    jit.kernel_lab_run = run

    def compile_only(self, *args, **kwargs):
        compiled = run(self, *args, **{**kwargs, "warmup": True})
        shared.append(compiled.metadata.shared)
        return compiled

    jit.run = compile_only
    try:
        module = load(KERNELS / task / "candidate.py")
        module.CONFIG = {"*": config}
        reference = load(KERNELS / task / "reference.py")
        for workload in workloads:
            reference.call(entry_of(task, module), meta_inputs(task, workload), workload)
    except Exception as error:  # noqa: BLE001 - whatever a compiler raises is the result
        return config, max(shared), f"{type(error).__name__}: {error}"[:400]
    return config, max(shared), ""


def meta_inputs(task, w):
    import torch

    def empty(*shape):
        return torch.empty(shape, dtype=torch.bfloat16, device="meta")

    q = empty(w["B"], w["Hq"], w["Sq"], w["D"])
    k, v = (empty(w["B"], w["Hkv"], w["Sk"], w["D"]) for _ in range(2))
    if task == "gqa_prefill":
        return {"q": q, "k": k, "v": v}
    lengths = torch.empty(w["B"], dtype=torch.int32, device="meta")
    return {"q": q, "k_cache": k, "v_cache": v, "seq_lens": lengths}


class Bench:
    """Inputs, answers and clocks of one task on the present GPU."""

    def __init__(self, task, workloads, small):
        import torch

        self.torch = torch
        self.task = task
        self.reference = load(KERNELS / task / "reference.py")
        self.baselines = load(KERNELS / task / "baselines.py")
        self.l2_bytes = torch.cuda.get_device_properties(0).L2_cache_size
        self.workloads = workloads
        self.sets = {}
        self.small = []
        for workload in small:
            inputs = self.reference.make_inputs(workload, seed=1, device="cuda")
            right = self.reference.reference(inputs, workload, dtype=torch.float32)
            base = self.reference.baseline_emulation(inputs, workload).float()
            limit = TOLERANCE["factor"] * (base - right).abs().max() + TOLERANCE["floor_abs"]
            self.small.append((inputs, workload, right, limit + TOLERANCE["floor_rel"] * right.abs()))

    def input_sets(self, workload):
        """Input sets that together are larger than three times L2, the same for every configuration."""
        if workload["id"] not in self.sets:
            one = self.reference.moved_bytes(workload)
            count = max(1, min(64, int(3 * self.l2_bytes // one) + 1))
            make = self.reference.make_inputs
            self.sets[workload["id"]] = [make(workload, seed=i, device="cuda") for i in range(count)]
        return self.sets[workload["id"]]

    def forget(self, workload):
        """Free a workload's inputs."""
        self.sets.pop(workload["id"], None)
        self.torch.cuda.empty_cache()

    def check(self, entry):
        """ "" if the entry is right on the small cases, else what is wrong."""
        for inputs, workload, right, limit in self.small:
            out = self.reference.call(entry, inputs, workload).float()
            excess = (out - right).abs() - limit
            if not bool((excess <= 0).all()):
                return (
                    f"Sq {workload['Sq']} causal {workload['causal']}: over the limit by {excess.max():.3g}"
                )
        return ""

    def time(self, calls, replays=7, graph_us=3000.0, most_us=300_000.0):
        """Microseconds a call, one figure for each replay of a graph that rotates through `calls`."""
        torch = self.torch
        for call in calls[:2]:
            call()
        torch.cuda.synchronize()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        calls[0]()
        end.record()
        end.synchronize()
        once_us = max(1.0, begin.elapsed_time(end) * 1000)
        count = max(1, min(200, int(graph_us / once_us)))
        if len(calls) > 1:
            count = -(-count // len(calls)) * len(calls)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for call in itertools.islice(itertools.cycle(calls), count):
                call()
        graph.replay()
        torch.cuda.synchronize()
        times, spent = [], 0.0
        while len(times) < replays and (len(times) < 3 or spent < most_us):
            begin.record()
            graph.replay()
            end.record()
            end.synchronize()
            times.append(begin.elapsed_time(end) * 1000 / count)
            spent += times[-1] * count
        return times

    def time_entry(self, entry, workload):
        call = self.reference.call
        sets = self.input_sets(workload)
        return self.time([lambda inputs=inputs: call(entry, inputs, workload) for inputs in sets])

    def time_baseline(self, name, workload):
        """Times of a baseline, or None where it has no call."""
        runs = [self.baselines.make(name, workload, inputs) for inputs in self.input_sets(workload)]
        return None if runs[0] is None else self.time(runs)

    def ceilings(self):
        """TFLOP/s of an 8192 matrix product and TB/s of a copy (read and written)."""
        torch = self.torch
        a, b = (torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(2))
        source = torch.randn(1 << 30, device="cuda", dtype=torch.bfloat16)
        target = torch.empty_like(source)
        product = median(self.time([lambda: a @ b]))
        # A kernel, not copy_: in a graph that is a memcpy node, which is slower.
        copy = median(self.time([lambda: torch.mul(source, 2, out=target)]))
        return {"matmul_tflops": 2 * 8192**3 / product / 1e6, "copy_tbs": 4 * (1 << 30) / copy / 1e6}


def median(values):
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def environment():
    import torch
    import triton

    facts = {"python": platform.python_version(), "torch": torch.__version__, "triton": triton.__version__}
    if torch.cuda.is_available():
        p = torch.cuda.get_device_properties(0)
        facts.update(
            gpu=p.name, sms=p.multi_processor_count, capability=[p.major, p.minor], l2_bytes=p.L2_cache_size
        )
        facts["cudnn"] = torch.backends.cudnn.version()
        facts["fp_fusion"] = os.environ.get("TRITON_DEFAULT_FP_FUSION", "unset")
        query = "--query-gpu=driver_version,clocks.sm,clocks.mem,temperature.gpu,power.draw"
        try:
            answer = subprocess.run(
                ["nvidia-smi", query, "--format=csv,noheader"], capture_output=True, text=True, timeout=20
            )
            facts["nvidia_smi"] = answer.stdout.strip()
        except (OSError, subprocess.TimeoutExpired):
            facts["nvidia_smi"] = ""
    return facts


def save(path, data):
    part = path.with_suffix(path.suffix + ".part")
    part.write_text(json.dumps(data, indent=1))
    part.replace(path)


def record_resources(resources):
    """From now on note registers, spills and shared memory of every compiled launch in `resources`."""
    import triton

    jit = triton.runtime.jit.JITFunction
    run = jit.run

    def noted(self, *args, **kwargs):
        compiled = run(self, *args, **kwargs)
        name = getattr(getattr(self, "fn", None), "__name__", "kernel")
        facts = {"shared": compiled.metadata.shared, "warps": compiled.metadata.num_warps}
        facts.update(regs=getattr(compiled, "n_regs", None), spills=getattr(compiled, "n_spills", None))
        if facts not in resources.setdefault(name, []):
            resources[name].append(facts)
        return compiled

    jit.run = noted


def measure_config(bench, module, task, config, resources):
    """The row of one configuration: resources, verdict on the small cases, times by workload."""
    module.CONFIG = {"*": config}
    resources.clear()
    entry = entry_of(task, module)
    row = {"config": config, "wrong": bench.check(entry), "times_us": {}, "median_us": {}}
    for workload in bench.workloads:
        times = bench.time_entry(entry, workload)
        row["times_us"][workload["id"]] = [round(t, 3) for t in times]
        row["median_us"][workload["id"]] = round(median(times), 3)
    row["resources"] = {name: list(rows) for name, rows in resources.items()}
    return row


def measure_space(args, data):
    """Draw, compile in parallel, check and time until the count or the minutes are reached."""
    import torch

    deadline = time.monotonic() + args.minutes * 60
    workloads = [complete(args.task, w) for w in WORKLOADS[args.task]]
    small = [complete(args.task, w) for w in SMALL[args.task]]
    module = load(KERNELS / args.task / "candidate.py")
    seed_config = dict(module.CONFIG["*"])
    if args.dry_run:
        arch = args.arch
        sms, limit = CHIPS[arch]
    else:
        p = torch.cuda.get_device_properties(0)
        arch, sms, limit = p.major * 10 + p.minor, p.multi_processor_count, p.shared_memory_per_block_optin
        bench = Bench(args.task, workloads, small)
        data["ceilings"] = bench.ceilings()
        data["baselines"] = {
            name: {w["id"]: bench.time_baseline(name, w) for w in workloads}
            for name, missing in bench.baselines.available().items()
            if missing is None
        }
        resources = {}
        record_resources(resources)
        save(args.out, data)
    done = {label_of(row["config"]) for row in data["rows"]}
    configs = draw(module.SPACE, args.seed, seed_config)
    fitting = sum(1 for row in data["rows"] if "refused" not in row)
    context = multiprocessing.get_context("spawn")
    jobs = max(1, args.jobs)
    with concurrent.futures.ProcessPoolExecutor(jobs, mp_context=context) as pool:
        waiting = set()
        while fitting < args.configs and time.monotonic() < deadline:
            while len(waiting) < jobs + 4:
                config = next((c for c in configs if label_of(c) not in done), None)
                if config is None:
                    break
                waiting.add(pool.submit(compile_config, args.task, config, workloads + small, arch, sms))
            if not waiting:
                break
            ready, waiting = concurrent.futures.wait(waiting, return_when=concurrent.futures.FIRST_COMPLETED)
            for future in ready:
                config, shared, error = future.result()
                if shared > limit:
                    error = f"needs {shared:,} B of shared memory, a block has {limit:,}"
                if error:
                    data["rows"].append({"config": config, "refused": error})
                elif args.dry_run:
                    data["rows"].append({"config": config, "shared": shared})
                    fitting += 1
                elif fitting < args.configs and time.monotonic() < deadline:
                    row = run_guarded(args, data, bench, module, config, resources)
                    data["rows"].append(row)
                    fitting += 1
                save(args.out, data)
        for future in waiting:
            future.cancel()
        pool.shutdown(wait=False, cancel_futures=True)
    refused = sum(1 for row in data["rows"] if "refused" in row)
    wrong = sum(1 for row in data["rows"] if row.get("wrong"))
    print(f"{fitting} configurations, {refused} refused, {wrong} wrong, in {args.out}")


def run_guarded(args, data, bench, module, config, resources):
    """measure_config, but a fault of the card is written down and this program starts anew behind it."""
    import torch

    try:
        return measure_config(bench, module, args.task, config, resources)
    except Exception as error:  # noqa: BLE001 - whatever a kernel does is its result
        row = {"config": config, "refused": f"{type(error).__name__}: {error}"[:400]}
        try:
            torch.cuda.synchronize()
        except RuntimeError:
            data["rows"].append(row)
            save(args.out, data)
            left = args.minutes - (time.monotonic() - STARTED) / 60
            command = [sys.executable, *sys.argv, "--minutes", f"{max(0.1, left):.2f}"]
            os.execv(sys.executable, command)  # noqa: S606
        return row


def measure_naive(args, data):
    """The seed with plain tilings beside FA2 and cuDNN on the shapes of the project's H200 table."""
    module = load(KERNELS / args.task / "candidate.py")
    off = {**module.CONFIG["*"], "SKIP": args.task == "gqa_prefill"}
    configs = [{**off, **tiling, "EXP2": exp2} for exp2 in (False, True) for tiling in TILINGS[args.task]]
    small = [complete(args.task, w) for w in SMALL[args.task]]
    bench = Bench(args.task, [], small)
    data.setdefault("ceilings", bench.ceilings())
    resources = {}
    record_resources(resources)
    done = {row["workload"]["id"] for row in data["rows"]}
    present = [name for name, missing in bench.baselines.available().items() if missing is None]
    deadline = time.monotonic() + args.minutes * 60
    for workload in (complete(args.task, w) for w in NAIVE_WORKLOADS[args.task]):
        if workload["id"] in done or time.monotonic() > deadline:
            continue
        flops, moved = bench.reference.flops(workload), bench.reference.moved_bytes(workload)
        row = {"workload": workload, "flops": flops, "bytes": moved, "baselines_us": {}, "naive": []}
        for name in present:
            times = bench.time_baseline(name, workload)
            row["baselines_us"][name] = None if times is None else median(times)
        for config in configs:
            module.CONFIG = {"*": config}
            resources.clear()
            try:
                wrong = bench.check(entry_of(args.task, module)) if workload["D"] == 128 else ""
                time_us = median(bench.time_entry(entry_of(args.task, module), workload))
            except Exception as error:  # noqa: BLE001 - a tiling that does not fit is a result
                row["naive"].append({"config": config, "refused": f"{type(error).__name__}: {error}"[:300]})
                continue
            noted = {name: list(rows) for name, rows in resources.items()}
            row["naive"].append({"config": config, "time_us": time_us, "wrong": wrong, "resources": noted})
        best = min((n["time_us"] for n in row["naive"] if "time_us" in n), default=None)
        row["naive_best_us"] = best
        data["rows"].append(row)
        save(args.out, data)
        bench.forget(workload)
        shown = {**row["baselines_us"], "naive": best}
        unit = "TFLOP/s" if args.task == "gqa_prefill" else "TB/s"
        work = flops / 1e6 if args.task == "gqa_prefill" else moved / 1e6
        rates = ", ".join(f"{n} {t:.1f} us = {work / t:.4g} {unit}" for n, t in shown.items() if t)
        print(f"{workload['id']}: {rates}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--task", required=True, choices=sorted(WORKLOADS))
    parser.add_argument(
        "--configs", type=int, default=160, help="configurations that compile and fit (default 160)"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=4.0, help="stop after so long (default 4)")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--naive", action="store_true", help="plain tilings beside FA2 and cuDNN instead")
    parser.add_argument("--dry-run", action="store_true", help="compile alone, for --arch; no GPU needed")
    parser.add_argument("--arch", type=int, default=90, choices=sorted(CHIPS))
    parser.add_argument(
        "--jobs", type=int, default=max(1, (os.cpu_count() or 2) - 2), help="compiling processes"
    )
    args = parser.parse_args()
    import torch

    if not args.dry_run and not torch.cuda.is_available():
        parser.error("no CUDA device here: run it beside a GPU, or add --dry-run")
    mode = "naive" if args.naive else "dry" if args.dry_run else "space"
    data = {"task": args.task, "mode": mode, "seed": args.seed, "rows": []}
    if args.out.exists():
        old = json.loads(args.out.read_text())
        if (old.get("task"), old.get("mode"), old.get("seed")) != (args.task, mode, args.seed):
            parser.error(f"{args.out} holds another measurement: name another file")
        data = old
    data.setdefault("environment", environment())
    if args.naive:
        measure_naive(args, data)
    else:
        measure_space(args, data)


STARTED = time.monotonic()

if __name__ == "__main__":
    main()
