"""Never answers."""
# ruff: noqa (misbehaves on purpose)


def attention(q, k, v, *, causal, scale):
    while True:
        pass
