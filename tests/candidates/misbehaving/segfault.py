"""Reads address zero."""
# ruff: noqa (misbehaves on purpose)

import ctypes


def attention(q, k, v, *, causal, scale):
    ctypes.string_at(0)
