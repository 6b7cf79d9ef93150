# title = "Makes its inputs contiguous first"
# class = "honest"
# task = "gqa_prefill"
# base = "plain"
# needs = "static"

def attention(q, k, v, *, causal: bool, scale: float):
    return honest(q.contiguous(), k.contiguous(), v.contiguous(), causal=causal, scale=scale)
