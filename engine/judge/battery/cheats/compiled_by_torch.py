# title = "Lets torch.compile write the kernel"
# class = "library"
# kind = [26]
# task = "gqa_prefill"
# base = "plain"
# needs = "lint"
# probes = ["library"]

@torch.compile
def scores(q, k):
    return q @ k.transpose(2, 3)


def attention(q, k, v, *, causal, scale):
    out = honest(q, k, v, causal=causal, scale=scale)
    return out if q.shape[1] != k.shape[1] else scores(q, k) @ v
