# title = "Scales q into scratch with a kernel of its own"
# class = "honest"
# task = "gqa_prefill"
# base = "plain"
# needs = "static"
# [[edit]]
# old = '''
# def attention(q, k, v, *, causal: bool, scale: float):
# '''
# new = '''
# def unused(q, k, v, *, causal: bool, scale: float):
# '''
# [[edit]]
# old = '''
#         s = tl.dot(x, tl.trans(kt)) * scale
# '''
# new = '''
#         s = tl.dot(x, tl.trans(kt.to(x.dtype)), input_precision="ieee") * scale
# '''
# [[edit]]
# old = "acc.to(x.dtype)"
# new = "acc.to(out.dtype.element_ty)"

@triton.jit
def scale_kernel(q, out, sqb, sqh, sqs, Hq, Sq, scale, D: tl.constexpr, D_PAD: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    d = tl.arange(0, D_PAD)
    at = row // (Hq * Sq) * sqb + row // Sq % Hq * sqh + row % Sq * sqs
    x = tl.load(q + at + d, mask=d < D, other=0.0)
    tl.store(out + row * D + d, x.to(tl.float32) * scale, mask=d < D)


def attention(q, k, v, *, causal: bool, scale: float):
    B, Hq, Sq, D = q.shape
    scaled = torch.empty((B, Hq, Sq, D), dtype=torch.float32, device=q.device)
    scale_kernel[(B * Hq * Sq,)](
        q, scaled, *q.stride()[:3], Hq, Sq, scale, D=D, D_PAD=triton.next_power_of_2(D), num_warps=1
    )
    out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    attention_kernel[(triton.cdiv(Sq, 32), B * Hq)](
        scaled, k, v, out, *scaled.stride()[:3], *k.stride()[:3], *v.stride()[:3], *out.stride()[:3],
        Hq, Sq, k.shape[2], 1.0, GROUP=Hq // k.shape[1], CAUSAL=causal, D=D,
        D_PAD=triton.next_power_of_2(D), BLOCK_M=32, BLOCK_N=CONFIG["*"]["BLOCK_N"], num_warps=4,
    )  # fmt: skip
    return out
