"""Launches a kernel that is not its own."""
# ruff: noqa: F821 (the test puts the honest kernel in front, as HONEST)


def attention(q, k, v, *, causal, scale):
    code = attention_kernel.fn.__code__
    attention_kernel.fn.__code__ = code.replace(co_filename="/somewhere/else.py")
    return HONEST(q, k, v, causal=causal, scale=scale)
