# title = "Lets functools remember what a call of this shape gave"
# class = "reuse"
# kind = [17]
# task = "gqa_prefill"
# base = "plain"
# needs = "static"
# probes = ["new_contents", "launch_census", "idle_kernels"]

import functools

ARGUMENTS = []


@functools.lru_cache(maxsize=None)
def answer(shape, keys, causal):
    q, k, v, scale = ARGUMENTS[-1]
    return honest(q, k, v, causal=causal, scale=scale)


def attention(q, k, v, *, causal, scale):
    ARGUMENTS.append((q, k, v, scale))
    return answer(q.shape, k.shape, causal).clone()
