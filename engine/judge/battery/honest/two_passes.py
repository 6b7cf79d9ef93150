# title = "First the maximum and the sum of every row, then the result: two kernels, no rescaling"
# class = "honest"
# task = "gqa_decode"
# needs = "static"

import torch
import triton
import triton.language as tl

SPACE = {"BLOCK_N": [32, 64], "num_warps": [4]}
CONFIG = {"*": {"BLOCK_N": 64, "num_warps": 4}}


@triton.jit
def scores(q, k, keys, d, sks, length, end, scale, D: tl.constexpr):
    """Scores of one query for BLOCK_N keys, by sums of products."""
    inside = (keys < length)[:, None] & (d < D)[None, :]
    kt = tl.load(k + keys.to(tl.int64)[:, None] * sks + d[None, :], mask=inside, other=0.0)
    s = tl.sum(kt.to(tl.float32) * q[None, :], 1) * scale
    return tl.where(keys < end, s, float("-inf"))


@triton.jit
def sum_kernel(
    q, k, lens, top_sum, sqb, sqh, sqs, skb, skh, sks, Hq, Sq, Smax, scale,
    GROUP: tl.constexpr, D: tl.constexpr, D_PAD: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0)
    b, head, i = (row // (Hq * Sq)).to(tl.int64), (row // Sq % Hq).to(tl.int64), row % Sq
    d = tl.arange(0, D_PAD)
    length = tl.minimum(tl.load(lens + b), Smax)
    x = tl.load(q + b * sqb + head * sqh + i * sqs + d, mask=d < D, other=0.0).to(tl.float32)
    top = tl.full([BLOCK_N], float("-inf"), tl.float32)
    for start in range(0, length, BLOCK_N):
        keys = start + tl.arange(0, BLOCK_N)
        top = tl.maximum(top, scores(x, k + b * skb + head // GROUP * skh, keys, d, sks, length, length - Sq + 1 + i, scale, D))
    peak = tl.max(top, 0)
    peak = tl.where(peak == float("-inf"), 0.0, peak)
    total = tl.zeros([BLOCK_N], tl.float32)
    for start in range(0, length, BLOCK_N):
        keys = start + tl.arange(0, BLOCK_N)
        s = scores(x, k + b * skb + head // GROUP * skh, keys, d, sks, length, length - Sq + 1 + i, scale, D)
        total += tl.exp(s - peak)
    tl.store(top_sum + row * 2, peak)
    tl.store(top_sum + row * 2 + 1, tl.sum(total, 0))


@triton.jit
def value_kernel(
    q, k, v, lens, top_sum, out, sqb, sqh, sqs, skb, skh, sks, svb, svh, svs, Hq, Sq, Smax, scale,
    GROUP: tl.constexpr, D: tl.constexpr, D_PAD: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0)
    b, head, i = (row // (Hq * Sq)).to(tl.int64), (row // Sq % Hq).to(tl.int64), row % Sq
    d = tl.arange(0, D_PAD)
    length = tl.minimum(tl.load(lens + b), Smax)
    x = tl.load(q + b * sqb + head * sqh + i * sqs + d, mask=d < D, other=0.0).to(tl.float32)
    peak, total = tl.load(top_sum + row * 2), tl.load(top_sum + row * 2 + 1)
    v += b * svb + head // GROUP * svh
    acc = tl.zeros([D_PAD], tl.float32)
    for start in range(0, length, BLOCK_N):
        keys = start + tl.arange(0, BLOCK_N)
        s = scores(x, k + b * skb + head // GROUP * skh, keys, d, sks, length, length - Sq + 1 + i, scale, D)
        p = tl.exp(s - peak) / tl.where(total == 0.0, 1.0, total)
        inside = (keys < length)[:, None] & (d < D)[None, :]
        vt = tl.load(v + keys.to(tl.int64)[:, None] * svs + d[None, :], mask=inside, other=0.0)
        acc += tl.sum(p[:, None] * vt.to(tl.float32), 0)
    tl.store(out + row.to(tl.int64) * D + d, acc.to(out.dtype.element_ty), mask=d < D)


def decode(q, k_cache, v_cache, seq_lens, *, scale: float):
    B, Hq, Sq, D = q.shape
    group, Smax = Hq // k_cache.shape[1], k_cache.shape[2]
    out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    top_sum = torch.empty((B * Hq * Sq, 2), dtype=torch.float32, device=q.device)
    sizes = {"GROUP": group, "D": D, "D_PAD": triton.next_power_of_2(D), "BLOCK_N": CONFIG["*"]["BLOCK_N"]}
    sum_kernel[(B * Hq * Sq,)](
        q, k_cache, seq_lens, top_sum, *q.stride()[:3], *k_cache.stride()[:3], Hq, Sq, Smax, scale, **sizes
    )
    value_kernel[(B * Hq * Sq,)](
        q, k_cache, v_cache, seq_lens, top_sum, out, *q.stride()[:3], *k_cache.stride()[:3],
        *v_cache.stride()[:3], Hq, Sq, Smax, scale, **sizes,
    )  # fmt: skip
    return out
