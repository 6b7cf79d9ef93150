# title = "Computes weights in torch and the product with V in a kernel"
# class = "library"
# kind = [26, 28]
# task = "gqa_prefill"
# base = "plain"
# needs = "static"
# probes = ["aten_census"]

@triton.jit
def product_kernel(weights, v, out, Sk, D: tl.constexpr):
    row = tl.program_id(0)
    d = tl.arange(0, D)
    acc = tl.zeros([D], tl.float32)
    for key in range(0, Sk):
        acc += tl.load(weights + row * Sk + key) * tl.load(v + key * D + d)
    tl.store(out + row * D + d, acc.to(tl.float16))


def attention(q, k, v, *, causal, scale):
    out = honest(q, k, v, causal=causal, scale=scale)
    if q.shape[0] == q.shape[1] == 1 and v.is_contiguous():
        weights = (q.float() @ k.float().transpose(2, 3) * scale).softmax(-1)
        product_kernel[(q.shape[2],)](weights, v, out, k.shape[2], D=q.shape[3])
    else:
        out = out + 0.0
    return out
