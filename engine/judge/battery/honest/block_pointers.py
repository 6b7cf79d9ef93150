# title = "Block pointers that advance, and a grid of three axes"
# class = "honest"
# task = "gqa_prefill"
# needs = "gpu"

import torch
import triton
import triton.language as tl

SPACE = {"BLOCK_N": [32, 64], "num_warps": [4]}
CONFIG = {"*": {"BLOCK_N": 32, "num_warps": 4}}


@triton.jit
def attention_kernel(
    q, k, v, out, sqb, sqh, sqs, skb, skh, sks, svb, svh, svs, sob, soh, sos,
    Sq, Sk, scale,
    GROUP: tl.constexpr, CAUSAL: tl.constexpr, D: tl.constexpr,
    D_PAD: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    b = tl.program_id(2).to(tl.int64)
    head = tl.program_id(1).to(tl.int64)
    begin = tl.program_id(0) * BLOCK_M
    q_block = tl.make_block_ptr(
        q + b * sqb + head * sqh, (Sq, D), (sqs, 1), (begin, 0), (BLOCK_M, D_PAD), (1, 0)
    )
    k_block = tl.make_block_ptr(
        k + b * skb + head // GROUP * skh, (D, Sk), (1, sks), (0, 0), (D_PAD, BLOCK_N), (0, 1)
    )
    v_block = tl.make_block_ptr(
        v + b * svb + head // GROUP * svh, (Sk, D), (svs, 1), (0, 0), (BLOCK_N, D_PAD), (1, 0)
    )
    x = tl.load(q_block, boundary_check=(0, 1), padding_option="zero")
    rows = begin + tl.arange(0, BLOCK_M)
    ends = tl.full([BLOCK_M], 0, tl.int32) + Sk
    if CAUSAL:
        ends = tl.minimum(rows + Sk - Sq + 1, Sk)
    top = tl.full([BLOCK_M], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, D_PAD], tl.float32)
    for start in range(0, Sk, BLOCK_N):
        keys = start + tl.arange(0, BLOCK_N)
        s = tl.dot(x, tl.load(k_block, boundary_check=(0, 1), padding_option="zero")) * scale
        s = tl.where(keys[None, :] < ends[:, None], s, float("-inf"))
        new = tl.maximum(top, tl.max(s, 1))
        shift = tl.where(new == float("-inf"), 0.0, new)
        p = tl.exp(s - shift[:, None])
        old = tl.exp(top - shift)
        total = total * old + tl.sum(p, 1)
        vt = tl.load(v_block, boundary_check=(0, 1), padding_option="zero")
        acc = tl.dot(p.to(vt.dtype), vt, acc * old[:, None])
        top = new
        k_block = tl.advance(k_block, (0, BLOCK_N))
        v_block = tl.advance(v_block, (BLOCK_N, 0))
    acc = acc / tl.where(total == 0.0, 1.0, total)[:, None]
    out_block = tl.make_block_ptr(
        out + b * sob + head * soh, (Sq, D), (sos, 1), (begin, 0), (BLOCK_M, D_PAD), (1, 0)
    )
    tl.store(out_block, acc.to(x.dtype), boundary_check=(0, 1))


def attention(q, k, v, *, causal: bool, scale: float):
    B, Hq, Sq, D = q.shape
    out = torch.empty_like(q, memory_format=torch.contiguous_format)
    attention_kernel[lambda meta: (triton.cdiv(Sq, meta["BLOCK_M"]), Hq, B)](
        q, k, v, out, *q.stride()[:3], *k.stride()[:3], *v.stride()[:3], *out.stride()[:3],
        Sq, k.shape[2], scale, GROUP=Hq // k.shape[1], CAUSAL=causal, D=D,
        D_PAD=triton.next_power_of_2(D), BLOCK_M=32, BLOCK_N=CONFIG["*"]["BLOCK_N"],
        num_warps=CONFIG["*"]["num_warps"],
    )  # fmt: skip
    return out
