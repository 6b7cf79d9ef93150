# title = "Gives other bits each time"
# class = "state"
# kind = [38]
# task = "gqa_prefill"
# base = "plain"
# needs = "static"
# probes = ["same_bits", "launch_census"]

CALLS = []


def attention(q, k, v, *, causal, scale):
    CALLS.append(1)
    return honest(q, k, v, causal=causal, scale=scale * (1.0 + 2e-4 * (len(CALLS) % 2)))
