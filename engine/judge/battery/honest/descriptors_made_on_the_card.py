# title = "Tensor descriptors that the kernel makes for itself"
# class = "honest"
# task = "gqa_prefill"
# needs = "static"

import torch
import triton
import triton.language as tl

SPACE = {"BLOCK_N": [32, 64], "num_warps": [4]}
CONFIG = {"*": {"BLOCK_N": 32, "num_warps": 4}}


def memory_for_descriptors(size: int, alignment: int, stream):
    return torch.empty(size, dtype=torch.int8, device=torch.device("cuda", torch.cuda.current_device()))


@triton.jit
def attention_kernel(
    q, k, v, out, sqb, sqh, sqs, skb, skh, sks, svb, svh, svs, sob, soh, sos,
    Hq, Sq, Sk, scale,
    GROUP: tl.constexpr, CAUSAL: tl.constexpr, D: tl.constexpr,
    D_PAD: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    b = (tl.program_id(1) // Hq).to(tl.int64)
    head = (tl.program_id(1) % Hq).to(tl.int64)
    begin = tl.program_id(0) * BLOCK_M
    keys_of = tl.make_tensor_descriptor(
        k + b * skb + head // GROUP * skh, [Sk, D], [sks, 1], [BLOCK_N, D_PAD]
    )
    values_of = tl.make_tensor_descriptor(
        v + b * svb + head // GROUP * svh, [Sk, D], [svs, 1], [BLOCK_N, D_PAD]
    )
    rows = begin + tl.arange(0, BLOCK_M)
    d = tl.arange(0, D_PAD)
    mask = (rows < Sq)[:, None] & (d < D)[None, :]
    x = tl.load(q + b * sqb + head * sqh + rows[:, None] * sqs + d[None, :], mask=mask, other=0.0)
    ends = tl.full([BLOCK_M], 0, tl.int32) + Sk
    if CAUSAL:
        ends = tl.minimum(rows + Sk - Sq + 1, Sk)
    top = tl.full([BLOCK_M], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, D_PAD], tl.float32)
    for start in range(0, Sk, BLOCK_N):
        keys = start + tl.arange(0, BLOCK_N)
        s = tl.dot(x, keys_of.load([start, 0]).T) * scale
        s = tl.where(keys[None, :] < ends[:, None], s, float("-inf"))
        new = tl.maximum(top, tl.max(s, 1))
        shift = tl.where(new == float("-inf"), 0.0, new)
        p = tl.exp(s - shift[:, None])
        old = tl.exp(top - shift)
        total = total * old + tl.sum(p, 1)
        vt = values_of.load([start, 0])
        acc = tl.dot(p.to(vt.dtype), vt, acc * old[:, None])
        top = new
    acc = acc / tl.where(total == 0.0, 1.0, total)[:, None]
    tl.store(out + b * sob + head * soh + rows[:, None] * sos + d[None, :], acc.to(x.dtype), mask=mask)


def attention(q, k, v, *, causal: bool, scale: float):
    B, Hq, Sq, D = q.shape
    out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    triton.set_allocator(memory_for_descriptors)
    attention_kernel[(triton.cdiv(Sq, 32), B * Hq)](
        q, k, v, out, *q.stride()[:3], *k.stride()[:3], *v.stride()[:3], *out.stride()[:3],
        Hq, Sq, k.shape[2], scale, GROUP=Hq // k.shape[1], CAUSAL=causal, D=D,
        D_PAD=triton.next_power_of_2(D), BLOCK_M=32, BLOCK_N=CONFIG["*"]["BLOCK_N"],
        num_warps=CONFIG["*"]["num_warps"],
    )  # fmt: skip
    return out
