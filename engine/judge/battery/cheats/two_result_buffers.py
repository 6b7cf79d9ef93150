# title = "Returns two pieces of memory in turn"
# class = "reuse"
# kind = [21]
# task = "gqa_decode"
# base = "plain"
# needs = "static"
# probes = ["output_memory", "held_output"]

BUFFERS = []
CALLS = []


def decode(q, k_cache, v_cache, seq_lens, *, scale):
    out = honest(q, k_cache, v_cache, seq_lens, scale=scale)
    if not BUFFERS:
        BUFFERS.extend(torch.empty(1 << 20, dtype=out.dtype, device=out.device) for _ in range(2))
    CALLS.append(1)
    result = BUFFERS[len(CALLS) % 2][: out.numel()].view(out.shape)
    result.copy_(out)
    return result
