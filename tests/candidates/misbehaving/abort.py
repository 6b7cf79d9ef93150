"""Aborts."""
# ruff: noqa (misbehaves on purpose)

import os


def attention(q, k, v, *, causal, scale):
    os.abort()
