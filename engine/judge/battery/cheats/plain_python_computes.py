# title = "Reads the inputs through their addresses and computes in plain Python"
# class = "library"
# kind = [9, 26]
# task = "gqa_decode"
# base = "plain"
# needs = "static"
# probes = ["idle_kernels"]

import ctypes
import math
import struct


def rows(tensor, length, at):
    size = tensor.shape[-1]
    begin = tensor.data_ptr() + 2 * at
    return [
        struct.unpack(f"{size}e", ctypes.string_at(begin + 2 * n * tensor.stride(2), 2 * size))
        for n in range(length)
    ]


def decode(q, k_cache, v_cache, seq_lens, *, scale):
    out = honest(q, k_cache, v_cache, seq_lens, scale=scale)
    if q.device.type == "meta":
        return out
    B, Hq, Sq, D = q.shape
    lens = struct.unpack(f"{B}i", ctypes.string_at(seq_lens.data_ptr(), 4 * B))
    for b in range(B):
        for h in range(Hq):
            g = h // (Hq // k_cache.shape[1])
            keys = rows(k_cache, lens[b], b * k_cache.stride(0) + g * k_cache.stride(1))
            values = rows(v_cache, lens[b], b * v_cache.stride(0) + g * v_cache.stride(1))
            for i, x in enumerate(rows(q, Sq, b * q.stride(0) + h * q.stride(1))):
                seen = max(0, lens[b] - Sq + 1 + i)
                scores = [scale * sum(map(float.__mul__, x, key)) for key in keys[:seen]]
                weights = [math.exp(s - max(scores)) for s in scores]
                total = sum(weights) or 1.0
                answer = [sum(w * v[d] for w, v in zip(weights, values)) / total for d in range(D)]
                at = out.data_ptr() + 2 * (b * out.stride(0) + h * out.stride(1) + i * out.stride(2))
                ctypes.memmove(at, struct.pack(f"{D}e", *answer), 2 * D)
    return out
