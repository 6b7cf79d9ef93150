# title = "Scores, then weights, then values: three kernels with scratch between"
# class = "honest"
# task = "gqa_decode"
# needs = "static"

import torch
import triton
import triton.language as tl

SPACE = {"BLOCK_N": [32, 64], "num_warps": [4]}
CONFIG = {"*": {"BLOCK_N": 64, "num_warps": 4}}


@triton.jit
def score_kernel(
    q, k, lens, scores, sqb, sqh, sqs, skb, skh, sks, Hq, Sq, Smax, scale,
    GROUP: tl.constexpr, D: tl.constexpr, D_PAD: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    b, head = (tl.program_id(1) // Hq).to(tl.int64), (tl.program_id(1) % Hq).to(tl.int64)
    length = tl.minimum(tl.load(lens + b), Smax)
    rows = tl.arange(0, 16)
    keys = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    d = tl.arange(0, D_PAD)
    x_mask, k_mask = (rows < Sq)[:, None] & (d < D)[None, :], (keys < length)[:, None] & (d < D)[None, :]
    x = tl.load(q + b * sqb + head * sqh + rows[:, None] * sqs + d[None, :], mask=x_mask, other=0.0)
    k += b * skb + head // GROUP * skh
    kt = tl.load(k + keys.to(tl.int64)[:, None] * sks + d[None, :], mask=k_mask, other=0.0)
    s = tl.dot(x, tl.trans(kt)) * scale
    s = tl.where(keys[None, :] <= (rows + length - Sq)[:, None], s, float("-inf"))
    at = (tl.program_id(1).to(tl.int64) * Sq + rows)[:, None] * Smax + keys[None, :]
    tl.store(scores + at, s, mask=(rows < Sq)[:, None] & (keys < Smax)[None, :])


@triton.jit
def weight_kernel(scores, Smax, BLOCK: tl.constexpr):
    keys = tl.arange(0, BLOCK)
    at = scores + tl.program_id(0).to(tl.int64) * Smax + keys
    s = tl.load(at, mask=keys < Smax, other=float("-inf"))
    top = tl.max(s, 0)
    p = tl.exp(s - tl.where(top == float("-inf"), 0.0, top))
    total = tl.sum(p, 0)
    tl.store(at, p / tl.where(total == 0.0, 1.0, total), mask=keys < Smax)


@triton.jit
def value_kernel(
    scores, v, lens, out, svb, svh, svs, Hq, Sq, Smax,
    GROUP: tl.constexpr, D: tl.constexpr, D_PAD: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    b, head = (tl.program_id(0) // Hq).to(tl.int64), (tl.program_id(0) % Hq).to(tl.int64)
    length = tl.minimum(tl.load(lens + b), Smax)
    rows = tl.arange(0, 16)
    d = tl.arange(0, D_PAD)
    row_at = tl.program_id(0).to(tl.int64) * Sq + rows
    v += b * svb + head // GROUP * svh
    acc = tl.zeros([16, D_PAD], tl.float32)
    for start in range(0, length, BLOCK_N):
        keys = start + tl.arange(0, BLOCK_N)
        p_mask = (rows < Sq)[:, None] & (keys < length)[None, :]
        v_mask = (keys < length)[:, None] & (d < D)[None, :]
        p = tl.load(scores + row_at[:, None] * Smax + keys[None, :], mask=p_mask, other=0.0)
        vt = tl.load(v + keys.to(tl.int64)[:, None] * svs + d[None, :], mask=v_mask, other=0.0)
        acc = tl.dot(p.to(vt.dtype), vt, acc)
    mask = (rows < Sq)[:, None] & (d < D)[None, :]
    tl.store(out + row_at[:, None] * D + d[None, :], acc.to(out.dtype.element_ty), mask=mask)


def decode(q, k_cache, v_cache, seq_lens, *, scale: float):
    B, Hq, Sq, D = q.shape
    Smax, block = k_cache.shape[2], CONFIG["*"]["BLOCK_N"]
    sizes = {"GROUP": Hq // k_cache.shape[1], "D": D, "D_PAD": triton.next_power_of_2(D), "BLOCK_N": block}
    scores = torch.empty((B, Hq, Sq, Smax), dtype=torch.float32, device=q.device)
    out = torch.empty((B, Hq, Sq, D), dtype=q.dtype, device=q.device)
    score_kernel[(triton.cdiv(Smax, block), B * Hq)](
        q, k_cache, seq_lens, scores, *q.stride()[:3], *k_cache.stride()[:3], Hq, Sq, Smax, scale, **sizes
    )
    weight_kernel[(B * Hq * Sq,)](scores, Smax, BLOCK=triton.next_power_of_2(Smax), num_warps=8)
    value_kernel[(B * Hq,)](scores, v_cache, seq_lens, out, *v_cache.stride()[:3], Hq, Sq, Smax, **sizes)
    return out
