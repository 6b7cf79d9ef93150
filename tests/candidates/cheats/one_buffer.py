"""Returns the same memory each time."""
# ruff: noqa: F821 (the test puts the honest kernel in front, as HONEST)

BUFFERS = {}


def attention(q, k, v, *, causal, scale):
    out = HONEST(q, k, v, causal=causal, scale=scale)
    if "flat" not in BUFFERS:
        BUFFERS["flat"] = torch.empty(1 << 20, dtype=out.dtype, device=out.device)
    view = BUFFERS["flat"][: out.numel()].view(out.shape)
    view.copy_(out)
    return view
