"""Remembers the answer to each shape."""
# ruff: noqa: F821 (the test puts the honest kernel in front, as HONEST)

CACHE = {}


def attention(q, k, v, *, causal, scale):
    key = (q.shape, k.shape, causal)
    if key not in CACHE:
        CACHE[key] = HONEST(q, k, v, causal=causal, scale=scale)
    return CACHE[key].clone()
