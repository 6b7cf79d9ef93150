"""Leaves a process behind that has a session of its own and heeds no SIGTERM."""
# ruff: noqa (misbehaves on purpose)

import os
import signal
import time


def attention(q, k, v, *, causal, scale):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
            while True:
                time.sleep(1)
        os._exit(0)
    return q
