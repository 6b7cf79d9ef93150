"""Leaves while it is loaded."""
# ruff: noqa (misbehaves on purpose)

import sys

sys.exit(0)


def attention(q, k, v, *, causal, scale):
    return q
