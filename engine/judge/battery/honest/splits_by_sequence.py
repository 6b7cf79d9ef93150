# title = "A fixed number of splits, whose partial results meet without atomics"
# class = "honest"
# task = "gqa_decode"
# needs = "static"

import torch
import triton
import triton.language as tl

SPACE = {"SPLITS": [2, 3, 5], "BLOCK_N": [32, 64]}
CONFIG = {"*": {"SPLITS": 3, "BLOCK_N": 32}}


@triton.jit
def split_kernel(
    q, k, v, lens, parts, sums, sqb, sqh, sqs, skb, skh, sks, svb, svh, svs, Hq, Sq, Smax, scale,
    SPLITS: tl.constexpr, GROUP: tl.constexpr, D: tl.constexpr, D_PAD: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    b, kv_head, split = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64), tl.program_id(2)
    length = tl.minimum(tl.load(lens + b), Smax)
    rows = tl.arange(0, BLOCK_M)
    query, head = rows // GROUP, kv_head * GROUP + rows % GROUP
    d = tl.arange(0, D_PAD)
    mask = (query < Sq)[:, None] & (d < D)[None, :]
    x = tl.load(q + b * sqb + head[:, None] * sqh + query[:, None] * sqs + d[None, :], mask=mask, other=0.0)
    ends = length - Sq + 1 + query
    share = tl.cdiv(length, SPLITS)
    top = tl.full([BLOCK_M], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, D_PAD], tl.float32)
    stop = tl.minimum((split + 1) * share, length)
    for start in range(split * share, stop, BLOCK_N):
        keys = start + tl.arange(0, BLOCK_N)
        inside = (keys < stop)[:, None] & (d < D)[None, :]
        at = keys.to(tl.int64)[:, None]
        kt = tl.load(k + b * skb + kv_head * skh + at * sks + d[None, :], mask=inside, other=0.0)
        s = tl.dot(x, tl.trans(kt)) * scale
        s = tl.where((keys[None, :] < ends[:, None]) & (keys < stop)[None, :], s, float("-inf"))
        new = tl.maximum(top, tl.max(s, 1))
        shift = tl.where(new == float("-inf"), 0.0, new)
        p = tl.exp(s - shift[:, None])
        old = tl.exp(top - shift)
        total = total * old + tl.sum(p, 1)
        vt = tl.load(v + b * svb + kv_head * svh + at * svs + d[None, :], mask=inside, other=0.0)
        acc = tl.dot(p.to(vt.dtype), vt, acc * old[:, None])
        top = new
    row = ((b * Hq + head) * Sq + query) * SPLITS + split
    tl.store(parts + row[:, None] * D + d[None, :], acc, mask=mask)
    tl.store(sums + row * 2, top, mask=query < Sq)
    tl.store(sums + row * 2 + 1, total, mask=query < Sq)


@triton.jit
def combine_kernel(parts, sums, out, SPLITS: tl.constexpr, D: tl.constexpr, D_PAD: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    d = tl.arange(0, D_PAD)
    top = float("-inf")
    for split in tl.static_range(SPLITS):
        top = tl.maximum(top, tl.load(sums + (row * SPLITS + split) * 2))
    top = tl.where(top == float("-inf"), 0.0, top)
    acc = tl.zeros([D_PAD], tl.float32)
    total = 0.0
    for split in tl.static_range(SPLITS):
        at = row * SPLITS + split
        weight = tl.exp(tl.load(sums + at * 2) - top)
        total += tl.load(sums + at * 2 + 1) * weight
        acc += tl.load(parts + at * D + d, mask=d < D, other=0.0) * weight
    acc = acc / tl.where(total == 0.0, 1.0, total)
    tl.store(out + row * D + d, acc.to(out.dtype.element_ty), mask=d < D)


def decode(q, k_cache, v_cache, seq_lens, *, scale: float):
    B, Hq, Sq, D = q.shape
    Hkv, Smax = k_cache.shape[1], k_cache.shape[2]
    config = CONFIG["*"]
    splits, group, d_pad = config["SPLITS"], Hq // Hkv, triton.next_power_of_2(D)
    parts = torch.empty((B * Hq * Sq, splits, D), dtype=torch.float32, device=q.device)
    sums = torch.empty((B * Hq * Sq, splits, 2), dtype=torch.float32, device=q.device)
    out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    split_kernel[(B, Hkv, splits)](
        q, k_cache, v_cache, seq_lens, parts, sums, *q.stride()[:3], *k_cache.stride()[:3],
        *v_cache.stride()[:3], Hq, Sq, Smax, scale, SPLITS=splits, GROUP=group, D=D, D_PAD=d_pad,
        BLOCK_M=max(16, triton.next_power_of_2(group * Sq)), BLOCK_N=config["BLOCK_N"], num_warps=4,
    )  # fmt: skip
    combine_kernel[(B * Hq * Sq,)](parts, sums, out, SPLITS=splits, D=D, D_PAD=d_pad, num_warps=4)
    return out
