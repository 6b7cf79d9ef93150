"""Leaves with status 0 in the middle of a call, as if all were well."""
# ruff: noqa (misbehaves on purpose)

import os


def attention(q, k, v, *, causal, scale):
    os._exit(0)
