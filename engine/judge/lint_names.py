"""What a candidate may name: modules, torch functions, attributes and built-in functions.

Each table is an allowlist; the names that are known to be misused have a rule of their own, so that the
finding says what is wrong with them.
"""

from __future__ import annotations

import sys


def words(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())


# ---- imports --------------------------------------------------------------------------------------

MODULES = ("torch", "triton", "math", "functools", "typing", "__future__", "collections.abc")
"""Roots that may be imported; what may be used of each is said below."""

HARMLESS_STANDARD = words(
    """
    abc array bisect cmath collections contextlib copy dataclasses decimal enum fractions heapq itertools
    logging numbers operator random re statistics string textwrap warnings
    """
)
"""Modules of the standard library whose import is wrong but no attempt to get out."""

OBFUSCATING = words("importlib base64 binascii zlib lzma bz2 gzip codecs pickle marshal types")
INTROSPECTING = words("inspect gc sys ast dis traceback builtins weakref tracemalloc linecache")
LIBRARIES = words(
    """
    flash_attn flash_attn_interface flashinfer xformers cutlass cuda cupy jax numba torchvision
    transformers vllm sglang liger_kernel kernels transformer_engine deepspeed tilelang tvm flag_gems apex
    sageattention
    """
)


def import_rule(module: str) -> str | None:
    """The rule that an import breaks, or None."""
    root = module.split(".")[0]
    if module in MODULES:
        return None
    if root == "torch":
        return path_rule(module, kernel=False)
    if root == "triton":  # a name may serve the host, kernels or both: each use is checked where it stands
        return path_rule(module, kernel=True) and path_rule(module, kernel=False)
    if root in OBFUSCATING:
        return "obfuscation"
    if root in INTROSPECTING:
        return "introspection"
    if root in LIBRARIES:
        return "library"
    if root in sys.stdlib_module_names and root not in HARMLESS_STANDARD and root not in ("math", "numbers"):
        return "escape"
    return "import"


# ---- torch ----------------------------------------------------------------------------------------

DTYPES = words(
    """
    float16 bfloat16 float32 float64 half float double int8 int16 int32 int64 int long short uint8 uint16
    uint32 uint64 bool dtype float8_e4m3fn float8_e5m2
    """
)

TORCH_ALLOCATE = words(
    """
    torch.empty torch.empty_like torch.empty_strided torch.zeros torch.zeros_like torch.ones
    torch.ones_like torch.full torch.full_like torch.arange
    """
)
TORCH_VIEW = words(
    """
    torch.as_strided torch.broadcast_to torch.flatten torch.movedim torch.narrow torch.permute
    torch.reshape torch.squeeze torch.swapaxes torch.transpose torch.unbind torch.unflatten
    torch.unsqueeze torch.select torch.chunk torch.split torch.t torch.clone torch.cat torch.stack
    """
)
TORCH_FACTS = words(
    """
    torch.cuda.get_device_properties torch.cuda.get_device_capability torch.cuda.current_device
    torch.cuda.get_device_name
    """
)
TORCH_OTHER = words(
    """
    torch torch.cuda torch.cuda.device torch.Tensor torch.Size torch.device torch.finfo torch.iinfo
    torch.is_tensor torch.numel torch.no_grad torch.inference_mode torch.strided torch.contiguous_format
    torch.preserve_format torch.channels_last
    """
)
TORCH = TORCH_ALLOCATE | TORCH_VIEW | TORCH_FACTS | TORCH_OTHER | {f"torch.{name}" for name in DTYPES}

_TORCH_RULES = {
    "mode": words(
        "_dynamo compiler _subclasses is_grad_enabled is_inference_mode_enabled testing utils.benchmark"
    ),
    "introspection": words("overrides utils._python_dispatch _C fx _prims _refs"),
    "monkeypatch": words("backends set_ use_deterministic manual_seed seed random autocast enable_grad"),
    "escape": words("load save from_file multiprocessing distributed hub package serialization"),
    "library": words(
        "nn ops compile jit library func vmap autograd ao sparse linalg special fft utils classes"
    ),
    "pointer_key": words("UntypedStorage TypedStorage from_dlpack to_dlpack frombuffer"),
    "host_sync": words("tensor as_tensor asarray from_numpy scalar_tensor equal allclose is_nonzero nonzero"),
    "stream": words("profiler mps xpu cpu accelerator Stream Event"),
}
"""Beginnings of what lies in torch and is no plain computation, by the rule that it breaks."""


def _torch_rule(path: str) -> str | None:
    if path in TORCH:
        return None
    rest = path.removeprefix("torch.")
    if rest.startswith("cuda."):
        name = rest.removeprefix("cuda.")
        if name.startswith(("is_current_stream_capturing", "is_available", "is_initialized")):
            return "mode"
        return "stream"
    if rest.startswith("Tensor."):
        return "torch_compute"
    for rule, names in _TORCH_RULES.items():
        for name in names:
            if rest == name or rest.startswith(f"{name}.") or (name.endswith("_") and rest.startswith(name)):
                return rule
    if "._" in path or rest.startswith("_"):
        return "introspection"
    return "torch_compute"


# ---- triton ---------------------------------------------------------------------------------------

KERNEL_MODULES = ("triton.language", "triton.experimental.gluon.language", "triton.experimental.gluon")
TRITON_FACTS = {
    "triton.runtime.driver.active.get_current_device",
    "triton.runtime.driver.active.get_current_target",
    "triton.runtime.driver.active.utils.get_device_properties",
}
TRITON = TRITON_FACTS | words(
    """
    triton triton.jit triton.cdiv triton.next_power_of_2 triton.heuristics triton.aggregate
    triton.constexpr_function triton.must_use_result triton.set_allocator triton.reinterpret
    triton.language triton.tools triton.tools.tensor_descriptor triton.experimental
    triton.tools.tensor_descriptor.TensorDescriptor
    triton.tools.tensor_descriptor.TensorDescriptor.from_tensor triton.experimental.gluon
    triton.experimental.gluon.language triton.experimental.gluon.nvidia triton.experimental.gluon.jit
    triton.experimental.gluon.aggregate triton.runtime triton.runtime.driver
    triton.experimental.gluon.constexpr_function triton.experimental.gluon.must_use_result
    triton.language.core._aggregate triton.runtime.driver.active triton.runtime.driver.active.utils
    triton.experimental.gluon.nvidia.hopper triton.experimental.gluon.nvidia.blackwell
    """
)

JIT = {"triton.jit", "triton.experimental.gluon.jit"}
AGGREGATE = {"triton.aggregate", "triton.experimental.gluon.aggregate", "triton.language.core._aggregate"}
DEVICE_FUNCTION = words(
    """
    triton.constexpr_function triton.must_use_result triton.experimental.gluon.constexpr_function
    triton.experimental.gluon.must_use_result
    """
)
CACHES = {"functools.cache", "functools.lru_cache"}
NO_GRAD = {"torch.no_grad", "torch.inference_mode"}
DESCRIPTORS = words(
    """
    triton.tools.tensor_descriptor.TensorDescriptor
    triton.tools.tensor_descriptor.TensorDescriptor.from_tensor
    triton.experimental.gluon.nvidia.hopper.TensorDescriptor
    triton.experimental.gluon.nvidia.hopper.TensorDescriptor.from_tensor
    triton.experimental.gluon.nvidia.blackwell.TensorDescriptor
    triton.experimental.gluon.nvidia.blackwell.TensorDescriptor.from_tensor
    """
)

PRINTING = {"device_print", "static_print"}
CLOCKS = {"globaltimer", "clock", "clock64"}
FEW_BITS = words(
    """
    float8e4b15 float8e4b8 float8e4nv float8e5 float8e5b16 dot_scaled float8_e4m3fn float8_e5m2 int4
    fp4_to_fp
    """
)
_INSIDE_LANGUAGE = words("semantic runtime driver knobs interpreter ir builtin extern target_info")
_HOST_LANGUAGE = DTYPES | {"constexpr", "dtype", "get_default_for", "TensorDescriptor"}


def _triton_rule(path: str, *, kernel: bool) -> str | None:
    if path in TRITON or path in DESCRIPTORS:
        return None
    if path in KERNEL_MODULES or path.startswith(tuple(f"{prefix}." for prefix in KERNEL_MODULES)):
        return _language_rule(path, kernel=kernel)
    if path in ("triton.autotune", "triton.Config"):
        return "autotune"
    if path.startswith(("triton.knobs", "triton.testing", "triton.runtime.interpreter")):
        return "mode"
    if path.startswith(("triton.compile", "triton.runtime.jit")):
        return "dry_launch"
    return "introspection"


def _language_rule(path: str, *, kernel: bool) -> str | None:
    prefix = next(prefix for prefix in KERNEL_MODULES if path == prefix or path.startswith(f"{prefix}."))
    names = [name for name in path.removeprefix(prefix).split(".") if name]
    last = names[-1] if names else ""
    if last in PRINTING:
        return "io"
    if any(name in CLOCKS for name in names):
        return "asm"
    if last in FEW_BITS:
        return "precision"
    if any(name.startswith("_") or name in _INSIDE_LANGUAGE for name in names):
        return "introspection"
    if any(name in sys.stdlib_module_names and name not in ("math", "random") for name in names):
        return "introspection"
    if kernel or not names or last in _HOST_LANGUAGE or last.endswith("Layout") or is_module(path):
        return None
    return "attribute"


# ---- any dotted path ------------------------------------------------------------------------------


def path_rule(path: str, *, kernel: bool) -> str | None:
    """The rule that naming `path` (`torch.cuda.Stream`) breaks, or None. `kernel`: inside device code."""
    root = path.split(".")[0]
    if root == "torch":
        if kernel:
            return "torch_compute"
        if path.removeprefix("torch.") in FEW_BITS:
            return "precision"
        return _torch_rule(path)
    if root == "triton":
        return _triton_rule(path, kernel=kernel)
    if any(name.startswith("_") for name in path.split(".")[1:]):
        return "introspection"
    depth = path.count(".")
    if root == "math":
        return None if depth <= 1 else "attribute"
    if root == "functools":
        return None if path in CACHES or path == "functools" else "attribute"
    if root in ("typing", "collections"):
        last = path.split(".")[-1]
        return None if last[:1].isupper() or path in ("typing", "collections.abc") else "introspection"
    return None if root == "__future__" else "import"


_MODULE_NAMES = words(
    """
    language core math extra cuda libdevice nvidia hopper blackwell ampere tma mbarrier tcgen05 cp
    async_copy standard random
    """
)


_MODULE_PATHS = words(
    """
    torch.cuda triton.tools triton.tools.tensor_descriptor triton.runtime triton.runtime.driver
    triton.runtime.driver.active triton.runtime.driver.active.utils triton.experimental
    """
)


def is_module(path: str) -> bool:
    """Whether a path names a module, which may be used with a dot behind it but never as a value."""
    if path in MODULES or path in KERNEL_MODULES:
        return True
    if path.startswith(tuple(f"{prefix}." for prefix in KERNEL_MODULES)):
        return path.split(".")[-1] in _MODULE_NAMES
    return path in _MODULE_PATHS


# ---- attributes of values -------------------------------------------------------------------------

METADATA = words(
    """
    shape dtype device layout ndim itemsize stride size dim numel nelement element_size is_contiguous
    storage_offset is_floating_point index
    """
)
VIEWS = words(
    """
    view view_as reshape reshape_as permute transpose swapaxes movedim expand expand_as unsqueeze squeeze
    flatten unflatten narrow select as_strided T mT t detach contiguous to type_as half bfloat16 float
    broadcast_to unfold
    """
)
VIEW_LISTS = words("unbind split chunk tensor_split")
ALLOCATES = words("new_empty new_zeros new_full new_ones new_empty_strided")
COPIES = words("clone copy_ zero_ fill_")
TENSOR_ATTRIBUTES = METADATA | VIEWS | VIEW_LISTS | ALLOCATES | COPIES

MUTATES = words("append extend insert pop popitem remove clear update setdefault add discard")
READS = words("get items keys values count startswith endswith lower upper")
FACT_ATTRIBUTES = words(
    """
    multi_processor_count major minor name total_memory L2_cache_size warp_size arch
    max_threads_per_multi_processor shared_memory_per_block shared_memory_per_block_optin
    shared_memory_per_multiprocessor regs_per_multiprocessor backend
    """
)
LIMITS = words("max min eps tiny bits smallest_normal")
PLAIN_ATTRIBUTES = MUTATES | READS | FACT_ATTRIBUTES | LIMITS | {"from_tensor", "value"}

SYNCING = words(
    """
    item tolist cpu numpy cuda nonzero is_nonzero equal allclose any all pin_memory share_memory_
    """
)
POINTERS = words("data_ptr untyped_storage storage data _cdata set_ ptr is_set_to resize_ const_data_ptr")
WATCHING = words("is_meta fake_mode is_cpu grad_fn is_inference is_pinned is_shared")
FRAMES = words("f_back f_locals f_globals f_code gi_frame tb_frame cr_frame func_globals func_code")
LAUNCHING = words("warmup run cache fn src device_caches preload cache_info cache_clear preruns")
STREAMING = words("record_stream record wait_stream wait_event synchronize cuda_stream elapsed_time")

_ATTRIBUTE_RULES = {
    "host_sync": SYNCING,
    "pointer_key": POINTERS,
    "mode": WATCHING,
    "introspection": FRAMES | LAUNCHING,
    "stream": STREAMING,
    "device_branch": words("is_cuda type"),
}


def attribute_rule(name: str, *, tensor: bool) -> str | None:
    """The rule that `value.name` in host code breaks, or None. `tensor`: the value is known to be one."""
    if name.startswith("_"):
        return "introspection" if name not in POINTERS else "pointer_key"
    if tensor:
        if name in TENSOR_ATTRIBUTES:
            return None
    elif name in TENSOR_ATTRIBUTES or name in PLAIN_ATTRIBUTES:
        return None
    for rule, names in _ATTRIBUTE_RULES.items():
        if name in names:
            return rule
    return "torch_compute" if tensor or name in TORCH_METHODS else "attribute"


TORCH_METHODS = words(
    """
    matmul mm bmm softmax log_softmax sum mean exp exp2 log einsum addmm baddbmm masked_fill masked_fill_
    where mul mul_ add_ sub sub_ div div_ pow sqrt rsqrt amax amin argmax cumsum logsumexp tril triu
    gather scatter_ index_select index_copy_ repeat repeat_interleave dot neg abs clamp sort topk roll
    flip double int long bool norm prod std var sigmoid tanh relu apply_ map_ scaled_dot_product_attention
    """
)

KERNEL_HIDDEN = words("handle data builder semantic device_caches interpreter storage numpy item tolist")
"""Attributes of kernel values that reach through to the compiler or the interpreter."""


def kernel_attribute_rule(name: str) -> str | None:
    """The rule that `value.name` in device code breaks, or None."""
    if name.startswith("_") and name != "__init__":
        return "introspection"
    if name in KERNEL_HIDDEN or name in FRAMES or name in LAUNCHING:
        return "introspection"
    return "io" if name in PRINTING else None


# ---- built-in functions ---------------------------------------------------------------------------

HOST_BUILTINS = words(
    """
    abs all any bool dict divmod enumerate float frozenset int isinstance len list max min pow range
    reversed round set slice sorted str sum tuple zip hasattr AssertionError Exception ImportError KeyError
    NotImplementedError RuntimeError TypeError ValueError Ellipsis
    """
)
KERNEL_BUILTINS = words("range min max len int float bool abs tuple sum str")
ITERATORS = {"enumerate", "zip", "reversed"}
"""Calls whose result remembers how far it was read."""

_BUILTIN_RULES = {
    "obfuscation": words("exec eval compile __import__ getattr chr ord bytes bytearray memoryview"),
    "monkeypatch": words("setattr delattr"),
    "introspection": words(
        "globals locals vars dir type super property classmethod staticmethod callable object"
    ),
    "host_sync": words("repr format"),
    "pointer_key": words("id hash"),
    "io": words("open print input breakpoint help"),
    "state": words("iter next"),
    "construct": words("map filter"),
    "escape": words("exit quit"),
}


def builtin_rule(name: str, *, kernel: bool) -> str | None:
    """The rule that naming an undefined name breaks, or None for a built-in that may be used."""
    if name in (KERNEL_BUILTINS if kernel else HOST_BUILTINS):
        return None
    if kernel and name == "isinstance":
        return "mode"  # a constexpr is a plain number under the interpreter
    for rule, names in _BUILTIN_RULES.items():
        if name in names:
            return rule
    return "introspection" if name.startswith("__") else "name"
