# title = "Lets each split go on from what the one before it left, with nothing to wait for it"
# class = "state"
# kind = [38]
# task = "gqa_decode"
# base = "none"
# needs = "static"
# probes = ["same_bits"]

import torch
import triton
import triton.language as tl

SPACE = {"SPLITS": [2, 4], "BLOCK_N": [32, 64]}
CONFIG = {"*": {"SPLITS": 2, "BLOCK_N": 32}}


@triton.jit
def chain_kernel(
    q, k, v, lens, state, out, sqb, sqh, sqs, skb, skh, sks, svb, svh, svs, Hq, Sq, Smax, scale,
    SPLITS: tl.constexpr, GROUP: tl.constexpr, D: tl.constexpr, D_PAD: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    row, split = tl.program_id(1), tl.program_id(0)
    b, head, i = (row // (Hq * Sq)).to(tl.int64), (row // Sq % Hq).to(tl.int64), row % Sq
    d = tl.arange(0, D_PAD)
    length = tl.minimum(tl.load(lens + b), Smax)
    end = tl.maximum(length - Sq + 1 + i, 0)
    share = tl.cdiv(Smax, SPLITS)
    x = tl.load(q + b * sqb + head * sqh + i * sqs + d, mask=d < D, other=0.0).to(tl.float32)
    at = state + row.to(tl.int64) * (D_PAD + 2)
    top, total, acc = -1e30, 0.0, tl.zeros([D_PAD], tl.float32)
    if split > 0:
        top, total, acc = tl.load(at), tl.load(at + 1), tl.load(at + 2 + d)
    for start in range(split * share, tl.minimum(split * share + share, end), BLOCK_N):
        keys = start + tl.arange(0, BLOCK_N)
        inside = (keys < end) & (keys < split * share + share)
        mask = inside[:, None] & (d < D)[None, :]
        where = keys.to(tl.int64)[:, None]
        kt = tl.load(k + b * skb + head // GROUP * skh + where * sks + d[None, :], mask=mask, other=0.0)
        s = tl.where(inside, tl.sum(kt.to(tl.float32) * x[None, :], 1) * scale, -1e30)
        new = tl.maximum(top, tl.max(s, 0))
        p = tl.where(inside, tl.exp(s - new), 0.0)
        vt = tl.load(v + b * svb + head // GROUP * svh + where * svs + d[None, :], mask=mask, other=0.0)
        acc = acc * tl.exp(top - new) + tl.sum(p[:, None] * vt.to(tl.float32), 0)
        total = total * tl.exp(top - new) + tl.sum(p, 0)
        top = new
    tl.store(at, top)
    tl.store(at + 1, total)
    tl.store(at + 2 + d, acc)
    if split == SPLITS - 1:
        x = acc / tl.where(total == 0.0, 1.0, total)
        tl.store(out + row.to(tl.int64) * D + d, x.to(out.dtype.element_ty), mask=d < D)


def decode(q, k_cache, v_cache, seq_lens, *, scale: float):
    B, Hq, Sq, D = q.shape
    Smax, config, d_pad = k_cache.shape[2], CONFIG["*"], triton.next_power_of_2(D)
    out = torch.empty((B, Hq, Sq, D), dtype=q.dtype, device=q.device)
    state = torch.empty((B * Hq * Sq, d_pad + 2), dtype=torch.float32, device=q.device)
    chain_kernel[(config["SPLITS"], B * Hq * Sq)](
        q, k_cache, v_cache, seq_lens, state, out, *q.stride()[:3], *k_cache.stride()[:3],
        *v_cache.stride()[:3], Hq, Sq, Smax, scale, SPLITS=config["SPLITS"], GROUP=Hq // k_cache.shape[1],
        D=D, D_PAD=d_pad, BLOCK_N=config["BLOCK_N"],
    )  # fmt: skip
    return out
