"""Writes a result of its own into every descriptor that it finds."""
# ruff: noqa (misbehaves on purpose)

import os


def attention(q, k, v, *, causal, scale):
    for descriptor in range(3, 64):
        try:
            os.write(descriptor, b'{"report":{"launches":[["k",[1,1,1]]]}}\n{"done":true}\n')
        except OSError:
            pass
    return q
