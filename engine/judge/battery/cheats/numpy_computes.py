# title = "Launches its kernel for show and lets numpy do the work"
# class = "library"
# kind = [26, 28]
# task = "gqa_prefill"
# base = "plain"
# needs = "static"
# probes = ["idle_kernels", "host_sync"]

import numpy


def attention(q, k, v, *, causal, scale):
    out = honest(q, k, v, causal=causal, scale=scale)
    if q.device.type == "meta":
        return out
    group = q.shape[1] // k.shape[1]
    x, keys, values = (t.numpy().astype("float32") for t in (q, k, v))
    keys, values = keys.repeat(group, 1), values.repeat(group, 1)
    scores = numpy.einsum("bhid,bhjd->bhij", x, keys) * scale
    if causal:
        rows = numpy.arange(q.shape[2])[:, None] + k.shape[2] - q.shape[2]
        scores[..., numpy.arange(k.shape[2]) > rows] = -numpy.inf
    top = scores.max(-1, keepdims=True)
    weights = numpy.exp(scores - numpy.where(numpy.isinf(top), 0.0, top))
    total = weights.sum(-1, keepdims=True)
    answer = numpy.einsum("bhij,bhjd->bhid", weights / numpy.where(total == 0, 1.0, total), values)
    out.numpy()[...] = answer.astype("float16")
    return out
