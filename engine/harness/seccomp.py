"""A seccomp filter: the system calls that no kernel candidate needs answer EPERM.

The filter is a short program for the kernel's classic BPF machine: check the architecture, load the
number of the call, compare it with each refused number. Threads are let through (`clone` with
CLONE_THREAD); new processes and new programs are not, unless `programs` is true, which is meant for the
compiler child, who must run ptxas.
"""

from __future__ import annotations

import ctypes
import struct

import kernelcalls as kc

_ALLOW = 0x7FFF0000
_ERRNO = 0x00050000
_KILL_PROCESS = 0x80000000
_EPERM = 1
_ENOSYS = 38
_CLONE_THREAD = 0x00010000
_CLONE_NAMESPACES = 0x7E020080
_AF_UNIX = 1
_SECCOMP = {"x86_64": 317, "aarch64": 277}

_LD_W_ABS = 0x20
_JEQ = 0x15
_JGE = 0x35
_JSET = 0x45
_RET = 0x06

# Refused in every child: other processes' memory, kernel interfaces, mounts, namespaces, identities, keys.
_ALWAYS = {
    "x86_64": {
        "ptrace": 101, "process_vm_readv": 310, "process_vm_writev": 311, "kcmp": 312,
        "perf_event_open": 298, "bpf": 321, "userfaultfd": 323, "add_key": 248, "request_key": 249,
        "keyctl": 250, "mount": 165, "umount2": 166, "pivot_root": 155, "chroot": 161, "unshare": 272,
        "setns": 308, "reboot": 169, "swapon": 167, "swapoff": 168, "init_module": 175,
        "finit_module": 313, "delete_module": 176, "kexec_load": 246, "kexec_file_load": 320, "acct": 163,
        "settimeofday": 164, "clock_settime": 227, "clock_adjtime": 305, "adjtimex": 159,
        "sethostname": 170, "setdomainname": 171, "iopl": 172, "ioperm": 173, "quotactl": 179,
        "mknod": 133, "mknodat": 259, "open_by_handle_at": 304, "name_to_handle_at": 303,
        "io_uring_setup": 425, "pidfd_getfd": 438, "pidfd_open": 434, "memfd_create": 319,
        "memfd_secret": 447,
        "shmget": 29, "msgget": 68, "semget": 64, "mq_open": 240, "fanotify_init": 300,
        "inotify_init": 253, "inotify_init1": 294, "personality": 135, "setpriority": 141,
        "sched_setaffinity": 203, "sched_setscheduler": 144, "socket": 41, "connect": 42, "bind": 49,
        "listen": 50, "accept": 43, "accept4": 288, "vhangup": 153, "lookup_dcookie": 212, "syslog": 103,
        "move_pages": 279, "migrate_pages": 256, "process_madvise": 440, "open_tree": 428,
        "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433,
        "mount_setattr": 442,
    },
    "aarch64": {
        "ptrace": 117, "process_vm_readv": 270, "process_vm_writev": 271, "kcmp": 272,
        "perf_event_open": 241, "bpf": 280, "userfaultfd": 282, "add_key": 217, "request_key": 218,
        "keyctl": 219, "mount": 40, "umount2": 39, "pivot_root": 41, "chroot": 51, "unshare": 97,
        "setns": 268, "reboot": 142, "swapon": 224, "swapoff": 225, "init_module": 105,
        "finit_module": 273, "delete_module": 106, "kexec_load": 104, "kexec_file_load": 294, "acct": 89,
        "settimeofday": 170, "clock_settime": 112, "clock_adjtime": 266, "adjtimex": 171,
        "sethostname": 161, "setdomainname": 162, "quotactl": 60, "mknodat": 33,
        "open_by_handle_at": 265, "name_to_handle_at": 264, "io_uring_setup": 425, "pidfd_getfd": 438,
        "pidfd_open": 434, "memfd_create": 279, "memfd_secret": 447, "shmget": 194, "msgget": 186,
        "semget": 190, "mq_open": 180, "fanotify_init": 262, "inotify_init1": 26, "personality": 92,
        "setpriority": 140, "sched_setaffinity": 122, "sched_setscheduler": 119, "socket": 198,
        "connect": 203, "bind": 200, "listen": 201, "accept": 202, "accept4": 242, "vhangup": 58,
        "lookup_dcookie": 18, "syslog": 116, "move_pages": 239, "migrate_pages": 238,
        "process_madvise": 440, "open_tree": 428, "move_mount": 429, "fsopen": 430, "fsconfig": 431,
        "fsmount": 432, "fspick": 433, "mount_setattr": 442,
    },
}  # fmt: skip
# Refused to candidates: new processes and programs, signals to others.
_PROCESSES = {
    "x86_64": {"fork": 57, "vfork": 58, "execve": 59, "execveat": 322, "kill": 62, "pidfd_send_signal": 424},
    "aarch64": {"execve": 221, "execveat": 281, "kill": 129, "pidfd_send_signal": 424},
}
_CLONE = {"x86_64": 56, "aarch64": 220}
_CLONE3 = 435
_AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}


def _instruction(code: int, k: int, jt: int = 0, jf: int = 0) -> bytes:
    return struct.pack("=HBBI", code, jt, jf, k)


def program(*, programs: bool, sockets: bool = False, machine: str = kc.MACHINE) -> bytes:
    """The filter. `programs`: may start processes and programs; `sockets`: may make Unix sockets."""
    refused = dict(_ALWAYS[machine])
    socket = refused["socket"]
    if sockets:
        for name in ("socket", "bind", "listen"):
            del refused[name]
    if not programs:
        refused |= _PROCESSES[machine]
    code = [
        _instruction(_LD_W_ABS, 4),
        _instruction(_JEQ, _AUDIT_ARCH[machine], 1, 0),
        _instruction(_RET, _KILL_PROCESS),
        _instruction(_LD_W_ABS, 0),
    ]
    if machine == "x86_64":  # the x32 numbers would go round the list
        code += [_instruction(_JGE, 0x40000000, 0, 1), _instruction(_RET, _ERRNO | _EPERM)]
    for number in sorted(set(refused.values())):
        code += [_instruction(_JEQ, number, 0, 1), _instruction(_RET, _ERRNO | _EPERM)]
    if sockets:
        code += [_instruction(_JEQ, socket, 0, 4), _instruction(_LD_W_ABS, 16)]
        code += [_instruction(_JEQ, _AF_UNIX, 1, 0), _instruction(_RET, _ERRNO | _EPERM)]
        code += [_instruction(_RET, _ALLOW)]
    # clone3 keeps its flags in memory, out of the filter's reach: without it, libc falls back to clone.
    code += [_instruction(_JEQ, _CLONE3, 0, 1), _instruction(_RET, _ERRNO | _ENOSYS)]
    code += [_instruction(_JEQ, _CLONE[machine], 0, 5), _instruction(_LD_W_ABS, 16)]
    code += [_instruction(_JSET, _CLONE_NAMESPACES, 0, 1), _instruction(_RET, _ERRNO | _EPERM)]
    if programs:
        code += [_instruction(_RET, _ALLOW), _instruction(_RET, _ALLOW)]
    else:
        code += [_instruction(_JSET, _CLONE_THREAD, 1, 0), _instruction(_RET, _ERRNO | _EPERM)]
    code += [_instruction(_RET, _ALLOW)]
    return b"".join(code)


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def install(*, programs: bool, sockets: bool = False, all_threads: bool = False) -> None:
    """Filter this process from now on, on top of a filter that it has; the stricter answer counts.

    Needs no_new_privs. Raises OSError where the kernel has none. A process that has started threads wants
    `all_threads`.
    """
    if kc.MACHINE not in _ALWAYS:
        raise OSError(38, f"no list of system calls for {kc.MACHINE}")
    code = program(programs=programs, sockets=sockets)
    buffer = ctypes.create_string_buffer(code, len(code))
    filter_program = _Program(len(code) // 8, ctypes.cast(buffer, ctypes.c_void_p))
    if all_threads:
        kc.syscall(_SECCOMP[kc.MACHINE], 1, 1, ctypes.byref(filter_program), what="seccomp")
    else:
        kc.prctl(kc.PR_SET_SECCOMP, 2, ctypes.byref(filter_program))
