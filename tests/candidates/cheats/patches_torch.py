"""Replaces functions that a judge could use."""
# ruff: noqa: F821 (the test puts the honest kernel in front, as HONEST)


def attention(q, k, v, *, causal, scale):
    torch.allclose = lambda *args, **kwargs: True
    torch.equal = lambda *args, **kwargs: True
    return HONEST(q, k, v, causal=causal, scale=scale)
