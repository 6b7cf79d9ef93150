"""Grouped-query attention of the last Sq positions of every sequence over its KV cache: the seed kernel.

    out[b, h, i] = sum_j p[i, j] v[b, h // G, j],    p[i] = softmax_j(scale * q[b, h, i] . k[b, h // G, j])

over the keys j <= seq_lens[b] - Sq + i; G = Hq // Hkv. A row without keys is zeros, and what the cache holds
beyond seq_lens never counts, NaN included. Layouts: q, out [B, Hq, Sq, D]; caches [B, Hkv, Smax, D]; any
strides but a contiguous D; seq_lens int32 [B] stays on the device.

One program holds the rows of one head (or of a packed group) and walks over the keys, or over one split of
them, with the online softmax of FlashAttention-2 (Dao 2023); the splits of Flash-Decoding (Dao et al. 2023)
meet in a second kernel by their log-sum-exp in float32.
"""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

# What search may set. Tile and launch first, then the structural switches:
#   EXP2         exp2 with scale * log2(e) folded into one multiply, applied after the row maximum
#   SKIP         stop at the sequence's length instead of walking masked blocks up to Smax
#   TWO_LOOPS    blocks that every row sees whole run in a loop of their own without masks
#   PACK_GQA     the heads of a group share one program, so the cache is read once for all of them
#   SPLIT_WAVES  0: no splits; else as many splits as fill the SMs so many times, with a combine kernel
#   ORDER        which programs are neighbours: the heads, or the splits of one head
#   DESCRIPTORS  caches by tensor descriptors (TMA) where the card has them
SPACE = {
    "BLOCK_N": [32, 64, 128],
    "num_warps": [2, 4, 8],
    "num_stages": [1, 2, 3, 4],
    "EXP2": [False, True],
    "SKIP": [False, True],
    "TWO_LOOPS": [False, True],
    "PACK_GQA": [False, True],
    "SPLIT_WAVES": [0, 1, 2, 4],
    "ORDER": ["heads", "splits"],
    "DESCRIPTORS": [False, True],
}

CONFIG = {
    "*": {
        "BLOCK_N": 64,
        "num_warps": 4,
        "num_stages": 2,
        "EXP2": False,
        "SKIP": False,
        "TWO_LOOPS": False,
        "PACK_GQA": False,
        "SPLIT_WAVES": 0,
        "ORDER": "heads",
        "DESCRIPTORS": False,
    },
    "wide": {"BLOCK_N": 32},
}

LOG2_E = 1.4426950408889634
MAX_SPLITS = 128


def bucket(*, B: int, Sq: int, Sk: int, D: int) -> str:
    """The CONFIG entry for a call (Sk is Smax); the same rules as the buckets of task.toml."""
    if D > 128:
        return "wide"
    if Sq > 1:
        return "multi"
    if B <= 4:
        return "few_short" if Sk <= 2048 else "few_long"
    return "many"


@triton.jit
def load_tile(
    source,  # descriptor of [B, Hkv, Smax, D], or pointers [BLOCK_N, D_PAD] to the first block of one head
    b,
    kv_head,
    start,
    stride_row,
    length,
    D: tl.constexpr,
    D_PAD: tl.constexpr,
    BLOCK_N: tl.constexpr,
    MASKED: tl.constexpr,
    DESCRIPTORS: tl.constexpr,
):
    """BLOCK_N rows of a cache from `start`, [BLOCK_N, D_PAD]: zeros beyond D, beyond `length` if MASKED."""
    in_rows = (start + tl.arange(0, BLOCK_N))[:, None] < length
    if DESCRIPTORS:
        tile = source.load([b, kv_head, start, 0]).reshape(BLOCK_N, D_PAD)
        if MASKED:
            tile = tl.where(in_rows, tile, 0.0)
    else:
        pointers = source + tl.cast(start, tl.int64) * stride_row
        in_d = tl.arange(0, D_PAD)[None, :] < D
        if MASKED:
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
    row_end,  # [BLOCK_M] number of keys that each row may see; 0 or less for none
    length,
    scale,  # times log2(e) if EXP2
    D: tl.constexpr,
    D_PAD: tl.constexpr,
    BLOCK_N: tl.constexpr,
    MASKED: tl.constexpr,
    EXP2: tl.constexpr,
    DESCRIPTORS: tl.constexpr,
):
    """One block of keys into the running softmax. Without MASKED every row must see every key of it."""
    k = load_tile(k_source, b, kv_head, start, stride_ks, length, D, D_PAD, BLOCK_N, MASKED, DESCRIPTORS)
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
    v = load_tile(v_source, b, kv_head, start, stride_vs, length, D, D_PAD, BLOCK_N, MASKED, DESCRIPTORS)
    acc = tl.dot(p.to(v.dtype), v, acc * rescale[:, None])
    return acc, new_max, row_sum


@triton.jit(do_not_specialize=["Hq", "splits"])
def decode_kernel(
    q_ptr,
    k,  # pointer, or descriptor with blocks [1, 1, BLOCK_N, D_PAD]
    v,
    seq_lens_ptr,
    out_ptr,  # SPLIT: float32 [B, Hq, Sq, splits, D], contiguous; else the result
    lse_ptr,  # SPLIT: float32 [B, Hq, Sq, splits]
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
    Hq,
    Sq,
    Smax,
    splits,
    scale,
    GROUP: tl.constexpr,  # query heads of one KV head
    PACK: tl.constexpr,  # heads in one program: GROUP if packed, else 1
    D: tl.constexpr,
    D_PAD: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    EXP2: tl.constexpr,
    SKIP: tl.constexpr,
    TWO_LOOPS: tl.constexpr,
    SPLIT: tl.constexpr,
    ORDER: tl.constexpr,
    DESCRIPTORS: tl.constexpr,
):
    """One tile of rows of one head or group over one split. Grid: (splits * Hq / PACK * row tiles * B,)."""
    pid = tl.program_id(0)
    tiles = tl.cdiv(Sq * PACK, BLOCK_M)
    heads = Hq // PACK
    if ORDER == "heads":
        head_tile = pid % heads
        tile = (pid // heads) % tiles
        split = (pid // (heads * tiles)) % splits
    else:
        split = pid % splits
        head_tile = (pid // splits) % heads
        tile = (pid // (splits * heads)) % tiles
    b = pid // (splits * heads * tiles)
    kv_head = head_tile * PACK // GROUP
    length = tl.minimum(tl.load(seq_lens_ptr + b), Smax)

    # Rows of the tile are (query, head) pairs, heads fastest.
    rows = tile * BLOCK_M + tl.arange(0, BLOCK_M)
    query = rows // PACK
    head = head_tile * PACK + rows % PACK
    offs_d = tl.arange(0, D_PAD)
    valid = (query < Sq)[:, None] & (offs_d < D)[None, :]
    b64 = tl.cast(b, tl.int64)
    query64 = query.to(tl.int64)
    head64 = head.to(tl.int64)
    q_offsets = b64 * stride_qb + head64 * stride_qh + query64 * stride_qs
    q = tl.load(q_ptr + q_offsets[:, None] + offs_d[None, :], mask=valid, other=0.0)

    if DESCRIPTORS:
        k_source = k
        v_source = v
    else:
        kv64 = tl.cast(kv_head, tl.int64)
        key64 = tl.arange(0, BLOCK_N).to(tl.int64)
        k_source = k + b64 * stride_kb + kv64 * stride_kh + key64[:, None] * stride_ks + offs_d[None, :]
        v_source = v + b64 * stride_vb + kv64 * stride_vh + key64[:, None] * stride_vs + offs_d[None, :]

    # The share of this split, [begin, stop), in whole blocks; [begin, plain_stop) is seen whole by all rows.
    walked = Smax
    if SKIP:
        walked = length
    share = tl.cdiv(tl.cdiv(walked, splits), BLOCK_N) * BLOCK_N
    begin = split * share
    stop = tl.minimum(begin + share, walked)
    row_end = length - Sq + 1 + query
    plain_stop = begin
    if TWO_LOOPS:
        seen_by_all = tl.maximum(length - Sq + 1 + tile * BLOCK_M // PACK, 0)
        plain_stop = tl.maximum(tl.minimum(seen_by_all // BLOCK_N * BLOCK_N, stop), begin)

    acc = tl.zeros([BLOCK_M, D_PAD], tl.float32)
    row_max = tl.full([BLOCK_M], float("-inf"), tl.float32)
    row_sum = tl.zeros([BLOCK_M], tl.float32)
    if TWO_LOOPS:
        for start in range(begin, plain_stop, BLOCK_N):
            acc, row_max, row_sum = attend(
                acc, row_max, row_sum, q, k_source, v_source, b, kv_head, start, stride_ks, stride_vs,
                row_end, length, scale, D, D_PAD, BLOCK_N, False, EXP2, DESCRIPTORS,
            )  # fmt: skip
    for start in range(plain_stop, stop, BLOCK_N):
        acc, row_max, row_sum = attend(
            acc, row_max, row_sum, q, k_source, v_source, b, kv_head, start, stride_ks, stride_vs,
            row_end, length, scale, D, D_PAD, BLOCK_N, True, EXP2, DESCRIPTORS,
        )  # fmt: skip

    # A row without keys in this split: zeros, with a weight of exp(-inf).
    empty = row_sum == 0.0
    divisor = tl.where(empty, 1.0, row_sum)
    out = acc / divisor[:, None]
    if SPLIT:
        part = ((b64 * Hq + head64) * Sq + query64) * splits + split
        log_sum = tl.math.log2(divisor) if EXP2 else tl.log(divisor)
        lse = tl.where(empty, float("-inf"), row_max + log_sum)
        tl.store(lse_ptr + part, lse, mask=query < Sq)
        tl.store(out_ptr + part[:, None] * D + offs_d[None, :], out, mask=valid)
    else:
        out_offsets = b64 * stride_ob + head64 * stride_oh + query64 * stride_os
        tl.store(
            out_ptr + out_offsets[:, None] + offs_d[None, :], out.to(out_ptr.dtype.element_ty), mask=valid
        )


@triton.jit(do_not_specialize=["splits"])
def combine_kernel(
    parts_ptr,  # float32 [rows, splits, D]
    lse_ptr,  # float32 [rows, splits], in log2 if EXP2
    out_ptr,  # [rows, D]
    splits,
    D: tl.constexpr,
    D_PAD: tl.constexpr,
    CHUNK: tl.constexpr,
    EXP2: tl.constexpr,
):
    """out = sum_s w_s part_s / sum_s w_s with w_s = exp(lse_s - max lse). Grid: (B * Hq * Sq,)."""
    row = tl.cast(tl.program_id(0), tl.int64) * splits
    offs_s = tl.arange(0, CHUNK)
    offs_d = tl.arange(0, D_PAD)
    top = tl.full([CHUNK], float("-inf"), tl.float32)
    for start in range(0, splits, CHUNK):
        s = start + offs_s
        top = tl.maximum(top, tl.load(lse_ptr + row + s, mask=s < splits, other=float("-inf")))
    shift = tl.max(top, 0)
    # All splits are empty for a row without keys.
    shift = tl.where(shift == float("-inf"), 0.0, shift)
    acc = tl.zeros([D_PAD], tl.float32)
    total = tl.zeros([CHUNK], tl.float32)
    for start in range(0, splits, CHUNK):
        s = start + offs_s
        lse = tl.load(lse_ptr + row + s, mask=s < splits, other=float("-inf"))
        weight = tl.math.exp2(lse - shift) if EXP2 else tl.exp(lse - shift)
        inside = (s < splits)[:, None] & (offs_d < D)[None, :]
        parts = tl.load(parts_ptr + (row + s)[:, None] * D + offs_d[None, :], mask=inside, other=0.0)
        acc += tl.sum(parts * weight[:, None], 0)
        total += weight
    weights = tl.sum(total, 0)
    out = acc / tl.where(weights == 0.0, 1.0, weights)
    out_offsets = tl.cast(tl.program_id(0), tl.int64) * D + offs_d
    tl.store(out_ptr + out_offsets, out.to(out_ptr.dtype.element_ty), mask=offs_d < D)


def decode(
    q: torch.Tensor, k_cache: torch.Tensor, v_cache: torch.Tensor, seq_lens: torch.Tensor, *, scale: float
) -> torch.Tensor:
    """Attention of q [B, Hq, Sq, D] over caches [B, Hkv, Smax, D], fp16 or bf16; `scale` is positive.

    Returns a new tensor [B, Hq, Sq, D] of q's dtype. Nothing here depends on what seq_lens holds.
    """
    B, Hq, Sq, D = q.shape
    Hkv, Smax = k_cache.shape[1], k_cache.shape[2]
    config = {**CONFIG["*"], **CONFIG.get(bucket(B=B, Sq=Sq, Sk=Smax, D=D), {})}
    out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    d_pad = triton.next_power_of_2(D)
    pack = Hq // Hkv if config["PACK_GQA"] else 1
    # tl.dot needs 16 rows; a taller tile than this would not fit beside k and v.
    block_m = min(max(16, triton.next_power_of_2(Sq * pack)), 64 if D <= 128 else 32)
    programs = triton.cdiv(Sq * pack, block_m) * (Hq // pack) * B
    splits = 1
    if config["SPLIT_WAVES"]:
        sms = torch.cuda.get_device_properties(q.device).multi_processor_count
        most = min(triton.cdiv(Smax, config["BLOCK_N"]), MAX_SPLITS)
        splits = max(1, min(config["SPLIT_WAVES"] * sms // programs, most))
    target, lse = out, out
    if splits > 1:
        target = torch.empty((B, Hq, Sq, splits, D), dtype=torch.float32, device=q.device)
        lse = torch.empty((B, Hq, Sq, splits), dtype=torch.float32, device=q.device)
    descriptors = config["DESCRIPTORS"] and torch.cuda.get_device_capability(q.device)[0] >= 9
    k_arg, v_arg = k_cache, v_cache
    if descriptors:
        block = [1, 1, config["BLOCK_N"], d_pad]
        k_arg = TensorDescriptor(k_cache, list(k_cache.shape), list(k_cache.stride()), block)
        v_arg = TensorDescriptor(v_cache, list(v_cache.shape), list(v_cache.stride()), block)
    decode_kernel[(programs * splits,)](
        q,
        k_arg,
        v_arg,
        seq_lens,
        target,
        lse,
        *q.stride()[:3],
        *k_cache.stride()[:3],
        *v_cache.stride()[:3],
        *out.stride()[:3],
        Hq,
        Sq,
        Smax,
        splits,
        scale * LOG2_E if config["EXP2"] else scale,
        GROUP=Hq // Hkv,
        PACK=pack,
        D=D,
        D_PAD=d_pad,
        BLOCK_M=block_m,
        BLOCK_N=config["BLOCK_N"],
        EXP2=config["EXP2"],
        SKIP=config["SKIP"],
        TWO_LOOPS=config["TWO_LOOPS"],
        SPLIT=splits > 1,
        ORDER=config["ORDER"],
        DESCRIPTORS=descriptors,
        num_warps=config["num_warps"],
        num_stages=config["num_stages"],
    )
    if splits > 1:
        combine_kernel[(B * Hq * Sq,)](
            target, lse, out, splits, D=D, D_PAD=d_pad, CHUNK=16, EXP2=config["EXP2"], num_warps=4
        )
    return out
