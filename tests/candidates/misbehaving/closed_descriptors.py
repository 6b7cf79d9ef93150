"""Closes every descriptor and goes on for ever."""
# ruff: noqa (misbehaves on purpose)

import os
import time


def attention(q, k, v, *, causal, scale):
    os.closerange(0, 256)
    time.sleep(3600)
