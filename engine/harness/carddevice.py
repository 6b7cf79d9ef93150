"""What every process with a CUDA context of its own shares: its start, shared host memory, and its graphs."""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Callable
from typing import Any

import torch

NODE_KERNEL = 0
_NODE_KINDS = {1: "memcpy", 2: "memset", 3: "host", 4: "graph", 5: "empty", 6: "wait", 7: "record"}


def begin(specification: dict[str, Any]) -> None:
    """Make the context, on the card that the specification names."""
    os.environ.update(specification["environment"])
    torch.cuda.init()
    torch.zeros(1, device="cuda")
    # What these remember from their first call on is no change by a candidate.
    torch.cuda.device_count()
    torch.cuda.get_device_properties(torch.cuda.current_device())
    torch.cuda.synchronize()


class Shared:
    """Host memory shared with other processes, pinned where the driver lets it be."""

    def __init__(self, descriptor: int) -> None:
        self.bytes = os.fstat(descriptor).st_size
        self._map = mmap.mmap(descriptor, self.bytes)
        self._all = torch.frombuffer(self._map, dtype=torch.uint8)
        done = torch.cuda.cudart().cudaHostRegister(self._all.data_ptr(), self.bytes, 0)
        self.pinned = int(done) == 0

    def at(self, offset: int, size: int) -> torch.Tensor:
        return self._all[offset : offset + size]


def raw(tensor: torch.Tensor) -> torch.Tensor:
    """All bytes of a tensor's storage."""
    return torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(tensor.untyped_storage())


def storages_of(inputs: dict[str, torch.Tensor]) -> list[torch.Tensor]:
    """The raw bytes that inputs lie in, one tensor for each storage, in the order of `tensors.layouts`."""
    found: dict[int, torch.Tensor] = {}
    for tensor in inputs.values():
        found.setdefault(tensor.untyped_storage()._cdata, raw(tensor))
    return list(found.values())


def clone(inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Copies that lie as the originals do, storages shared as they were."""
    storages: dict[int, torch.Tensor] = {}
    made = {}
    for name, tensor in inputs.items():
        key = tensor.untyped_storage()._cdata
        if key not in storages:
            storages[key] = raw(tensor).clone()
        flat = storages[key].view(tensor.dtype)
        made[name] = flat.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
    return made


def new_storages(layout: dict[str, dict[str, Any]]) -> list[torch.Tensor]:
    sizes = {one["storage"]: one["storage_bytes"] for one in layout.values()}
    return [torch.empty(sizes[number], dtype=torch.uint8, device="cuda") for number in sorted(sizes)]


def laid_out(layout: dict[str, dict[str, Any]], storages: list[torch.Tensor]) -> dict[str, torch.Tensor]:
    """The inputs, as views that lie in the storages as the layout says."""
    made = {}
    for name, one in layout.items():
        flat = storages[one["storage"]].view(getattr(torch, one["dtype"]))
        made[name] = flat.as_strided(one["shape"], one["strides"], one["offset"])
    return made


def digest(data: torch.Tensor) -> torch.Tensor:
    """Two 64-bit sums over the bits of a tensor: equal for equal bits, as good as never for others."""
    flat = data.detach().contiguous().view(torch.uint8).flatten()
    if flat.numel() % 2:
        flat = torch.nn.functional.pad(flat, (0, 1))
    words = flat.view(torch.int16)
    sums = []
    for factor in (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F):
        total = torch.zeros((), dtype=torch.int64, device=flat.device)
        for start in range(0, words.numel(), 1 << 22):
            part = words[start : start + (1 << 22)].to(torch.int64)
            weights = torch.arange(start + 1, start + 1 + part.numel(), device=flat.device)
            mixed = weights * (factor - (1 << 64))
            total += ((mixed ^ (mixed >> 29)) * (part + 0x10001)).sum()
        sums.append(total)
    return torch.stack(sums)


def poison(tensor: torch.Tensor) -> None:
    tensor.fill_(float("nan")) if tensor.dtype.is_floating_point else tensor.fill_(0x55)


class Graph:
    """Calls captured once and replayed; what they launch is read out of the graph itself."""

    def __init__(self, calls: list[Callable[[], torch.Tensor]]) -> None:
        self._graph = torch.cuda.CUDAGraph(keep_graph=True)
        self.outs: list[torch.Tensor] = []
        stream = torch.cuda.Stream()
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            self._graph.capture_begin()
            try:
                self.outs = [call() for call in calls]
            finally:
                self._graph.capture_end()
        self.nodes = nodes_of(self._graph.raw_cuda_graph())
        self._graph.instantiate()
        torch.cuda.synchronize()

    def replay(self) -> None:
        self._graph.replay()


class _KernelNode(ctypes.Structure):
    _fields_ = (
        ("function", ctypes.c_void_p),
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("smem_bytes", ctypes.c_uint),
        ("params", ctypes.c_void_p),
        ("extra", ctypes.c_void_p),
        ("kernel", ctypes.c_void_p),
        ("context", ctypes.c_void_p),
    )


def nodes_of(graph: int) -> list[list[Any]]:
    """Every node of a captured graph, in order: a kernel's name and grid, or what else it does and [0, 0, 0].

    The driver itself is asked, so that nothing which is launched can be missing here.
    """
    driver = ctypes.CDLL("libcuda.so.1")
    handle = ctypes.c_void_p(graph)
    count = ctypes.c_size_t()
    _checked(driver.cuGraphGetNodes(handle, None, ctypes.byref(count)), "cuGraphGetNodes")
    nodes = (ctypes.c_void_p * count.value)()
    if count.value:
        _checked(driver.cuGraphGetNodes(handle, nodes, ctypes.byref(count)), "cuGraphGetNodes")
    found: list[list[Any]] = []
    for node in nodes:
        kind = ctypes.c_int()
        _checked(driver.cuGraphNodeGetType(ctypes.c_void_p(node), ctypes.byref(kind)), "cuGraphNodeGetType")
        if kind.value != NODE_KERNEL:
            found.append([_NODE_KINDS.get(kind.value, f"node{kind.value}"), [0, 0, 0]])
            continue
        params = _KernelNode()
        get = driver.cuGraphKernelNodeGetParams_v2
        _checked(get(ctypes.c_void_p(node), ctypes.byref(params)), "cuGraphKernelNodeGetParams")
        found.append([_kernel_name(driver, params), list(params.grid)])
    return found


def _kernel_name(driver: ctypes.CDLL, params: _KernelNode) -> str:
    name = ctypes.c_char_p()
    for function, handle in (("cuFuncGetName", params.function), ("cuKernelGetName", params.kernel)):
        get = getattr(driver, function, None)  # absent before CUDA 12.3
        if get is not None and handle and get(ctypes.byref(name), ctypes.c_void_p(handle)) == 0:
            return (name.value or b"").decode("utf-8", "replace")[:200]
    return "unnamed"


def _checked(code: int, what: str) -> None:
    if code:
        raise RuntimeError(f"{what} answers {code}")
