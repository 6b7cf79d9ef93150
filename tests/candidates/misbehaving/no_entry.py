"""Has no function of the right name."""
# ruff: noqa (misbehaves on purpose)


def attend(q, k, v, *, causal, scale):
    return q
