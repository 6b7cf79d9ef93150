# title = "As many programs as the card has SMs, each taking tile after tile"
# class = "honest"
# task = "gqa_prefill"
# needs = "static"

import torch
import triton
import triton.language as tl

SPACE = {"BLOCK_N": [32, 64], "num_warps": [4]}
CONFIG = {"*": {"BLOCK_N": 32, "num_warps": 4}}


@triton.jit
def one_tile(
    q, k, v, out, sqs, sks, svs, sos, rows, Sq, Sk, scale,
    CAUSAL: tl.constexpr, D: tl.constexpr, D_PAD: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    d = tl.arange(0, D_PAD)
    mask = (rows < Sq)[:, None] & (d < D)[None, :]
    x = tl.load(q + rows[:, None] * sqs + d[None, :], mask=mask, other=0.0)
    ends = tl.full([BLOCK_M], 0, tl.int32) + Sk
    if CAUSAL:
        ends = tl.minimum(rows + Sk - Sq + 1, Sk)
    top = tl.full([BLOCK_M], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, D_PAD], tl.float32)
    for start in range(0, tl.maximum(tl.max(ends, 0), 0), BLOCK_N):
        keys = start + tl.arange(0, BLOCK_N)
        inside = (keys < Sk)[:, None] & (d < D)[None, :]
        s = tl.dot(x, tl.trans(tl.load(k + keys[:, None] * sks + d[None, :], mask=inside, other=0.0))) * scale
        s = tl.where(keys[None, :] < ends[:, None], s, float("-inf"))
        new = tl.maximum(top, tl.max(s, 1))
        shift = tl.where(new == float("-inf"), 0.0, new)
        p = tl.exp(s - shift[:, None])
        old = tl.exp(top - shift)
        total = total * old + tl.sum(p, 1)
        vt = tl.load(v + keys[:, None] * svs + d[None, :], mask=inside, other=0.0)
        acc = tl.dot(p.to(vt.dtype), vt, acc * old[:, None])
        top = new
    acc = acc / tl.where(total == 0.0, 1.0, total)[:, None]
    tl.store(out + rows[:, None] * sos + d[None, :], acc.to(x.dtype), mask=mask)


@triton.jit
def attention_kernel(
    q, k, v, out, sqb, sqh, sqs, skb, skh, sks, svb, svh, svs, sob, soh, sos,
    Hq, Sq, Sk, scale, tiles, total,
    GROUP: tl.constexpr, CAUSAL: tl.constexpr, D: tl.constexpr,
    D_PAD: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    for work in range(tl.program_id(0), total, tl.num_programs(0)):
        b = tl.cast(work // (tiles * Hq), tl.int64)
        head = tl.cast(work // tiles % Hq, tl.int64)
        rows = work % tiles * BLOCK_M + tl.arange(0, BLOCK_M)
        one_tile(
            q + b * sqb + head * sqh, k + b * skb + head // GROUP * skh, v + b * svb + head // GROUP * svh,
            out + b * sob + head * soh, sqs, sks, svs, sos, rows, Sq, Sk, scale,
            CAUSAL, D, D_PAD, BLOCK_M, BLOCK_N,
        )  # fmt: skip


def attention(q, k, v, *, causal: bool, scale: float):
    B, Hq, Sq, D = q.shape
    out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    tiles = triton.cdiv(Sq, 32)
    sms = torch.cuda.get_device_properties(q.device).multi_processor_count
    attention_kernel[(min(sms, tiles * B * Hq),)](
        q, k, v, out, *q.stride()[:3], *k.stride()[:3], *v.stride()[:3], *out.stride()[:3],
        Hq, Sq, k.shape[2], scale, tiles, tiles * B * Hq, GROUP=Hq // k.shape[1], CAUSAL=causal, D=D,
        D_PAD=triton.next_power_of_2(D), BLOCK_M=32, BLOCK_N=CONFIG["*"]["BLOCK_N"],
        num_warps=CONFIG["*"]["num_warps"],
    )  # fmt: skip
    return out
