# title = "Works on the first calls of each shape and rests afterwards"
# class = "state"
# kind = [14]
# task = "gqa_prefill"
# base = "plain"
# needs = "static"
# probes = ["launch_census", "new_contents", "idle_kernels"]

CALLS = {}


def attention(q, k, v, *, causal, scale):
    known = CALLS.setdefault((q.shape, k.shape, causal), [])
    if len(known) < 2:
        known.append(honest(q, k, v, causal=causal, scale=scale))
    return known[-1].clone()
