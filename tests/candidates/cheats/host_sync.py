"""Looks at a tensor's contents on the host."""
# ruff: noqa: F821 (the test puts the honest kernel in front, as HONEST)


def attention(q, k, v, *, causal, scale):
    if q.device.type == "cpu" and q[0, 0, 0, 0].item() == 12345.0:
        return q
    return HONEST(q, k, v, causal=causal, scale=scale)
