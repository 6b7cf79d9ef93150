"""System calls that Python has no function for, through libc: prctl, mounts, namespaces, capabilities."""

from __future__ import annotations

import ctypes
import os
import platform

libc = ctypes.CDLL(None, use_errno=True)

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_SECCOMP = 22
PR_CAPBSET_DROP = 24
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_NOSUID = 2
MS_NODEV = 4
MS_NOEXEC = 8
MS_BIND = 0x1000
MS_REC = 0x4000
MS_PRIVATE = 0x40000
MNT_DETACH = 2

AT_FDCWD = -100
AT_RECURSIVE = 0x8000
MOUNT_ATTR_RDONLY = 1
MOUNT_ATTR_NOSUID = 2
MOUNT_ATTR_NODEV = 4

MACHINE = platform.machine()

# Numbers of the calls that are made by number. The ones from 424 on are equal on all machines.
SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}.get(MACHINE)
SYS_CAPSET = {"x86_64": 126, "aarch64": 91}.get(MACHINE)
SYS_MOUNT_SETATTR = 442
SYS_LANDLOCK_CREATE_RULESET = 444
SYS_LANDLOCK_ADD_RULE = 445
SYS_LANDLOCK_RESTRICT_SELF = 446


def checked(result: int, what: str) -> int:
    """The result of a call, or an OSError that names it."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def syscall(number: int | None, *args: object, what: str) -> int:
    if number is None:
        raise OSError(38, f"{what}: not known on {MACHINE}")
    plain = [ctypes.c_long(a) if isinstance(a, int) else a for a in args]
    return checked(int(libc.syscall(ctypes.c_long(number), *plain)), what)


def prctl(option: int, value: int = 0, third: object = 0) -> None:
    last = ctypes.c_ulong(third) if isinstance(third, int) else third
    zero = ctypes.c_ulong(0)
    checked(int(libc.prctl(option, ctypes.c_ulong(value), last, zero, zero)), f"prctl {option}")


def unshare(flags: int) -> None:
    checked(int(libc.unshare(flags)), "unshare")


def mount(source: str | None, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    encoded = [None if text is None else text.encode() for text in (source, target, kind, data)]
    result = libc.mount(encoded[0], encoded[1], encoded[2], ctypes.c_ulong(flags), encoded[3])
    checked(int(result), f"mount {target}")


class MountAttr(ctypes.Structure):
    _fields_ = (
        ("attr_set", ctypes.c_uint64),
        ("attr_clr", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("userns_fd", ctypes.c_uint64),
    )


def set_mount_attributes(path: str, attributes: int, *, recursive: bool) -> None:
    attr = MountAttr(attributes, 0, 0, 0)
    syscall(
        SYS_MOUNT_SETATTR,
        AT_FDCWD,
        ctypes.c_char_p(path.encode()),
        AT_RECURSIVE if recursive else 0,
        ctypes.byref(attr),
        ctypes.sizeof(attr),
        what=f"mount_setattr {path}",
    )


def pivot_root(new_root: str) -> None:
    """Make `new_root` the root and let go of the old one."""
    os.chdir(new_root)
    dot = ctypes.c_char_p(b".")
    syscall(SYS_PIVOT_ROOT, dot, dot, what="pivot_root")
    checked(int(libc.umount2(b".", MNT_DETACH)), "umount")
    os.chdir("/")


def drop_capabilities() -> None:
    """Give up every capability for good: bounding, permitted, effective, inheritable."""
    for capability in range(64):
        try:
            prctl(PR_CAPBSET_DROP, capability)
        except OSError:
            break  # beyond the last capability of this kernel, or none to drop

    class Header(ctypes.Structure):
        _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))

    header = Header(0x20080522, 0)
    data = (ctypes.c_uint32 * 6)()
    syscall(SYS_CAPSET, ctypes.byref(header), data, what="capset")
