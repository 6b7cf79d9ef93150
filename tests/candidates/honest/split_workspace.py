"""Attention in two kernels with a workspace: as many programs as the card has SMs, then a combine."""

import torch
import triton
import triton.language as tl

SPACE = {"BLOCK_N": [32, 64]}
CONFIG = {"*": {"BLOCK_N": 32}}


@triton.jit
def split_kernel(
    q, k, v, part, lse, sqb, sqh, sqs, skb, skh, sks, svb, svh, svs, Hq, Sq, Sk, scale, items, splits,
    GROUP: tl.constexpr, CAUSAL: tl.constexpr, D: tl.constexpr, D_PAD: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    d = tl.arange(0, D_PAD)
    per_split = tl.cdiv(tl.cdiv(Sk, BLOCK_N), splits) * BLOCK_N
    for item in range(tl.program_id(0), items * splits, tl.num_programs(0)):
        split = item % splits
        row = (item // splits) % Sq
        head = (item // splits // Sq) % Hq
        b = (item // splits // Sq // Hq).to(tl.int64)
        x = tl.load(q + b * sqb + head * sqh + row * sqs + d, mask=d < D, other=0.0).to(tl.float32)
        end = Sk
        if CAUSAL:
            end = tl.minimum(row + Sk - Sq + 1, Sk)
        top = float("-inf")
        total = 0.0
        acc = tl.zeros([D_PAD], tl.float32)
        for start in range(split * per_split, tl.minimum(split * per_split + per_split, end), BLOCK_N):
            keys = start + tl.arange(0, BLOCK_N)
            inside = (keys < end)[:, None] & (d < D)[None, :]
            kv = b * skb + (head // GROUP) * skh
            kt = tl.load(k + kv + keys[:, None] * sks + d[None, :], mask=inside, other=0.0).to(tl.float32)
            s = tl.where(keys < end, tl.sum(kt * x[None, :], 1) * scale, float("-inf"))
            new = tl.maximum(top, tl.max(s, 0))
            p = tl.exp(s - new)
            old = tl.exp(top - new)
            vv = b * svb + (head // GROUP) * svh
            vt = tl.load(v + vv + keys[:, None] * svs + d[None, :], mask=inside, other=0.0).to(tl.float32)
            total = total * old + tl.sum(p, 0)
            acc = acc * old + tl.sum(p[:, None] * vt, 0)
            top = new
        tl.store(part + tl.cast(item, tl.int64) * D_PAD + d, acc)
        tl.store(lse + item * 2, top)
        tl.store(lse + item * 2 + 1, total)


@triton.jit
def combine_kernel(part, lse, out, splits, D: tl.constexpr, D_PAD: tl.constexpr, SPLITS: tl.constexpr):
    item = tl.program_id(0).to(tl.int64)
    d = tl.arange(0, D_PAD)
    s = tl.arange(0, SPLITS)
    tops = tl.load(lse + (item * splits + s) * 2, mask=s < splits, other=float("-inf"))
    totals = tl.load(lse + (item * splits + s) * 2 + 1, mask=s < splits, other=0.0)
    top = tl.max(tops, 0)
    weights = tl.exp(tops - tl.where(top == float("-inf"), 0.0, top))
    parts = tl.load(
        part + (item * splits + s)[:, None] * D_PAD + d[None, :], mask=(s < splits)[:, None], other=0.0
    )
    total = tl.sum(totals * weights, 0)
    result = tl.sum(parts * weights[:, None], 0) / tl.where(total == 0.0, 1.0, total)
    tl.store(out + item * D + d, result.to(out.dtype.element_ty), mask=d < D)


def attention(q, k, v, *, causal: bool, scale: float):
    B, Hq, Sq, D = q.shape
    sms = torch.cuda.get_device_properties(q.device).multi_processor_count
    splits, items, d_pad = 2, B * Hq * Sq, triton.next_power_of_2(D)
    out = torch.empty((B, Hq, Sq, D), dtype=q.dtype, device=q.device)
    part = torch.empty((items * splits, d_pad), dtype=torch.float32, device="cuda")
    lse = torch.empty((items * splits, 2), dtype=torch.float32, device="cuda")
    split_kernel[(min(sms, items * splits),)](
        q, k, v, part, lse, *q.stride()[:3], *k.stride()[:3], *v.stride()[:3], Hq, Sq, k.shape[2], scale,
        items, splits, GROUP=Hq // k.shape[1], CAUSAL=causal, D=D, D_PAD=d_pad,
        BLOCK_N=CONFIG["*"]["BLOCK_N"],
    )  # fmt: skip
    combine_kernel[lambda meta: (items,)](part, lse, out, splits, D=D, D_PAD=d_pad, SPLITS=2)
    return out
