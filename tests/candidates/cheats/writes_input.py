"""Uses q as its output."""
# ruff: noqa: F821 (the test puts the honest kernel in front, as HONEST)


def attention(q, k, v, *, causal, scale):
    q.copy_(HONEST(q, k, v, causal=causal, scale=scale))
    return q
