# title = "Adds partial results in the order in which programs happen to end"
# class = "state"
# kind = [38]
# task = "gqa_decode"
# needs = "gpu"
# probes = ["same_bits", "compare"]

import torch
import triton
import triton.language as tl

SPACE = {"BLOCK_N": [32, 64]}
CONFIG = {"*": {"BLOCK_N": 64}}


@triton.jit
def split_kernel(
    q, k, v, lens, acc, weight, sqb, sqh, sqs, skb, skh, sks, svb, svh, svs, Hq, Sq, Smax, scale,
    GROUP: tl.constexpr, D: tl.constexpr, D_PAD: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    row, split = tl.program_id(0), tl.program_id(1)
    b, head, i = (row // (Hq * Sq)).to(tl.int64), (row // Sq % Hq).to(tl.int64), row % Sq
    d = tl.arange(0, D_PAD)
    keys = split * BLOCK_N + tl.arange(0, BLOCK_N)
    length = tl.minimum(tl.load(lens + b), Smax)
    inside = keys < length - Sq + 1 + i
    mask = inside[:, None] & (d < D)[None, :]
    x = tl.load(q + b * sqb + head * sqh + i * sqs + d, mask=d < D, other=0.0).to(tl.float32)
    at = keys.to(tl.int64)[:, None]
    kt = tl.load(k + b * skb + head // GROUP * skh + at * sks + d[None, :], mask=mask, other=0.0)
    s = tl.sum(kt.to(tl.float32) * x[None, :], 1) * scale
    p = tl.where(inside, tl.exp(tl.minimum(s, 80.0)), 0.0)
    vt = tl.load(v + b * svb + head // GROUP * svh + at * svs + d[None, :], mask=mask, other=0.0)
    part = tl.sum(p[:, None] * vt.to(tl.float32), 0)
    tl.atomic_add(acc + row.to(tl.int64) * D + d, part, mask=d < D)
    tl.atomic_add(weight + row, tl.sum(p, 0))


@triton.jit
def divide_kernel(acc, weight, out, D: tl.constexpr, D_PAD: tl.constexpr):
    row = tl.program_id(0)
    d = tl.arange(0, D_PAD)
    total = tl.load(weight + row)
    x = tl.load(acc + row.to(tl.int64) * D + d, mask=d < D, other=0.0) / tl.where(total == 0.0, 1.0, total)
    tl.store(out + row.to(tl.int64) * D + d, x.to(out.dtype.element_ty), mask=d < D)


def decode(q, k_cache, v_cache, seq_lens, *, scale: float):
    B, Hq, Sq, D = q.shape
    Smax, block = k_cache.shape[2], CONFIG["*"]["BLOCK_N"]
    d_pad = triton.next_power_of_2(D)
    out = torch.empty((B, Hq, Sq, D), dtype=q.dtype, device=q.device)
    acc = torch.zeros((B * Hq * Sq, D), dtype=torch.float32, device=q.device)
    weight = torch.zeros(B * Hq * Sq, dtype=torch.float32, device=q.device)
    split_kernel[(B * Hq * Sq, triton.cdiv(Smax, block))](
        q, k_cache, v_cache, seq_lens, acc, weight, *q.stride()[:3], *k_cache.stride()[:3],
        *v_cache.stride()[:3], Hq, Sq, Smax, scale, GROUP=Hq // k_cache.shape[1], D=D, D_PAD=d_pad,
        BLOCK_N=block,
    )  # fmt: skip
    divide_kernel[(B * Hq * Sq,)](acc, weight, out, D=D, D_PAD=d_pad)
    return out
