"""Tries every door; the first that opens is named in the exception."""
# ruff: noqa (misbehaves on purpose)

import ctypes
import os
import signal
import socket

LIBC = ctypes.CDLL(None, use_errno=True)


def opens(action):
    try:
        result = action()
    except (OSError, AttributeError):
        return False
    return result is None or (isinstance(result, int) and result >= 0) or not isinstance(result, int)


DOORS = {
    "write beside the harness": lambda: open(os.path.join(os.path.dirname(os.__file__), "door"), "w"),
    "write to the temporary folder": lambda: open("FOLDER/door", "w"),
    "read the task": lambda: open("TASK/reference.py"),
    "read the cache": lambda: os.listdir("CACHE"),
    "read the home folder": lambda: os.listdir(os.path.expanduser("~root")),
    "read /etc/passwd": lambda: open("/etc/passwd"),
    "a socket": lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM),
    "a local socket": lambda: socket.socket(socket.AF_UNIX, socket.SOCK_STREAM),
    "ptrace": lambda: LIBC.ptrace(0, 0, 0, 0),
    "process_vm_readv": lambda: LIBC.process_vm_readv(os.getppid(), 0, 0, 0, 0, 0),
    "unshare": lambda: LIBC.unshare(0x10000000),
    "kill others": lambda: os.kill(-1, signal.SIGTERM),
    "a program": lambda: os.execv("/bin/true", ["true"]),
    "a process": os.fork,
    "mount": lambda: LIBC.mount(b"none", b"/proc", b"tmpfs", 0, 0),
    "memory of init": lambda: open("/proc/1/mem", "rb").read(1),
    "more than one process": lambda: None if len([n for n in os.listdir("/proc") if n.isdigit()]) > 2 else -1,
    "a key in the environment": lambda: (
        os.environ["KERNEL_LAB_TEST_KEY"] if "KERNEL_LAB_TEST_KEY" in os.environ else -1
    ),
}


def attention(q, k, v, *, causal, scale):
    open_doors = [name for name, action in DOORS.items() if opens(action)]
    raise RuntimeError(f"open doors: {open_doors}")
