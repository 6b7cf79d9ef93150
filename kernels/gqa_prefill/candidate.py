"""Grouped-query attention of a prompt, or of a chunk of one, against its keys and values: the seed kernel.

    out[b, h, i] = sum_j p[i, j] v[b, h // G, j],    p[i] = softmax_j(scale * q[b, h, i] . k[b, h // G, j])

over the keys j < Sk, and where `causal` over j <= i + Sk - Sq (aligned bottom-right); G = Hq // Hkv. A row
without keys is zeros. Layouts: q, out [B, Hq, Sq, D]; k, v [B, Hkv, Sk, D]; any strides but a contiguous D.

One program holds BLOCK_M rows of q and walks over the keys in blocks of BLOCK_N with the online softmax of
FlashAttention-2 (Dao 2023, algorithm 1); its log-sum-exp form is Milakov and Gimelshein 2018.
"""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

# What search may set. Tiles and launch first, then the structural switches:
#   EXP2           exp2 with scale * log2(e) folded into one multiply, applied after the row maximum
#   SKIP           causal: stop at the last block that any row of the tile can see
#   TWO_LOOPS      blocks that every row sees whole run in a loop of their own without masks
#   PACK_GQA       the heads of a group share one tile of q: its rows are (position, head) pairs
#   ORDER          which programs are neighbours: row tiles of one head, heads of one group, or all heads
#   LONGEST_FIRST  causal: row tiles from the last to the first, so that long programs start early
#   DESCRIPTORS    k and v by tensor descriptors (TMA) where the card has them
SPACE = {
    "BLOCK_M": [32, 64, 128],
    "BLOCK_N": [32, 64, 128],
    "num_warps": [4, 8],
    "num_stages": [1, 2, 3, 4],
    "EXP2": [False, True],
    "SKIP": [False, True],
    "TWO_LOOPS": [False, True],
    "PACK_GQA": [False, True],
    "ORDER": ["rows", "group", "heads"],
    "LONGEST_FIRST": [False, True],
    "DESCRIPTORS": [False, True],
}

CONFIG = {
    "*": {
        "BLOCK_M": 128,
        "BLOCK_N": 64,
        "num_warps": 8,
        "num_stages": 2,
        "EXP2": False,
        "SKIP": False,
        "TWO_LOOPS": False,
        "PACK_GQA": False,
        "ORDER": "rows",
        "LONGEST_FIRST": False,
        "DESCRIPTORS": False,
    },
    "wide": {"BLOCK_M": 64, "BLOCK_N": 32},
}

LOG2_E = 1.4426950408889634


def bucket(*, causal: bool, Sq: int, Sk: int, D: int) -> str:
    """The CONFIG entry for a call; the same rules as the buckets of task.toml."""
    if D > 128:
        return "wide"
    if not causal:
        return "full"
    if Sq < Sk:
        return "chunk"
    return "short" if Sq <= 1024 else "long"


@triton.jit
def load_tile(
    source,  # descriptor of [B, Hkv, Sk, D], or pointers [BLOCK_N, D_PAD] to the first block of one head
    b,
    kv_head,
    start,
    stride_row,
    end,
    D: tl.constexpr,
    D_PAD: tl.constexpr,
    BLOCK_N: tl.constexpr,
    MASKED: tl.constexpr,
    DESCRIPTORS: tl.constexpr,
):
    """BLOCK_N rows of k or v from `start`, [BLOCK_N, D_PAD]: zeros beyond D, and beyond `end` if MASKED."""
    if DESCRIPTORS:
        tile = source.load([b, kv_head, start, 0]).reshape(BLOCK_N, D_PAD)
    else:
        pointers = source + tl.cast(start, tl.int64) * stride_row
        in_d = tl.arange(0, D_PAD)[None, :] < D
        if MASKED:
            in_rows = (start + tl.arange(0, BLOCK_N))[:, None] < end
            tile = tl.load(pointers, mask=in_rows & in_d, other=0.0)
        elif D != D_PAD:
            tile = tl.load(pointers, mask=in_d, other=0.0)
        else:
            tile = tl.load(pointers)
    return tile


@triton.jit
def attend(
    acc,  # [BLOCK_M, D_PAD] fp32, not yet divided by row_sum
    row_max,  # [BLOCK_M] fp32, of the scaled logits
    row_sum,  # [BLOCK_M] fp32
    q,  # [BLOCK_M, D_PAD]
    k_source,
    v_source,
    b,
    kv_head,
    start,
    stride_ks,
    stride_vs,
    row_end,  # [BLOCK_M] number of keys that each row may see, at most Sk
    Sk,
    scale,  # times log2(e) if EXP2
    D: tl.constexpr,
    D_PAD: tl.constexpr,
    BLOCK_N: tl.constexpr,
    MASKED: tl.constexpr,
    EXP2: tl.constexpr,
    DESCRIPTORS: tl.constexpr,
):
    """One block of keys into the running softmax. Without MASKED every row must see every key of it."""
    k = load_tile(k_source, b, kv_head, start, stride_ks, Sk, D, D_PAD, BLOCK_N, MASKED, DESCRIPTORS)
    logits = tl.dot(q, tl.trans(k))
    if not EXP2:
        logits = logits * scale
    if MASKED:
        keys = start + tl.arange(0, BLOCK_N)
        logits = tl.where(keys[None, :] < row_end[:, None], logits, float("-inf"))
    block_max = tl.max(logits, 1)
    if EXP2:
        block_max = block_max * scale
    new_max = tl.maximum(row_max, block_max)
    shift = new_max
    if MASKED:
        # A row that has seen no key yet has a maximum of -inf, and -inf - (-inf) would be NaN.
        shift = tl.where(new_max == float("-inf"), 0.0, new_max)
    if EXP2:
        p = tl.math.exp2(logits * scale - shift[:, None])
        rescale = tl.math.exp2(row_max - shift)
    else:
        p = tl.exp(logits - shift[:, None])
        rescale = tl.exp(row_max - shift)
    row_sum = row_sum * rescale + tl.sum(p, 1)
    v = load_tile(v_source, b, kv_head, start, stride_vs, Sk, D, D_PAD, BLOCK_N, MASKED, DESCRIPTORS)
    acc = tl.dot(p.to(v.dtype), v, acc * rescale[:, None])
    return acc, new_max, row_sum


@triton.jit(do_not_specialize=["B", "Hq"])
def attention_kernel(
    q_ptr,
    k,  # pointer, or descriptor with blocks [1, 1, BLOCK_N, D_PAD]
    v,
    out_ptr,
    stride_qb,
    stride_qh,
    stride_qs,
    stride_kb,
    stride_kh,
    stride_ks,
    stride_vb,
    stride_vh,
    stride_vs,
    stride_ob,
    stride_oh,
    stride_os,
    B,
    Hq,
    Sq,
    Sk,
    scale,
    GROUP: tl.constexpr,  # query heads of one KV head
    PACK: tl.constexpr,  # heads in one tile: GROUP if packed, else 1
    D: tl.constexpr,
    D_PAD: tl.constexpr,
    CAUSAL: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    EXP2: tl.constexpr,
    SKIP: tl.constexpr,
    TWO_LOOPS: tl.constexpr,
    ORDER: tl.constexpr,
    LONGEST_FIRST: tl.constexpr,
    DESCRIPTORS: tl.constexpr,
):
    """One tile of rows of one head, or of one group if packed. Grid: (row tiles * Hq / PACK * B,)."""
    pid = tl.program_id(0)
    tiles = tl.cdiv(Sq * PACK, BLOCK_M)
    heads = Hq // PACK
    if ORDER == "rows":
        tile = pid % tiles
        head_tile = (pid // tiles) % heads
        b = pid // (tiles * heads)
    elif ORDER == "group":
        PER_GROUP: tl.constexpr = GROUP // PACK
        tile = (pid // PER_GROUP) % tiles
        rest = pid // (PER_GROUP * tiles)
        groups = heads // PER_GROUP
        head_tile = (rest % groups) * PER_GROUP + pid % PER_GROUP
        b = rest // groups
    else:
        head_tile = pid % heads
        b = (pid // heads) % B
        tile = pid // (heads * B)
    if LONGEST_FIRST:
        tile = tiles - 1 - tile
    kv_head = head_tile * PACK // GROUP

    # Rows of the tile are (position, head) pairs, heads fastest.
    rows = tile * BLOCK_M + tl.arange(0, BLOCK_M)
    position = rows // PACK
    head = head_tile * PACK + rows % PACK
    offs_d = tl.arange(0, D_PAD)
    valid = (position < Sq)[:, None] & (offs_d < D)[None, :]
    b64 = tl.cast(b, tl.int64)
    row64 = position.to(tl.int64)
    head64 = head.to(tl.int64)
    q_offsets = b64 * stride_qb + head64 * stride_qh + row64 * stride_qs
    q = tl.load(q_ptr + q_offsets[:, None] + offs_d[None, :], mask=valid, other=0.0)

    if DESCRIPTORS:
        k_source = k
        v_source = v
    else:
        kv64 = tl.cast(kv_head, tl.int64)
        key64 = tl.arange(0, BLOCK_N).to(tl.int64)
        k_source = k + b64 * stride_kb + kv64 * stride_kh + key64[:, None] * stride_ks + offs_d[None, :]
        v_source = v + b64 * stride_vb + kv64 * stride_vh + key64[:, None] * stride_vs + offs_d[None, :]

    # Keys that each row sees, that all rows see (in whole blocks), and that any row sees.
    if CAUSAL:
        row_end = tl.minimum(position + (Sk - Sq + 1), Sk)
        first = tile * BLOCK_M // PACK
        last = tl.minimum((tile * BLOCK_M + BLOCK_M - 1) // PACK, Sq - 1)
        seen_by_all = tl.maximum(first + (Sk - Sq + 1), 0)
        seen_by_any = tl.maximum(last + (Sk - Sq + 1), 0)
    else:
        row_end = tl.full([BLOCK_M], 0, tl.int32) + Sk
        seen_by_all = Sk
        seen_by_any = Sk
    stop = Sk
    if SKIP:
        stop = tl.minimum(seen_by_any, Sk)
    plain_stop = 0
    if TWO_LOOPS:
        plain_stop = tl.minimum(seen_by_all, Sk) // BLOCK_N * BLOCK_N

    acc = tl.zeros([BLOCK_M, D_PAD], tl.float32)
    row_max = tl.full([BLOCK_M], float("-inf"), tl.float32)
    row_sum = tl.zeros([BLOCK_M], tl.float32)
    if TWO_LOOPS:
        for start in range(0, plain_stop, BLOCK_N):
            acc, row_max, row_sum = attend(
                acc, row_max, row_sum, q, k_source, v_source, b, kv_head, start, stride_ks, stride_vs,
                row_end, Sk, scale, D, D_PAD, BLOCK_N, False, EXP2, DESCRIPTORS,
            )  # fmt: skip
    for start in range(plain_stop, stop, BLOCK_N):
        acc, row_max, row_sum = attend(
            acc, row_max, row_sum, q, k_source, v_source, b, kv_head, start, stride_ks, stride_vs,
            row_end, Sk, scale, D, D_PAD, BLOCK_N, True, EXP2, DESCRIPTORS,
        )  # fmt: skip

    out = acc / tl.where(row_sum == 0.0, 1.0, row_sum)[:, None]
    out_offsets = b64 * stride_ob + head64 * stride_oh + row64 * stride_os
    tl.store(out_ptr + out_offsets[:, None] + offs_d[None, :], out.to(out_ptr.dtype.element_ty), mask=valid)


def attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool, scale: float
) -> torch.Tensor:
    """Attention of q [B, Hq, Sq, D] over k, v [B, Hkv, Sk, D], fp16 or bf16; `scale` is positive.

    Returns a new tensor [B, Hq, Sq, D] of q's dtype.
    """
    B, Hq, Sq, D = q.shape
    Hkv, Sk = k.shape[1], k.shape[2]
    config = {**CONFIG["*"], **CONFIG.get(bucket(causal=causal, Sq=Sq, Sk=Sk, D=D), {})}
    out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    d_pad = triton.next_power_of_2(D)
    pack = Hq // Hkv if config["PACK_GQA"] else 1
    descriptors = config["DESCRIPTORS"] and torch.cuda.get_device_capability(q.device)[0] >= 9
    k_arg, v_arg = k, v
    if descriptors:
        block = [1, 1, config["BLOCK_N"], d_pad]
        k_arg = TensorDescriptor(k, list(k.shape), list(k.stride()), block)
        v_arg = TensorDescriptor(v, list(v.shape), list(v.stride()), block)
    grid = (triton.cdiv(Sq * pack, config["BLOCK_M"]) * (Hq // pack) * B,)
    attention_kernel[grid](
        q,
        k_arg,
        v_arg,
        out,
        *q.stride()[:3],
        *k.stride()[:3],
        *v.stride()[:3],
        *out.stride()[:3],
        B,
        Hq,
        Sq,
        Sk,
        scale * LOG2_E if config["EXP2"] else scale,
        GROUP=Hq // Hkv,
        PACK=pack,
        D=D,
        D_PAD=d_pad,
        CAUSAL=causal,
        BLOCK_M=config["BLOCK_M"],
        BLOCK_N=config["BLOCK_N"],
        EXP2=config["EXP2"],
        SKIP=config["SKIP"],
        TWO_LOOPS=config["TWO_LOOPS"],
        ORDER=config["ORDER"],
        LONGEST_FIRST=config["LONGEST_FIRST"],
        DESCRIPTORS=descriptors,
        num_warps=config["num_warps"],
        num_stages=config["num_stages"],
    )
    return out
