"""Works on the first calls and rests afterwards."""
# ruff: noqa: F821 (the test puts the honest kernel in front, as HONEST)

CALLS = []
LAST = {}


def attention(q, k, v, *, causal, scale):
    CALLS.append(1)
    key = (q.shape, k.shape, causal)
    if key in LAST and len(CALLS) > 2:
        return LAST[key].clone()
    LAST[key] = HONEST(q, k, v, causal=causal, scale=scale)
    return LAST[key].clone()
