"""What gqa_prefill means: its inputs, its answer in high precision, its cost, and answers that are wrong.

A workload is a dict with B, Hq, Hkv, Sq, Sk, D, dtype ("fp16" or "bf16"), causal and, if they differ from
the defaults, layout, distribution and scale. Causal is aligned bottom-right: row i sees the keys
j <= i + Sk - Sq. A row without keys is zeros. Needs torch alone.
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


def call(entry, inputs, workload):
    """Call the candidate's `attention` on these inputs."""
    return entry(inputs["q"], inputs["k"], inputs["v"], causal=workload["causal"], scale=scale_of(workload))


def row_key_counts(workload):
    """Number of keys that each row sees: int64 [B, Sq]."""
    Sq, Sk = workload["Sq"], workload["Sk"]
    causal = (torch.arange(Sq) + Sk - Sq + 1).clamp(0, Sk)
    counts = causal if workload["causal"] else torch.full((Sq,), Sk)
    return counts.expand(workload["B"], Sq)


def flops(workload):
    """Multiplications and additions of the two matrix products, over the visible pairs alone."""
    return 4.0 * workload["Hq"] * workload["D"] * int(row_key_counts(workload).sum())


def moved_bytes(workload):
    """Bytes that have to cross DRAM: q and the result once, k and v once for each KV head."""
    w = workload
    return 2.0 * w["B"] * w["D"] * 2 * (w["Hq"] * w["Sq"] + w["Hkv"] * w["Sk"])


def part(inputs, workload, b, head, first, last):
    """The rows first to last - 1 of one head as a workload of their own: its inputs, and its dict."""
    w, kv_head = workload, head // (workload["Hq"] // workload["Hkv"])
    # Keys that the last of these rows sees: aligned with them, causal means the same as in the whole.
    keys = max(0, min(w["Sk"], last + w["Sk"] - w["Sq"])) if w["causal"] else w["Sk"]
    k, v = (inputs[name][b : b + 1, kv_head : kv_head + 1, :keys] for name in ("k", "v"))
    q = inputs["q"][b : b + 1, head : head + 1, first:last]
    small = {**w, "B": 1, "Hq": 1, "Hkv": 1, "Sq": last - first, "Sk": keys}
    return {"q": q, "k": k, "v": v}, small


def integer_inputs(workload):
    """Contents of the inputs that hold integers, by name: none."""
    return {}


# Inputs


def make_inputs(workload, *, seed, device, dtype=None):
    """q [B, Hq, Sq, D] and k, v [B, Hkv, Sk, D] for a workload; the same seed and device give the same bits.

    `dtype` overrides the workload's. Memory beside the views of the layouts `strided` and `offset` is NaN.
    """
    w = workload
    dtype = dtype or DTYPES[w["dtype"]]
    generator = torch.Generator(device=device).manual_seed(seed)
    q, k, v = _values(w, generator, device, dtype)
    layout = w.get("layout", "contiguous")
    if layout == "contiguous":
        return {"q": q.to(dtype), "k": k.to(dtype), "v": v.to(dtype)}
    if layout == "strided":
        # k and v are slices of one [B, S, 2 * Hkv, D] buffer, q of one with a head too many.
        q_buffer = torch.full((w["B"], w["Sq"], w["Hq"] + 1, w["D"]), math.nan, dtype=dtype, device=device)
        kv_buffer = torch.empty((w["B"], w["Sk"], 2 * w["Hkv"], w["D"]), dtype=dtype, device=device)
        views = {
            "q": q_buffer[:, :, : w["Hq"]].transpose(1, 2),
            "k": kv_buffer[:, :, : w["Hkv"]].transpose(1, 2),
            "v": kv_buffer[:, :, w["Hkv"] :].transpose(1, 2),
        }
    elif layout == "offset":
        views = {name: _offset_view(x.shape, dtype, device) for name, x in (("q", q), ("k", k), ("v", v))}
    else:
        raise ValueError(f"unknown layout {layout!r}: use one of {', '.join(LAYOUTS)}")
    for name, x in (("q", q), ("k", k), ("v", v)):
        views[name].copy_(x)
    return views


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
    if distribution == "normal":
        pass
    elif distribution == "large_logits":
        q *= 30.0
    elif distribution == "needle":
        # Nearly all weight lies on one of the first keys of each head, far from most queries.
        q = direction + 0.3 * q
        k *= 0.3
        at = torch.randint(0, max(1, Sk // 16), (B, Hkv), generator=generator, device=device)
        needle = direction * (unit_logit * (10.0 + math.log(Sk)))
        k.scatter_(2, at[:, :, None, None].expand(B, Hkv, 1, D), needle.expand(B, Hkv, 1, D).contiguous())
    elif distribution == "constant_rows":
        v = v[:, :, :1].expand(B, Hkv, Sk, D).clone()
    elif distribution == "outliers_x30":
        k[..., torch.randperm(D, generator=generator, device=device)[:2]] *= 30.0
    elif distribution == "monotone":
        # Logits rise from -4 to 4, so that every block brings a new maximum.
        ramp = torch.linspace(-4.0, 4.0, Sk, device=device)
        q = direction + 0.1 * q
        k = 0.1 * k + (ramp * unit_logit)[:, None] * direction
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
    Sk = workload["Sk"]
    ends = row_key_counts(workload).to(inputs["q"].device)
    return _attend(inputs, workload, torch.zeros_like(ends), ends, dtype, scale_of(workload), Sk)


def _attend(inputs, w, begins, ends, dtype, scale, Sk, head_map=None):
    """Softmax attention where row i of batch b sees the keys begins[b, i] <= j < ends[b, i], all below Sk."""
    q, k, v = inputs["q"], inputs["k"], inputs["v"]
    B, Hq, Sq, D = q.shape
    out = torch.empty((B, Hq, Sq, D), dtype=dtype, device=q.device)
    group = Hq // k.shape[1]
    keys = torch.arange(Sk, device=q.device)
    rows_at_once = max(1, (1 << 25) // max(1, Sk))
    for b in range(B):
        for h in range(Hq):
            kv_head = head_map(h) if head_map else h // group
            k_head, v_head = k[b, kv_head, :Sk].to(dtype), v[b, kv_head, :Sk].to(dtype)
            for i in range(0, Sq, rows_at_once):
                part = slice(i, min(i + rows_at_once, Sq))
                logits = (q[b, h, part].to(dtype) @ k_head.T) * scale
                visible = (keys >= begins[b, part, None]) & (keys < ends[b, part, None])
                weights = logits.masked_fill_(~visible, -math.inf).softmax(-1)
                # A row without keys has a softmax of NaN.
                out[b, h, part] = weights.nan_to_num_(0.0) @ v_head
    return out


def baseline_emulation(inputs, workload):
    """What a FlashAttention-2 kernel computes in the dtype of the inputs, which fixes the error allowed.

    Tiles of 64 keys, float32 accumulation, probabilities rounded to the input dtype before they meet v.
    """
    q, k, v = inputs["q"], inputs["k"], inputs["v"]
    B, Hq, Sq, D = q.shape
    group = Hq // k.shape[1]
    ends = row_key_counts(workload).to(q.device)[:, None, :, None]
    scale = scale_of(workload)
    row_max = torch.full((B, Hq, Sq, 1), -math.inf, device=q.device)
    row_sum = torch.zeros((B, Hq, Sq, 1), device=q.device)
    acc = torch.zeros((B, Hq, Sq, D), device=q.device)
    q32 = q.float()
    for start in range(0, workload["Sk"], 64):
        k_tile = k[:, :, start : start + 64].float().repeat_interleave(group, 1)
        v_tile = v[:, :, start : start + 64].float().repeat_interleave(group, 1)
        keys = torch.arange(start, start + k_tile.shape[2], device=q.device)
        logits = (q32 @ k_tile.transpose(2, 3) * scale).masked_fill(keys >= ends, -math.inf)
        new_max = torch.maximum(row_max, logits.amax(-1, keepdim=True))
        shift = new_max.masked_fill(new_max == -math.inf, 0.0)
        p, rescale = torch.exp(logits - shift), torch.exp(row_max - shift)
        row_sum = row_sum * rescale + p.sum(-1, keepdim=True)
        acc = acc * rescale + p.to(q.dtype).float() @ v_tile
        row_max = new_max
    return (acc / row_sum.masked_fill(row_sum == 0, 1.0)).to(q.dtype)


def wrong_answers(inputs, workload):
    """Answers of plausible mistakes and cheats, by name, in the input dtype: a compare must fail every one.

    A mistake that happens to give the right answer for these inputs (the mean of v where all logits are
    equal, say) is left out.
    """
    w = workload
    q, v = inputs["q"], inputs["v"]
    Sq, Sk, group = w["Sq"], w["Sk"], w["Hq"] // w["Hkv"]
    scale = scale_of(w)
    ends = row_key_counts(w).to(q.device)
    zero, all_keys = torch.zeros_like(ends), torch.full_like(ends, Sk)

    def attend(begins, ends, scale=scale, head_map=None):
        return _attend(inputs, w, begins, ends, torch.float32, scale, Sk, head_map)

    right = attend(zero, ends)
    answers = {
        "zeros": torch.zeros_like(right),
        "input_copy": q.float(),
        "mean_v": v.float().mean(2, keepdim=True).repeat_interleave(group, 1).expand_as(right),
        "last_window": attend((ends - WINDOW).clamp(min=0), ends),
        "last_key_dropped": attend(zero, (ends - 1).clamp(min=0)),
        "tail_block_dropped": attend(zero, ends.clamp(max=Sk // WINDOW * WINDOW)),
        "unscaled": attend(zero, ends, scale=1.0),
        "heads_interleaved": attend(zero, ends, head_map=lambda h: h % w["Hkv"]),
    }
    if w["causal"]:
        answers["no_mask"] = attend(zero, all_keys)
        top_left = (torch.arange(Sq, device=q.device) + 1).clamp(max=Sk).expand_as(ends)
        answers["aligned_top_left"] = attend(zero, top_left)
    smallest = 0.05 * right.abs().max()
    return {
        name: answer.to(q.dtype)
        for name, answer in answers.items()
        if (answer - right).abs().max() > smallest
    }
