"""The layers around a candidate process, each used where the system offers it.

    pid_namespace     its processes die with its first one, and it sees no others
    network_namespace an empty network
    mount_namespace   a root that holds Python, torch, triton and one scratch folder, all but that read-only
    landlock          the same rule for files once more, and no TCP, no signals to the outside
    limits            address space, file size, open files, processes, no core
    no_privileges     no capabilities, no set-uid programs
    seccomp           no ptrace, no sockets, no new processes or programs, no foreign memory
    subreaper         stands in for the PID namespace: what a candidate leaves behind is found and killed

`probe()` tries each layer in a throw-away process and says which are active. A candidate's process goes
through `enter_namespaces` (before the fork that makes PID 1), `build_root` (in PID 1) and `confine` (in the
candidate itself), all before a line of its code is read.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import socket
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import kernelcalls as kc
import seccomp

LAYERS = (
    "pid_namespace",
    "network_namespace",
    "mount_namespace",
    "landlock",
    "limits",
    "no_privileges",
    "seccomp",
    "subreaper",
)

_LANDLOCK_WRITE = 0x1FFE & ~(1 << 2) & ~(1 << 3)  # all rights of the first version but execute and reading
_LANDLOCK_READ = (1 << 2) | (1 << 3)
_LANDLOCK_EXECUTE = 1
_LANDLOCK_REFER = 1 << 13
_LANDLOCK_TRUNCATE = 1 << 14
_DEVICES = ("/dev/null", "/dev/zero", "/dev/urandom", "/dev/random")


@dataclass(frozen=True)
class Bounds:
    """What one child may use."""

    work: str
    """The only folder that it may write."""
    memory_bytes: int
    file_bytes: int
    programs: bool
    """May start programs (ptxas); candidates may not."""
    layers: tuple[str, ...]
    """Which layers are active on this machine."""
    readable: tuple[str, ...] = field(default_factory=tuple)
    devices: tuple[str, ...] = field(default_factory=tuple)
    """Device files of a card that it may use; the driver maps far more address space than it uses."""


def readable_paths(extra: Iterable[str] = ()) -> tuple[str, ...]:
    """Folders that Python, torch and triton are loaded from, without those that lie in another."""
    wanted = [sys.prefix, sys.base_prefix, sys.exec_prefix, "/usr/lib", "/usr/lib64", "/usr/local/lib"]
    wanted += ["/lib", "/lib64", "/etc/ld.so.cache", "/sys/devices/system/cpu", *sys.path, *extra]
    for name in ("torch", "triton", "numpy"):
        origin = getattr(sys.modules.get(name), "__file__", None)
        if origin:
            wanted.append(str(Path(origin).resolve().parent.parent))
    real = sorted({os.path.realpath(path) for path in wanted if path and Path(path).exists()}, key=len)
    kept: list[str] = []
    for path in real:
        if path != "/" and not any(path == other or path.startswith(other + "/") for other in kept):
            kept.append(path)
    return tuple(kept)


def namespaces_flags(layers: Iterable[str]) -> int:
    flags = 0
    if "pid_namespace" in layers:
        flags |= kc.CLONE_NEWPID
    if "network_namespace" in layers:
        flags |= kc.CLONE_NEWNET | kc.CLONE_NEWIPC | kc.CLONE_NEWUTS
    if "mount_namespace" in layers:
        flags |= kc.CLONE_NEWNS
    return flags


def enter_namespaces(layers: Iterable[str]) -> None:
    """Leave the system's namespaces; the next fork is PID 1 of its own.

    A user namespace comes first, so that no privilege outside is ever held. Only root goes on without.
    """
    flags = namespaces_flags(layers)
    if not flags:
        return
    uid, gid = os.geteuid(), os.getegid()
    try:
        kc.unshare(kc.CLONE_NEWUSER)
    except OSError:
        if uid != 0:
            raise
    else:
        with contextlib.suppress(OSError):
            Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
        Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")
    kc.unshare(flags)


def build_root(bounds: Bounds, root: str) -> None:
    """A root of its own from read-only binds at their own paths, and `bounds.work` for writing."""
    if "mount_namespace" not in bounds.layers:
        return
    kc.mount(None, "/", None, kc.MS_REC | kc.MS_PRIVATE)
    kc.mount("tmpfs", root, "tmpfs", kc.MS_NOSUID | kc.MS_NODEV, "size=1m,mode=755")
    for link in ("/lib", "/lib64", "/bin", "/sbin"):
        if Path(link).is_symlink():
            Path(root + link).symlink_to(Path(link).readlink())
    read_only = kc.MOUNT_ATTR_RDONLY | kc.MOUNT_ATTR_NOSUID | kc.MOUNT_ATTR_NODEV
    for path in bounds.readable:
        _bind(path, root)
        kc.set_mount_attributes(root + path, read_only, recursive=True)
    for device in (*_DEVICES, *bounds.devices):
        if Path(device).exists():
            _bind(device, root)
    _bind(bounds.work, root)
    if "pid_namespace" in bounds.layers:
        Path(root + "/proc").mkdir()
        with contextlib.suppress(OSError):  # refused inside some containers; nothing needs it
            kc.mount("proc", root + "/proc", "proc", kc.MS_NOSUID | kc.MS_NODEV | kc.MS_NOEXEC)
    kc.pivot_root(root)
    kc.set_mount_attributes("/", kc.MOUNT_ATTR_RDONLY, recursive=False)
    os.chdir(bounds.work)


def _bind(path: str, root: str) -> None:
    target = Path(root + path)
    if Path(path).is_dir():
        target.mkdir(parents=True, exist_ok=True)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch()
    kc.mount(path, str(target), None, kc.MS_BIND | kc.MS_REC)


def confine(bounds: Bounds) -> None:
    """The layers that a process puts on itself, the last of which cannot be taken off."""
    if "limits" in bounds.layers:
        _limit(bounds)
    kc.prctl(kc.PR_SET_NO_NEW_PRIVS, 1)
    if "landlock" in bounds.layers:
        _landlock(bounds)
    if "no_privileges" in bounds.layers:
        kc.drop_capabilities()
    if "seccomp" in bounds.layers:
        # CUDA makes a context with a Unix socket of its own.
        seccomp.install(programs=bounds.programs, sockets=bool(bounds.devices))


def address_space_bytes() -> int:
    """What this process has mapped now."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    return pages * resource.getpagesize()


def _limit(bounds: Bounds) -> None:
    space = bounds.memory_bytes
    with contextlib.suppress(OSError):  # no /proc: the cap is then for all of it
        space += address_space_bytes()
    wanted = [
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, bounds.file_bytes),
        (resource.RLIMIT_NOFILE, 512),
    ]
    if not bounds.devices:
        wanted.append((resource.RLIMIT_AS, space))
    if "pid_namespace" in bounds.layers:  # elsewhere the count is that of the user's whole session
        wanted.append((resource.RLIMIT_NPROC, 256 if bounds.devices else 64))
    for limit, value in wanted:
        _, hard = resource.getrlimit(limit)
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(limit, (value, value))


class _RulesetAttr(ctypes.Structure):
    _fields_ = (
        ("handled_access_fs", ctypes.c_uint64),
        ("handled_access_net", ctypes.c_uint64),
        ("scoped", ctypes.c_uint64),
    )


class _PathRule(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"
    _fields_ = (("allowed_access", ctypes.c_uint64), ("parent_fd", ctypes.c_int32))


def landlock_version() -> int:
    """The kernel's Landlock interface, or OSError where there is none."""
    null = ctypes.c_void_p(0)
    return kc.syscall(kc.SYS_LANDLOCK_CREATE_RULESET, null, 0, 1, what="landlock")


def _landlock(bounds: Bounds) -> None:
    version = landlock_version()
    handled = 0x1FFF
    if version >= 2:
        handled |= _LANDLOCK_REFER
    if version >= 3:
        handled |= _LANDLOCK_TRUNCATE
    attr = _RulesetAttr(handled, 0, 0)
    size = 8
    if version >= 4:
        attr.handled_access_net, size = 3, 16  # bind and connect
    if version >= 6:
        attr.scoped, size = 3, 24  # abstract sockets and signals
    ruleset = kc.syscall(
        kc.SYS_LANDLOCK_CREATE_RULESET, ctypes.byref(attr), size, 0, what="landlock_create_ruleset"
    )
    read = _LANDLOCK_READ | (_LANDLOCK_EXECUTE if bounds.programs else 0)
    for path in (*bounds.readable, "/proc"):
        _allow(ruleset, path, read)
    for device in (*_DEVICES, *bounds.devices):
        _allow(ruleset, device, handled & (_LANDLOCK_READ | 1 << 1 | _LANDLOCK_TRUNCATE))
    if bounds.devices:  # CUDA names its threads through files there
        _allow(ruleset, "/proc/self", handled & (read | 1 << 1 | _LANDLOCK_TRUNCATE))
    writing = _LANDLOCK_READ | _LANDLOCK_WRITE | _LANDLOCK_REFER | _LANDLOCK_TRUNCATE
    _allow(ruleset, bounds.work, handled & writing)
    kc.syscall(kc.SYS_LANDLOCK_RESTRICT_SELF, ruleset, 0, what="landlock_restrict_self")
    os.close(ruleset)


def _allow(ruleset: int, path: str, access: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not Path(path).is_dir():
            access &= 1 | 1 << 1 | 1 << 2 | _LANDLOCK_TRUNCATE  # the rights that a file can have
        rule = _PathRule(access, descriptor)
        kc.syscall(
            kc.SYS_LANDLOCK_ADD_RULE, ruleset, 1, ctypes.byref(rule), 0, what=f"landlock_add_rule {path}"
        )
    finally:
        os.close(descriptor)


# ---- which layers this system offers --------------------------------------------------------------


def probe(scratch: str, off: Iterable[str] = ()) -> dict[str, str]:
    """Layer to `active` or `off: why`. Forks throw-away children; call it before any thread exists."""
    found: dict[str, str] = {}
    readable = readable_paths()
    off = frozenset(off)

    def attempt(layer: str, needs: tuple[str, ...] = ()) -> None:
        if layer in off:
            found[layer] = "off: switched off"
            return
        if any(found[need] != "active" for need in needs):
            found[layer] = f"off: needs {', '.join(needs)}"
            return
        names = (*active(found), layer)
        bounds = Bounds(scratch, 1 << 33, 1 << 24, False, names, readable)
        found[layer] = _in_child(lambda: _try_layers(bounds))

    attempt("pid_namespace")
    attempt("network_namespace")
    attempt("mount_namespace", ("pid_namespace",))
    for layer in ("landlock", "limits", "no_privileges", "seccomp"):
        attempt(layer)
    if "subreaper" in off:
        found["subreaper"] = "off: switched off"
    else:
        found["subreaper"] = _in_child(lambda: kc.prctl(kc.PR_SET_CHILD_SUBREAPER, 1))
    with contextlib.suppress(OSError):
        (Path(scratch) / "probe-root").rmdir()
    return {layer: found[layer] for layer in LAYERS}


def active(found: dict[str, str]) -> tuple[str, ...]:
    return tuple(layer for layer, state in found.items() if state == "active")


def _try_layers(bounds: Bounds) -> None:
    enter_namespaces(bounds.layers)
    root = Path(bounds.work) / "probe-root"
    root.mkdir(exist_ok=True)
    pid = os.fork()
    if pid == 0:

        def inside() -> None:
            build_root(bounds, str(root))
            confine(bounds)

        _report(inside, 1)
    _, status = os.waitpid(pid, 0)
    if status:
        raise ChildFailed


class ChildFailed(Exception):
    """The inner process has written its reason already."""


def _report(attempt: Callable[[], object], descriptor: int) -> None:
    """Run, write why it failed as JSON, leave the process."""
    status = 0
    try:
        attempt()
    except ChildFailed:
        status = 1
    except BaseException as failure:  # noqa: BLE001 (whatever it is, it says why the layer is off)
        status = 1
        with contextlib.suppress(OSError):
            os.write(descriptor, json.dumps(" ".join(str(failure).split())[:200]).encode())
    os._exit(status)


def _in_child(attempt: Callable[[], object]) -> str:
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        ours.close()
        os.dup2(theirs.fileno(), 1)
        _report(attempt, 1)
    theirs.close()
    said = ours.recv(4096)
    ours.close()
    _, status = os.waitpid(pid, 0)
    if status == 0:
        return "active"
    return f"off: {json.loads(said) if said else f'ended with status {status}'}"
