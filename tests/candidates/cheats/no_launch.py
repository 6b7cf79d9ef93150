"""Returns memory that nobody has written."""
# ruff: noqa: F821 (the test puts the honest kernel in front, as HONEST)


def attention(q, k, v, *, causal, scale):
    return torch.zeros_like(q)
