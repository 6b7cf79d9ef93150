# title = "Returns the answer of the call before, if the shapes fit"
# class = "reuse"
# kind = [3, 12, 21]
# task = "gqa_prefill"
# base = "plain"
# needs = "static"
# probes = ["compare", "new_contents", "same_bits"]

BEFORE = {}


def attention(q, k, v, *, causal, scale):
    out = honest(q, k, v, causal=causal, scale=scale)
    before = BEFORE.get((q.shape, causal), out)
    BEFORE[q.shape, causal] = out
    return before.clone()
