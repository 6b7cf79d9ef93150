"""Fails as programs do, with markup and control characters in the message."""
# ruff: noqa (misbehaves on purpose)


def attention(q, k, v, *, causal, scale):
    raise ValueError("[bold red]no[/] \x1b[31m\nsecond line")
