"""Gives other bits each time."""
# ruff: noqa: F821 (the test puts the honest kernel in front, as HONEST)

CALLS = []


def attention(q, k, v, *, causal, scale):
    CALLS.append(1)
    return HONEST(q, k, v, causal=causal, scale=scale * (1.0 + 1e-3 * (len(CALLS) % 2)))
