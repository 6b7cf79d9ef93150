# title = "One plain kernel, the rows of a group in one program"
# class = "honest"
# task = "gqa_decode"
# needs = "static"

import torch
import triton
import triton.language as tl

SPACE = {"BLOCK_N": [32, 64, 128], "num_warps": [2, 4]}
CONFIG = {"*": {"BLOCK_N": 64, "num_warps": 4}}


@triton.jit
def decode_kernel(
    q, k, v, lens, out, sqb, sqh, sqs, skb, skh, sks, svb, svh, svs, sob, soh, sos,
    Sq, Smax, scale,
    GROUP: tl.constexpr, D: tl.constexpr, D_PAD: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    b = tl.program_id(1).to(tl.int64)
    kv_head = tl.program_id(0).to(tl.int64)
    length = tl.minimum(tl.load(lens + b), Smax)
    rows = tl.arange(0, BLOCK_M)
    query = rows // GROUP
    head = kv_head * GROUP + rows % GROUP
    d = tl.arange(0, D_PAD)
    mask = (query < Sq)[:, None] & (d < D)[None, :]
    x = tl.load(q + b * sqb + head[:, None] * sqh + query[:, None] * sqs + d[None, :], mask=mask, other=0.0)
    ends = length - Sq + 1 + query
    first = 0
    stop = length
    top = tl.full([BLOCK_M], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, D_PAD], tl.float32)
    k += b * skb + kv_head * skh
    v += b * svb + kv_head * svh
    for start in range(first, stop, BLOCK_N):
        keys = start + tl.arange(0, BLOCK_N)
        inside = (keys < length)[:, None] & (d < D)[None, :]
        kt = tl.load(k + keys.to(tl.int64)[:, None] * sks + d[None, :], mask=inside, other=0.0)
        s = tl.dot(x, tl.trans(kt)) * scale
        s = tl.where(keys[None, :] < ends[:, None], s, float("-inf"))
        new = tl.maximum(top, tl.max(s, 1))
        shift = tl.where(new == float("-inf"), 0.0, new)
        p = tl.exp(s - shift[:, None])
        old = tl.exp(top - shift)
        total = total * old + tl.sum(p, 1)
        vt = tl.load(v + keys.to(tl.int64)[:, None] * svs + d[None, :], mask=inside, other=0.0)
        acc = tl.dot(p.to(vt.dtype), vt, acc * old[:, None])
        top = new
    acc = acc / tl.where(total == 0.0, 1.0, total)[:, None]
    at = b * sob + head[:, None] * soh + query[:, None] * sos + d[None, :]
    tl.store(out + at, acc.to(x.dtype), mask=mask)


def decode(q, k_cache, v_cache, seq_lens, *, scale: float):
    B, Hq, Sq, D = q.shape
    Hkv, Smax = k_cache.shape[1], k_cache.shape[2]
    out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    config = CONFIG["*"]
    group = Hq // Hkv
    decode_kernel[(Hkv, B)](
        q, k_cache, v_cache, seq_lens, out, *q.stride()[:3], *k_cache.stride()[:3], *v_cache.stride()[:3],
        *out.stride()[:3], Sq, Smax, scale, GROUP=group, D=D, D_PAD=triton.next_power_of_2(D),
        BLOCK_M=max(16, triton.next_power_of_2(group * Sq)), BLOCK_N=config["BLOCK_N"],
        num_warps=config["num_warps"],
    )  # fmt: skip
    return out
