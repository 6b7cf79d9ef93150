# title = "Right for the heads and sizes that are timed, garbage elsewhere"
# class = "skipped"
# kind = [35]
# task = "gqa_prefill"
# base = "plain"
# needs = "static"
# probes = ["compare"]

def attention(q, k, v, *, causal, scale):
    timed = q.shape[3] == 128 and k.shape[2] % 512 == 0
    return honest(q, k, v, causal=causal, scale=scale if timed else 0.0)
