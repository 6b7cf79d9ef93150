"""Gives other bits each time: a counter that outlives the call changes the last bit of one element."""
# ruff: noqa: F821 (the test puts the honest kernel in front, as HONEST)

COUNTER = {}


@triton.jit
def nudge_kernel(out, counter):
    n = tl.load(counter)
    tl.store(out, tl.load(out) ^ (n & 1).to(tl.int16))
    tl.store(counter, n + 1)


def attention(q, k, v, *, causal, scale):
    if "n" not in COUNTER:
        COUNTER["n"] = torch.zeros(1, dtype=torch.int32, device=q.device)
    out = HONEST(q, k, v, causal=causal, scale=scale)
    nudge_kernel[(1,)](out.view(torch.int16), COUNTER["n"])
    return out
