"""Answers for a card that is not there: a Triton driver and device queries, from the target's facts."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace
from typing import Any

import torch
import triton
from torch.overrides import TorchFunctionMode
from triton.backends.compiler import GPUTarget
from triton.backends.driver import DriverBase


def gpu_target(target: dict[str, Any]) -> GPUTarget:
    return GPUTarget("cuda", int(target["arch"]), 32)


class StandInDriver(DriverBase):  # type: ignore[misc]
    """Knows which card is meant, and can launch nothing."""

    def __init__(self, target: GPUTarget) -> None:
        self._target = target
        self.utils = SimpleNamespace()

    @classmethod
    def is_active(cls) -> bool:
        return True

    def get_current_target(self) -> GPUTarget:
        return self._target

    def get_active_torch_device(self) -> torch.device:
        return torch.device("cpu")

    def map_python_to_cpp_type(self, ty: str) -> str:
        return ty

    def get_current_device(self) -> int:
        return 0

    def set_current_device(self, device: int) -> None:
        pass

    def get_current_stream(self, device: object = None) -> int:
        return 0

    def get_device_capability(self, device: object = None) -> tuple[int, int]:
        return divmod(int(self._target.arch), 10)

    def get_benchmarker(self) -> Any:
        raise RuntimeError("nothing can be timed on a card that is not there")

    def get_device_interface(self) -> Any:
        return torch.cuda

    def get_empty_cache_for_benchmark(self) -> Any:
        raise RuntimeError("nothing can be timed on a card that is not there")

    def clear_cache(self, cache: object) -> None:
        pass


def install_driver(target: dict[str, Any]) -> None:
    triton.runtime.driver.set_active(StandInDriver(gpu_target(target)))


def install_queries(target: dict[str, Any]) -> None:
    """torch.cuda answers what the target's card would."""
    major, minor = divmod(int(target["arch"]), 10)
    properties = SimpleNamespace(
        name=target["title"],
        major=major,
        minor=minor,
        multi_processor_count=int(target["sms"]),
        total_memory=int(target["memory_bytes"]),
        L2_cache_size=int(target["l2_bytes"]),
        warp_size=32,
        max_threads_per_multi_processor=int(target["warps_sm"]) * 32,
        regs_per_multiprocessor=int(target["registers_sm"]),
        shared_memory_per_multiprocessor=int(target["smem_sm_bytes"]),
        shared_memory_per_block=48 * 1024,
        shared_memory_per_block_optin=int(target["smem_block_bytes"]),
        is_integrated=False,
    )
    answers: dict[str, Any] = {
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "set_device": lambda device: None,
        "synchronize": lambda device=None: None,
        "get_device_name": lambda device=None: target["title"],
        "get_device_capability": lambda device=None: (major, minor),
        "get_device_properties": lambda device=None: properties,
        "current_stream": lambda device=None: SimpleNamespace(cuda_stream=0),
        "device": lambda device=None: contextlib.nullcontext(),
        "device_of": lambda tensor=None: contextlib.nullcontext(),
        "is_current_stream_capturing": lambda: False,
    }
    for name, answer in answers.items():
        setattr(torch.cuda, name, answer)


HOST_READS = frozenset(["numpy", "tolist", "__array__", "__dlpack__", "__cuda_array_interface__"])


class DeviceStandIn(TorchFunctionMode):  # type: ignore[misc]
    """`device="cuda"` means the device that the inputs are on.

    Methods that show a tensor's contents to the host are noted in `reads`, but while `paused`: the
    interpreter uses them itself.
    """

    def __init__(self, device: str) -> None:
        super().__init__()
        self._device = torch.device(device)
        self.reads: set[str] = set()
        self.paused = False

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        if not self.paused and getattr(func, "__name__", "") in HOST_READS:
            self.reads.add(func.__name__)
        wanted = kwargs.get("device")
        if wanted is not None and torch.device(wanted).type == "cuda":
            kwargs["device"] = self._device
        return func(*args, **kwargs)
