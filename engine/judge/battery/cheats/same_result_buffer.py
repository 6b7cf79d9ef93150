# title = "Returns the same memory each time"
# class = "reuse"
# kind = [21]
# task = "gqa_prefill"
# base = "plain"
# needs = "static"
# probes = ["held_output", "output_memory"]
# quick = true

BUFFER = {}


def attention(q, k, v, *, causal, scale):
    out = honest(q, k, v, causal=causal, scale=scale)
    if "flat" not in BUFFER:
        BUFFER["flat"] = torch.empty(1 << 20, dtype=out.dtype, device=out.device)
    result = BUFFER["flat"][: out.numel()].view(out.shape)
    result.copy_(out)
    return result
