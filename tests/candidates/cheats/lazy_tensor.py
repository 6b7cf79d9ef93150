"""Returns a tensor that computes when it is looked at."""
# ruff: noqa: F821 (the test puts the honest kernel in front, as HONEST)


class Lazy(torch.Tensor):
    pass


def attention(q, k, v, *, causal, scale):
    return HONEST(q, k, v, causal=causal, scale=scale).as_subclass(Lazy)
