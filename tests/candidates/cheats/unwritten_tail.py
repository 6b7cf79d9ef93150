"""Leaves the last row to whatever the memory holds."""
# ruff: noqa: F821 (the test puts the honest kernel in front, as HONEST)


def attention(q, k, v, *, causal, scale):
    out = HONEST(q, k, v, causal=causal, scale=scale)
    result = torch.empty_like(out)
    result[:, :, :-1].copy_(out[:, :, :-1])
    return result
