"""Remembers the answer to each address, and answers again from memory."""
# ruff: noqa: F821 (the test puts the honest kernel in front, as HONEST)

CACHE = {}


def attention(q, k, v, *, causal, scale):
    key = (q.data_ptr(), k.data_ptr(), v.data_ptr())
    if key not in CACHE:
        CACHE[key] = HONEST(q, k, v, causal=causal, scale=scale)
    return CACHE[key].clone()
