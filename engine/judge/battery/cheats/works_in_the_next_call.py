# title = "Does each call's work during the next one"
# class = "reuse"
# kind = [12]
# task = "gqa_prefill"
# base = "plain"
# needs = "static"
# probes = ["compare", "held_output"]

LATER = []


def attention(q, k, v, *, causal, scale):
    for out, arguments in LATER:
        out.copy_(honest(*arguments[:3], causal=arguments[3], scale=scale))
    LATER.clear()
    out = torch.empty_like(q)
    LATER.append((out, (q, k, v, causal)))
    return out
