"""Looks at the last keys only."""
# ruff: noqa: F821 (the test puts the honest kernel in front, as HONEST)


def attention(q, k, v, *, causal, scale):
    window = min(64, k.shape[2])
    return HONEST(q, k[:, :, -window:], v[:, :, -window:], causal=causal, scale=scale)
