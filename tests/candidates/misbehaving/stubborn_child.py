"""Starts a program that heeds no SIGTERM, and waits for it."""
# ruff: noqa (misbehaves on purpose)

import signal
import subprocess


def attention(q, k, v, *, causal, scale):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    subprocess.run(["sleep", "3600"], check=True)
    return q
