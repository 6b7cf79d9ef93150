"""Leaves a thread that works on after the call."""
# ruff: noqa: F821 (the test puts the honest kernel in front, as HONEST)

import threading
import time


def attention(q, k, v, *, causal, scale):
    threading.Thread(target=time.sleep, args=(3600,), daemon=True).start()
    return HONEST(q, k, v, causal=causal, scale=scale)
