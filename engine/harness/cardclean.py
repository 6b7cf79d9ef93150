"""A clean process on the card: trusted code alone, started anew for each purpose.

health    a small kernel gives the right result
roofs     the rates that the card reaches
baseline  a contestant of a timed race
agree     the baselines once more, by another clock in another process, and the kernels that really ran
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

import carddevice
import cardlane
import cardroofs
import tensors
import torch
from carddevice import Shared
from cardtasks import Baseline
from wire import Wire, one_line

AGREE_SECONDS = 0.1
AGREE_BLOCK_S = 0.005


def run(wire: Wire, specification: dict[str, Any], descriptors: list[int]) -> int:
    try:
        carddevice.begin(specification)
        what = specification["do"]
        if what == "health":
            wire.send(healthy=_health(), target=_target())
        elif what == "roofs":
            wire.send(roofs=cardroofs.measure(specification["seconds"]))
        elif what == "agree":
            wire.send(agree=_agree(specification))
        elif what == "baseline":
            _race(wire, specification, descriptors)
    except EOFError:
        return 0
    except Exception as failure:  # noqa: BLE001 (the driver and a task's own code can fail in any way)
        import traceback

        traceback.print_exc()
        wire.send(failed=one_line(f"{specification['do']}: {type(failure).__name__}: {failure}"))
    return 0


def _health() -> bool:
    x = torch.arange(1 << 20, device="cuda", dtype=torch.int64)
    if int((x * 2 + 1).sum()) != 1 << 40:
        raise RuntimeError("the card computes a wrong sum")
    return True


def _target() -> dict[str, Any]:
    """The card as a compiler sees it, by the names of a profile's target."""
    card = torch.cuda.get_device_properties(0)
    return {
        "title": card.name,
        "arch": card.major * 10 + card.minor,
        "sms": card.multi_processor_count,
        "memory_bytes": card.total_memory,
        "l2_bytes": card.L2_cache_size,
        "warps_sm": card.max_threads_per_multi_processor // 32,
        "registers_sm": card.regs_per_multiprocessor,
        "smem_sm_bytes": card.shared_memory_per_multiprocessor,
        "smem_block_bytes": card.shared_memory_per_block_optin,
    }


def _race(wire: Wire, specification: dict[str, Any], descriptors: list[int]) -> None:
    baseline = Baseline(specification["task_dir"], specification["name"])
    shared = Shared(descriptors[0])
    line = Wire(socket.socket(fileno=descriptors[1]))
    line.trust(specification["line_nonce"])
    workloads = {workload["id"]: workload for workload in specification["workloads"]}

    def make(inputs: dict[str, torch.Tensor], order: dict[str, Any]) -> Callable[[], torch.Tensor] | None:
        try:
            return baseline.make(inputs, workloads[order["lane"]])
        except RuntimeError:
            return None

    wire.send(ready=True, missing=baseline.missing)
    cardlane.Contestant(line, shared, make).serve()
    wire.send(raced=True)


def _agree(specification: dict[str, Any]) -> dict[str, Any]:
    """By baseline and workload: microseconds of a call with a cold L2, and the names of its kernels."""
    reference = tensors.load_reference(specification["task_dir"])
    l2_bytes = torch.cuda.get_device_properties(0).L2_cache_size
    found: dict[str, Any] = {name: {} for name in specification["names"]}
    for workload in specification["workloads"]:
        count = max(2, min(64, int(3 * l2_bytes // max(1.0, reference.moved_bytes(workload))) + 1))
        sets = [reference.make_inputs(workload, seed=n, device="cuda") for n in range(count)]
        for name in specification["names"]:
            baseline = Baseline(specification["task_dir"], name)
            if baseline.missing is not None or baseline.answer(sets[0], workload) is None:
                continue
            made = [baseline.make(inputs, workload) for inputs in sets]
            calls = [call for call in made if call is not None]
            once = cardroofs.seconds_of(carddevice.Graph(calls).replay, 0.0)
            calls = calls * max(1, round(AGREE_BLOCK_S / once))
            us = cardroofs.seconds_of(carddevice.Graph(calls).replay, AGREE_SECONDS) / len(calls) * 1e6
            kernels = _profiled(calls[0])
            found[name][workload["id"]] = {
                "us": round(us, 3), "kernels": kernels, "named": baseline.is_named(kernels),
            }  # fmt: skip
        del sets
        torch.cuda.empty_cache()
    return found


def _profiled(call: Callable[[], object]) -> list[str]:
    """Names of the kernels that one call runs, as the profiler sees them."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        call()
        torch.cuda.synchronize()
    others = ("cuda", "cuLaunch", "Activity Buffer")
    names = {event.key for event in seen.key_averages() if event.key and not event.key.startswith(others)}
    return sorted(name[:200] for name in names)
