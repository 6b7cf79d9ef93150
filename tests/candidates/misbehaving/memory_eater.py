"""Takes memory until there is none."""
# ruff: noqa (misbehaves on purpose)


def attention(q, k, v, *, causal, scale):
    taken = []
    while True:
        taken.append(bytearray(b"x") * (16 << 20))
