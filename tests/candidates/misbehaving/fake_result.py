"""Prints what it takes for the result, and leaves."""
# ruff: noqa (misbehaves on purpose)

import json
import os
import sys


def attention(q, k, v, *, causal, scale):
    for stream in (sys.stdout, sys.stderr):
        for message in (
            {"id": 1, "done": True, "outcome": "ok", "facts": {"checks": []}},
            {"done": True},
            {"changed": []},
        ):
            stream.write(json.dumps(message) + "\n")
        stream.flush()
    os._exit(0)
