"""What gqa_decode means: its inputs, its answer in high precision, its cost, and answers that are wrong.

A workload is a dict with B, Hq, Hkv, Sq, Sk (room in the cache), D, dtype ("fp16" or "bf16") and, if they
differ from the defaults, seq_lens (all Sk), layout, distribution and scale. The queries are the last Sq
positions of their sequence: row i sees the keys j <= seq_lens[b] - Sq + i. A row without keys is zeros.
Needs torch alone.
"""

import math

import torch

DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16}
LAYOUTS = ("contiguous", "strided", "offset")
DISTRIBUTIONS = (
    "normal",
    "large_logits",
    "needle",
    "constant_rows",
    "outliers_x30",
    "monotone",
    "denormals",
    "zeros_k",
    "sink",
)
WINDOW = 64
"""Keys that the wrong answer `last_window` looks at."""


def scale_of(workload):
    """The factor on the logits: the workload's, else 1 / sqrt(D)."""
    return workload.get("scale") or 1.0 / math.sqrt(workload["D"])


def lengths_of(workload):
    """Keys in the cache of each sequence: list of B ints."""
    lengths = workload.get("seq_lens")
    return [workload["Sk"]] * workload["B"] if lengths is None else list(lengths)


def call(entry, inputs, workload):
    """Call the candidate's `decode` on these inputs."""
    caches = inputs["k_cache"], inputs["v_cache"], inputs["seq_lens"]
    return entry(inputs["q"], *caches, scale=scale_of(workload))


def row_key_counts(workload):
    """Number of keys that each row sees: int64 [B, Sq]."""
    Sq = workload["Sq"]
    lengths = torch.tensor(lengths_of(workload), dtype=torch.int64)
    return (lengths[:, None] - Sq + 1 + torch.arange(Sq)).clamp(min=0)


def flops(workload):
    """Multiplications and additions of the two matrix products, over the visible pairs alone."""
    return 4.0 * workload["Hq"] * workload["D"] * int(row_key_counts(workload).sum())


def moved_bytes(workload):
    """Bytes that have to cross DRAM: q, result and lengths once, k and v once for each KV head."""
    w = workload
    rows = w["B"] * w["Hq"] * w["Sq"] + w["Hkv"] * sum(lengths_of(w))
    return 2.0 * 2 * w["D"] * rows + 4 * w["B"]


def part(inputs, workload, b, head, first, last):
    """The queries first to last - 1 of one head as a workload of their own: its inputs, and its dict."""
    w, kv_head = workload, head // (workload["Hq"] // workload["Hkv"])
    # With the later queries left out, the sequence ends where the last of these stands.
    length = max(0, lengths_of(w)[b] - w["Sq"] + last)
    room = max(1, length)
    caches = {n: inputs[n][b : b + 1, kv_head : kv_head + 1, :room] for n in ("k_cache", "v_cache")}
    q = inputs["q"][b : b + 1, head : head + 1, first:last]
    seq_lens = torch.tensor([length], dtype=torch.int32, device=q.device)
    small = {**w, "B": 1, "Hq": 1, "Hkv": 1, "Sq": last - first, "Sk": room, "seq_lens": [length]}
    return {"q": q, **caches, "seq_lens": seq_lens}, small


def integer_inputs(workload):
    """Contents of the inputs that hold integers, by name."""
    return {"seq_lens": lengths_of(workload)}


# Inputs


def make_inputs(workload, *, seed, device, dtype=None):
    """q [B, Hq, Sq, D], k_cache, v_cache [B, Hkv, Sk, D] and seq_lens int32 [B] for a workload.

    The same seed and device give the same bits. `dtype` overrides the workload's. The caches beyond seq_lens
    are NaN, and so is the memory beside the views of the layouts `strided` and `offset`.
    """
    w = workload
    dtype = dtype or DTYPES[w["dtype"]]
    generator = torch.Generator(device=device).manual_seed(seed)
    seq_lens = torch.tensor(lengths_of(w), dtype=torch.int32, device=device)
    q, k, v = _values(w, generator, device, dtype)
    beyond = (torch.arange(w["Sk"], device=device) >= seq_lens[:, None])[:, None, :, None]
    parts = {"q": q, "k_cache": k.masked_fill_(beyond, math.nan), "v_cache": v.masked_fill_(beyond, math.nan)}
    layout = w.get("layout", "contiguous")
    if layout == "contiguous":
        return {**{name: x.to(dtype) for name, x in parts.items()}, "seq_lens": seq_lens}
    if layout == "strided":
        # The caches are slices of one [B, S, 2 * Hkv, D] buffer, q of one with a head too many.
        q_buffer = torch.full((w["B"], w["Sq"], w["Hq"] + 1, w["D"]), math.nan, dtype=dtype, device=device)
        kv_buffer = torch.empty((w["B"], w["Sk"], 2 * w["Hkv"], w["D"]), dtype=dtype, device=device)
        views = {
            "q": q_buffer[:, :, : w["Hq"]].transpose(1, 2),
            "k_cache": kv_buffer[:, :, : w["Hkv"]].transpose(1, 2),
            "v_cache": kv_buffer[:, :, w["Hkv"] :].transpose(1, 2),
        }
    elif layout == "offset":
        views = {name: _offset_view(x.shape, dtype, device) for name, x in parts.items()}
    else:
        raise ValueError(f"unknown layout {layout!r}: use one of {', '.join(LAYOUTS)}")
    for name, x in parts.items():
        views[name].copy_(x)
    return {**views, "seq_lens": seq_lens}


def _offset_view(shape, dtype, device):
    """A contiguous view that begins 16 bytes into its buffer, NaN on both sides."""
    guard = 16 // dtype.itemsize
    count = math.prod(shape)
    buffer = torch.full((count + 2 * guard,), math.nan, dtype=dtype, device=device)
    return buffer[guard : guard + count].view(shape)


def _values(w, generator, device, dtype):
    """q, k, v in float32, before they are rounded to the dtype and laid out."""
    B, Hq, Hkv, Sq, Sk, D = (w[n] for n in ("B", "Hq", "Hkv", "Sq", "Sk", "D"))

    def normal(*shape):
        return torch.randn(shape, generator=generator, device=device, dtype=torch.float32)

    q, k, v = normal(B, Hq, Sq, D), normal(B, Hkv, Sk, D), normal(B, Hkv, Sk, D)
    distribution = w.get("distribution", "normal")
    # One direction of length sqrt(D), in which queries and chosen keys agree.
    direction = torch.where(normal(D) < 0, -1.0, 1.0)
    unit_logit = 1.0 / (scale_of(w) * D)
    lengths = lengths_of(w)
    if distribution == "normal":
        pass
    elif distribution == "large_logits":
        q *= 30.0
    elif distribution == "needle":
        # Nearly all weight lies on one of the first keys of each sequence, far from its queries.
        q = direction + 0.3 * q
        k *= 0.3
        draws = torch.rand(B, generator=generator, device=device).tolist()
        for b, (draw, length) in enumerate(zip(draws, lengths, strict=True)):
            k[b, :, int(draw * length / 16)] = direction * (unit_logit * (10.0 + math.log(Sk)))
    elif distribution == "constant_rows":
        v = v[:, :, :1].expand(B, Hkv, Sk, D).clone()
    elif distribution == "outliers_x30":
        k[..., torch.randperm(D, generator=generator, device=device)[:2]] *= 30.0
    elif distribution == "monotone":
        # Logits rise from -4 to 4 over each sequence, so that every block brings a new maximum.
        steps = 8.0 / (torch.tensor(lengths, device=device).clamp(min=2) - 1)
        ramp = torch.arange(Sk, device=device) * steps[:, None] - 4.0
        q = direction + 0.1 * q
        k = 0.1 * k + (ramp * unit_logit)[:, None, :, None] * direction
    elif distribution == "denormals":
        tiny = torch.finfo(dtype).tiny
        k *= tiny / 4
        v[..., ::2] *= tiny / 4
    elif distribution == "zeros_k":
        k.zero_()
    elif distribution == "sink":
        # The first key outweighs each later one by far and all of them by little: they count together, most
        # of all in v, where they agree. By head the sink has the weight of all others, 12 times it, or 150.
        q = direction + 0.1 * q
        k *= 0.1
        v = torch.cat((0.3 * v[:, :, :1], 1.0 + 0.3 * v[:, :, 1:]), 2)
        turns = torch.arange(B, device=device)[:, None] + torch.arange(Hkv, device=device)
        logits = 2.5 * (turns % 3) + math.log(Sk)
        k[:, :, 0] = direction * (logits * unit_logit)[..., None]
    else:
        raise ValueError(f"unknown distribution {distribution!r}: use one of {', '.join(DISTRIBUTIONS)}")
    return q, k, v


# Answers


def reference(inputs, workload, *, dtype=torch.float64):
    """The answer [B, Hq, Sq, D] in `dtype` (float64, or float32 where that is exact enough)."""
    ends = row_key_counts(workload)
    return _attend(inputs, workload, torch.zeros_like(ends), ends, dtype, scale_of(workload))


def _attend(inputs, w, begins, ends, dtype, scale, head_map=None):
    """Softmax attention where row i of batch b sees the keys begins[b, i] <= j < ends[b, i]."""
    q, k, v = inputs["q"], inputs["k_cache"], inputs["v_cache"]
    out = torch.zeros(q.shape, dtype=dtype, device=q.device)
    Hq, group = w["Hq"], w["Hq"] // w["Hkv"]
    begins, ends = begins.to(q.device), ends.to(q.device)
    heads = torch.tensor([head_map(h) if head_map else h // group for h in range(Hq)], device=q.device)
    for b, length in enumerate(lengths_of(w)):
        keys = torch.arange(length, device=q.device)
        visible = (keys >= begins[b, :, None]) & (keys < ends[b, :, None])
        for kv_head in range(w["Hkv"]):
            mine = (heads == kv_head).nonzero().flatten()
            k_head, v_head = k[b, kv_head, :length].to(dtype), v[b, kv_head, :length].to(dtype)
            logits = (q[b, mine].to(dtype) @ k_head.T) * scale
            weights = logits.masked_fill_(~visible, -math.inf).softmax(-1)
            # A row without keys has a softmax of NaN.
            out[b, mine] = weights.nan_to_num_(0.0) @ v_head
    return out


def baseline_emulation(inputs, workload):
    """What a FlashAttention-2 kernel computes in the dtype of the inputs, which fixes the error allowed.

    Tiles of 64 keys, float32 accumulation, probabilities rounded to the input dtype before they meet v.
    """
    w = workload
    q, k, v = inputs["q"], inputs["k_cache"], inputs["v_cache"]
    B, Hq, Sq, D = q.shape
    Hkv, scale = w["Hkv"], scale_of(w)
    # The rows of a group side by side: [B, Hkv, group * Sq, ...].
    rows = Hq // Hkv * Sq
    q32 = q.float().reshape(B, Hkv, rows, D)
    ends = row_key_counts(w).to(q.device).repeat(1, rows // Sq)[:, None, :, None]
    lengths = torch.tensor(lengths_of(w), device=q.device)[:, None]
    row_max = torch.full((B, Hkv, rows, 1), -math.inf, device=q.device)
    row_sum = torch.zeros((B, Hkv, rows, 1), device=q.device)
    acc = torch.zeros((B, Hkv, rows, D), device=q.device)
    for start in range(0, w["Sk"], 64):
        keys = torch.arange(start, min(start + 64, w["Sk"]), device=q.device)
        garbage = (keys >= lengths)[:, None, :, None]
        k_tile = k[:, :, start : start + 64].float().masked_fill(garbage, 0.0)
        v_tile = v[:, :, start : start + 64].float().masked_fill(garbage, 0.0)
        logits = (q32 @ k_tile.transpose(2, 3) * scale).masked_fill(keys >= ends, -math.inf)
        new_max = torch.maximum(row_max, logits.amax(-1, keepdim=True))
        shift = new_max.masked_fill(new_max == -math.inf, 0.0)
        p, rescale = torch.exp(logits - shift), torch.exp(row_max - shift)
        row_sum = row_sum * rescale + p.sum(-1, keepdim=True)
        acc = acc * rescale + p.to(q.dtype).float() @ v_tile
        row_max = new_max
    out = acc / row_sum.masked_fill(row_sum == 0, 1.0)
    return out.to(q.dtype).view(B, Hq, Sq, D)


def wrong_answers(inputs, workload):
    """Answers of plausible mistakes and cheats, by name, in the input dtype: a compare must fail every one.

    A mistake that happens to give the right answer for these inputs (the mean of v where all logits are
    equal, say) is left out.
    """
    w = workload
    q = inputs["q"]
    lengths = torch.tensor(lengths_of(w))[:, None]
    ends = row_key_counts(w)
    zero, all_keys = torch.zeros_like(ends), lengths.expand_as(ends)
    scale = scale_of(w)

    def attend(begins, ends, scale=scale, head_map=None):
        return _attend(inputs, w, begins, ends, torch.float32, scale, head_map)

    right = attend(zero, ends)
    # A kernel that lets the cache beyond seq_lens reach the product with v.
    has_garbage = (lengths < w["Sk"]).to(q.device)[:, :, None, None]
    answers = {
        "zeros": torch.zeros_like(right),
        "input_copy": q.float(),
        "mean_v": attend(zero, all_keys, scale=0.0),
        "last_window": attend((ends - WINDOW).clamp(min=0), ends),
        "first_half": attend(zero, (ends + 1) // 2),
        "last_key_dropped": attend(zero, (ends - 1).clamp(min=0)),
        "tail_block_dropped": attend(zero, torch.minimum(ends, lengths // WINDOW * WINDOW)),
        "unscaled": attend(zero, ends, scale=1.0),
        "heads_interleaved": attend(zero, ends, head_map=lambda h: h % w["Hkv"]),
        "no_mask_among_queries": attend(zero, all_keys),
        "garbage_read": right.masked_fill(has_garbage, math.nan),
    }
    smallest = 0.05 * right.abs().max()
    # A difference of NaN is no small one.
    return {
        name: answer.to(q.dtype)
        for name, answer in answers.items()
        if not (answer - right).abs().max() <= smallest
    }
