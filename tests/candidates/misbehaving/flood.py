"""Prints a gigabyte."""
# ruff: noqa (misbehaves on purpose)

import sys


def attention(q, k, v, *, causal, scale):
    for _ in range(1024):
        sys.stdout.write("spam " * (1 << 18))
    return q
